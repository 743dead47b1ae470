//go:build linux

package probe

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// resourceAttacks use up what is shared. Whoever starts them says how much the
// sandbox may have.
var resourceAttacks = []Attack{
	{Name: "disk", Tries: "fill every writable place, with files and with unlinked files", Args: "BYTES", run: disk},
	{Name: "memory", Tries: "hold more memory than the limit, in several processes", Args: "BYTES", run: memory},
	{Name: "memory-shared", Tries: "hold more memory than the limit in files in memory that no limit of a process counts", Args: "BYTES", run: memoryShared},
	{Name: "processes", Tries: "start more processes than the limit: a fork bomb of double forks", Args: "COUNT", Stays: true, run: processes},
	{Name: "terminals", Tries: "take more of the machine's pseudo-terminals than one sandbox should have", Args: "COUNT", run: terminals},
	{Name: "inotify", Tries: "take an inotify instance while a neighbour has taken all of its own", run: inotify},
	{Name: "fork", Tries: "start a process while a neighbour has started all of its own", run: fork},
	{Name: "kill-all", Tries: "kill every process with kill(-1); whoever starts it looks whether the init still answers", Survivable: true, run: killAll},
}

// bytesArg reads the one argument of an attack.
func bytesArg(args []string) (int64, error) {
	if len(args) != 1 {
		return 0, fmt.Errorf("it needs one number")
	}
	return strconv.ParseInt(args[0], 10, 64)
}

func disk(args []string) Finding {
	limit, err := bytesArg(args)
	if err != nil {
		return unknown("%v", err)
	}
	var total int64
	var told []string
	block := make([]byte, 1<<20)
	var held []int
	defer func() {
		for _, fd := range held {
			unix.Close(fd)
		}
	}()
	for _, dir := range writablePlaces() {
		for _, hidden := range []bool{true, false} {
			path := filepath.Join(dir, fmt.Sprintf(".skerry-probe-%v", hidden))
			fd, err := unix.Open(path, unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
			if err != nil {
				told = append(told, fmt.Sprintf("%s: %v", dir, err))
				continue
			}
			held = append(held, fd)
			if hidden {
				_ = unix.Unlink(path)
			} else {
				defer os.Remove(path)
			}
			var here int64
			for {
				n, err := unix.Write(fd, block)
				here += int64(max(n, 0))
				total += int64(max(n, 0))
				if err != nil {
					told = append(told, fmt.Sprintf("%s: %v after %d KiB", dir, err, here>>10))
					break
				}
				if total > limit {
					return open("wrote %d MiB, the last in %s", total>>20, dir)
				}
			}
		}
	}
	if total == 0 {
		return unknown("nothing could be written at all: %s", brief(told))
	}
	return blocked("%d MiB fit in all: %s", total>>20, brief(told))
}

// writablePlaces gives the folders that can be written, as deep as two levels
// below each mount.
func writablePlaces() []string {
	var places []string
	seen := map[string]bool{}
	try := func(dir string) {
		if seen[dir] {
			return
		}
		seen[dir] = true
		if writeFile(filepath.Join(dir, ".skerry-probe")) == nil {
			places = append(places, dir)
		}
	}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return []string{"/workspace", "/tmp", "/dev/shm"}
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		dir := unescapeMount(fields[4])
		if strings.HasPrefix(dir, "/proc") || strings.HasPrefix(dir, "/sys") {
			continue
		}
		try(dir)
		deeper, _ := filepath.Glob(filepath.Join(dir, "*"))
		const most = 200
		for _, d := range deeper[:min(len(deeper), most)] {
			if info, err := os.Lstat(d); err == nil && info.IsDir() {
				try(d)
			}
		}
	}
	return places
}

