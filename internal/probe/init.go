//go:build linux

package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// initAttacks go for the memory, the files and the binary of the init and of
// its keepers.
var initAttacks = []Attack{
	{Name: "init-memory", Tries: "read and write the memory of the init and of every keeper through /proc/PID/mem", run: initMemory},
	{Name: "init-ptrace", Tries: "attach to the init and to every keeper with ptrace", run: initPtrace},
	{Name: "init-process-vm", Tries: "read and write the init's memory with process_vm_readv and process_vm_writev", run: initProcessVM},
	{Name: "init-descriptors", Tries: "take the init's open files with pidfd_getfd and through /proc/PID/fd", run: initDescriptors},
	{Name: "init-proc", Tries: "use /proc/PID of the init: root, cwd, exe, environ, oom_score_adj, uid_map and others", run: initProc},
	{Name: "init-binary", Tries: "read, write, replace and remove the init's binary", run: initBinary},
	{Name: "inherited-descriptors", Tries: "find an open file that was inherited by mistake", run: inheritedDescriptors},
}

// guards gives the processes that user code must not touch: pid 1, and
// everything that bears its name, keepers and spares.
func guards() []int {
	pids := []int{1}
	name, err := os.ReadFile("/proc/1/comm")
	if err != nil {
		return pids
	}
	all, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, path := range all {
		comm, err := os.ReadFile(path)
		pid, convErr := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && convErr == nil && string(comm) == string(name) && pid != 1 && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

func initMemory([]string) Finding {
	var attempts []attempt
	for _, pid := range guards() {
		for _, mode := range []int{unix.O_RDONLY, unix.O_RDWR} {
			what := fmt.Sprintf("open /proc/%d/mem %s", pid, map[int]string{unix.O_RDONLY: "for reading", unix.O_RDWR: "for writing"}[mode])
			fd, err := unix.Open(fmt.Sprintf("/proc/%d/mem", pid), mode, 0)
			if err == nil {
				unix.Close(fd)
			}
			attempts = append(attempts, attempt{what, err})
		}
	}
	return judge(attempts...)
}

func initPtrace([]string) Finding {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var attempts []attempt
	for _, pid := range guards() {
		_, _, e := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, 0, 0, 0)
		attempts = append(attempts, attempt{fmt.Sprintf("PTRACE_SEIZE %d", pid), errno(e)})
		if e == 0 {
			continue // attaching too would leave it stopped; the seizure ends with this process
		}
		_, _, e = unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_ATTACH, uintptr(pid), 0, 0, 0, 0)
		attempts = append(attempts, attempt{fmt.Sprintf("PTRACE_ATTACH %d", pid), errno(e)})
	}
	return judge(attempts...)
}

func initProcessVM([]string) Finding {
	buf := make([]byte, 8)
	local := []unix.Iovec{{Base: &buf[0], Len: 8}}
	// The address need not be mapped: without a defence the kernel looks it up
	// and says EFAULT, with one it refuses before.
	remote := []unix.RemoteIovec{{Base: uintptr(0x400000), Len: 8}}
	reached := func(err error) error {
		if err == unix.EFAULT {
			return nil
		}
		return err
	}
	var attempts []attempt
	for _, pid := range guards() {
		_, err := unix.ProcessVMReadv(pid, local, remote, 0)
		attempts = append(attempts, attempt{fmt.Sprintf("process_vm_readv %d", pid), reached(err)})
		_, err = unix.ProcessVMWritev(pid, local, remote, 0)
		attempts = append(attempts, attempt{fmt.Sprintf("process_vm_writev %d", pid), reached(err)})
	}
	return judge(attempts...)
}

func initDescriptors([]string) Finding {
	var attempts []attempt
	for _, pid := range guards() {
		_, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		attempts = append(attempts, attempt{fmt.Sprintf("list /proc/%d/fd", pid), err})
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			attempts = append(attempts, attempt{fmt.Sprintf("pidfd_open %d", pid), err})
			continue
		}
		got, err := unix.PidfdGetfd(fd, 0, 0)
		if err == nil {
			unix.Close(got)
		}
		unix.Close(fd)
		attempts = append(attempts, attempt{fmt.Sprintf("pidfd_getfd %d", pid), err})
	}
	return judge(attempts...)
}

func initProc([]string) Finding {
	var attempts []attempt
	for _, name := range []string{"root", "cwd", "exe", "ns/mnt", "ns/user"} {
		_, err := os.Readlink("/proc/1/" + name)
		attempts = append(attempts, attempt{"readlink /proc/1/" + name, err})
	}
	for _, name := range []string{"environ", "maps", "auxv", "syscall", "stack", "io", "personality", "pagemap"} {
		f, err := os.Open("/proc/1/" + name)
		if os.IsNotExist(err) {
			continue // this kernel has no such file
		}
		if err == nil {
			_, err = f.Read(make([]byte, 1))
			f.Close()
		}
		attempts = append(attempts, attempt{"read /proc/1/" + name, err})
	}
	for _, name := range []string{"oom_score_adj", "coredump_filter", "clear_refs", "attr/current", "comm", "uid_map", "gid_map", "setgroups", "timerslack_ns", "sched", "autogroup", "loginuid"} {
		fd, err := unix.Open("/proc/1/"+name, unix.O_WRONLY, 0)
		if err == unix.ENOENT {
			continue // this kernel has no such file
		}
		if err == nil { // some can be opened by anybody, and are refused at the write
			_, err = unix.Write(fd, []byte("0"))
			unix.Close(fd)
		}
		attempts = append(attempts, attempt{"write /proc/1/" + name, err})
	}
	return judge(attempts...)
}

func initBinary([]string) Finding {
	path := "/run/skerry/init"
	if _, err := os.Lstat(path); err != nil {
		return unknown("%v", err)
	}
	var attempts []attempt
	for _, p := range []string{path, "/proc/self/exe"} {
		for _, mode := range []int{unix.O_WRONLY, unix.O_RDWR, unix.O_WRONLY | unix.O_TRUNC} {
			fd, err := unix.Open(p, mode, 0)
			if err == nil {
				unix.Close(fd)
			}
			if err == unix.ETXTBSY {
				err = nil // the only thing in the way is that it runs at this moment
			}
			attempts = append(attempts, attempt{fmt.Sprintf("open %s for writing (flags %#x)", p, mode), err})
		}
	}
	busy := func(err error) error {
		if err == unix.EBUSY {
			return refusedAs("it is a mount point")
		}
		return err
	}
	attempts = append(attempts,
		attempt{"chmod " + path, unix.Chmod(path, 0o777)},
		attempt{"rename " + path, busy(unix.Rename(path, path+"-old"))},
		attempt{"remove " + path, busy(unix.Unlink(path))},
		attempt{"truncate " + path, unix.Truncate(path, 0)},
	)
	return judge(attempts...)
}

func inheritedDescriptors([]string) Finding {
	var found []string
	for fd := 3; fd < 4096; fd++ {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC != 0 {
			continue // what closes at an exec was opened after it, by the Go runtime
		}
		link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		if err != nil {
			link = "?"
		}
		found = append(found, fmt.Sprintf("%d (%s)", fd, link))
	}
	if len(found) > 0 {
		return open("inherited %s", brief(found))
	}
	return blocked("nothing is open but 0, 1 and 2")
}