// unescapeMount undoes the octal escapes of mountinfo.
func unescapeMount(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// hogs is how many processes share the work of holding too much: what bounds
// each process alone does not bound the sandbox.
const hogs = 8

func memory(args []string) Finding {
	limit, err := bytesArg(args)
	if err != nil {
		return unknown("%v", err)
	}
	exe, err := os.Executable()
	if err != nil {
		return unknown("%v", err)
	}
	var running []*exec.Cmd
	defer func() {
		for _, c := range running {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}()
	for i := range hogs {
		c := exec.Command(exe, "probe", "hold-memory", strconv.FormatInt(limit/hogs, 10))
		out, err := c.StdoutPipe()
		if err != nil {
			return unknown("%v", err)
		}
		if err := c.Start(); err != nil {
			return unknown("start a process: %v", err)
		}
		running = append(running, c)
		if told, _ := bufio.NewReader(out).ReadString('\n'); told == "" {
			return blocked("%d processes of %d MiB each could hold it, the next ended: %v", i, limit/hogs>>20, c.Wait())
		}
	}
	time.Sleep(memoryReaction)
	for i, c := range running {
		// One that had told may have been ended for what a later one took.
		if state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.Process.Pid)); err != nil || strings.Contains(string(state), ") Z ") {
			return blocked("the kernel ended process %d of %d", i+1, hogs)
		}
	}
	return open("%d processes held %d MiB in all", hogs, limit>>20)
}

// memoryReaction is how long what is held too much may be held: where no
// control group counts memory it is measured from time to time.
const memoryReaction = 3 * time.Second

// memoryShared is ended, or it is open.
func memoryShared(args []string) Finding {
	limit, err := bytesArg(args)
	if err != nil {
		return unknown("%v", err)
	}
	block := make([]byte, 1<<20)
	var held int64
	for held < limit {
		fd, err := unix.MemfdCreate("probe", unix.MFD_CLOEXEC)
		if err != nil {
			return unknown("%v", err)
		}
		defer unix.Close(fd)
		n, err := unix.Write(fd, block)
		held += int64(max(n, 0))
		if err != nil {
			return blocked("%v after %d MiB", err, held>>20)
		}
	}
	time.Sleep(memoryReaction)
	return open("held %d MiB for %v", held>>20, memoryReaction)
}

// holdMemory holds so many bytes and says so, until it is ended.
func holdMemory(args []string, stdout io.Writer) int {
	size, err := bytesArg(args)
	if err != nil {
		return 2
	}
	m, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return 3
	}
	for i := 0; i < len(m); i += os.Getpagesize() {
		m[i] = 1
	}
	return hold(stdout, int(size>>20))
}

// forkIdle makes a child that does nothing until it is killed.
func forkIdle() (int, error) {
	pid, _, e := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if e != 0 {
		return 0, e
	}
	if pid == 0 {
		idleChild()
	}
	return int(pid), nil
}

// idleChild waits for ever in a child that has none of the parent's threads.
func idleChild() {
	for {
		_, _, _ = unix.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
	}
}

func processes(args []string) Finding {
	limit, err := bytesArg(args)
	if err != nil {
		return unknown("%v", err)
	}
	// The children are not ended here: that is the sandbox's work, and part of
	// what is tested.
	for n := int64(0); ; n++ {
		pid, _, e := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if e != 0 {
			return blocked("%v after %d processes", e, n)
		}
		if pid == 0 {
			_, _, _ = unix.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
			idleChild()
		}
		if n > limit {
			return open("started %d processes", n)
		}
	}
}

// terminals is ended, or refused, or it is open.
func terminals(args []string) Finding {
	count, err := bytesArg(args)
	if err != nil {
		return unknown("%v", err)
	}
	for n := int64(0); n < count; n++ {
		fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		switch {
		case err == unix.ENOSPC && n > 0:
			return blocked("%v after %d", err, n)
		case err != nil:
			return unknown("%v after %d", err, n)
		}
		defer unix.Close(fd)
	}
	time.Sleep(memoryReaction)
	return open("held %d for %v", count, memoryReaction)
}

func inotify([]string) Finding {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return open("the neighbour has used up this sandbox's instances too: %v", err)
	}
	unix.Close(fd)
	return blocked("there are instances left here")
}

func fork([]string) Finding {
	pid, err := forkIdle()
	if err != nil {
		return open("the neighbour has used up this sandbox's processes too: %v", err)
	}
	_ = unix.Kill(pid, unix.SIGKILL)
	_, _ = unix.Wait4(pid, nil, 0, nil)
	return blocked("a process can be started here")
}

func killAll([]string) Finding {
	signal.Ignore(unix.SIGTERM)
	if err := unix.Kill(-1, unix.SIGKILL); err != nil {
		return judge(attempt{"kill(-1)", err})
	}
	return unknown("kill(-1) was sent; what counts is whether the init still answers")
}
