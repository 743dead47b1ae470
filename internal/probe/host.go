//go:build linux

package probe

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// hostAttacks look for what belongs to the host. Whoever starts them plants
// something to be found, and shows that it can be found from outside.
var hostAttacks = []Attack{
	{Name: "host-files", Tries: "read files of the host, directly and through /proc/PID/root and cwd", Args: "TOKEN PATH...", run: hostFiles},
	{Name: "host-shadow", Tries: "read the host's password hashes and root's home", run: hostShadow},
	{Name: "host-environment", Tries: "find the environment of the host in /proc/*/environ and /proc/*/cmdline", Args: "TOKEN CONTROL", run: hostEnvironment},
	{Name: "host-processes", Tries: "find a process of the host in /proc", Args: "TOKEN", run: hostProcesses},
	{Name: "host-ipc", Tries: "open shared memory of the host by its key", Args: "KEY", run: hostIPC},
}

func hostFiles(args []string) Finding {
	if len(args) < 2 {
		return unknown("it needs TOKEN PATH...")
	}
	token := args[0]
	roots := []string{""}
	for _, pattern := range []string{"/proc/[0-9]*/root", "/proc/[0-9]*/cwd"} {
		more, _ := filepath.Glob(pattern)
		roots = append(roots, more...)
	}
	tried := 0
	for _, path := range args[1:] {
		for _, root := range roots {
			for _, up := range []string{"", "/../../../../../../.."} {
				tried++
				data, err := readSome(root + up + path)
				if err == nil && bytes.Contains(data, []byte(token)) {
					return open("read %s", root+up+path)
				}
			}
		}
	}
	return blocked("%d ways to %d files, none has the host's", tried, len(args)-1)
}

// readSome reads the start of a file without ever blocking on it.
func readSome(path string) ([]byte, error) {
	const enough = 64 << 10
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	buf := make([]byte, enough)
	n, err := unix.Read(fd, buf)
	if err != nil {
		return nil, err
	}
	return buf[:n], nil
}

func hostShadow([]string) Finding {
	var found []string
	for _, path := range []string{"/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/ssh/ssh_host_ed25519_key", "/etc/ssl/private", "/root/.ssh", "/root/.bashrc", "/root/.profile", "/root/.kube/config", "/root/.aws/credentials", "/var/lib/dpkg/status", "/var/log/dpkg.log", "/etc/kubernetes/admin.conf", "/boot"} {
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		if info.IsDir() {
			if entries, err := os.ReadDir(path); err == nil && len(entries) > 0 {
				found = append(found, path)
			}
			continue
		}
		if data, err := readSome(path); err == nil && len(data) > 0 {
			found = append(found, path)
		}
	}
	if entries, err := os.ReadDir("/root"); err == nil && len(entries) > 0 {
		found = append(found, "/root")
	}
	if len(found) > 0 {
		return open("readable: %s", brief(found))
	}
	return blocked("none of them can be read here")
}

func hostEnvironment(args []string) Finding {
	if len(args) != 2 {
		return unknown("it needs TOKEN CONTROL")
	}
	token, control := []byte(args[0]), []byte(args[1])
	var attempts, controls int
	for _, pattern := range []string{"/proc/[0-9]*/environ", "/proc/[0-9]*/task/[0-9]*/environ"} {
		files, _ := filepath.Glob(pattern)
		for _, f := range files {
			data, err := os.ReadFile(f)
			if err != nil {
				continue
			}
			attempts++
			if bytes.Contains(data, control) {
				controls++
			}
			if bytes.Contains(data, token) {
				return open("it is in %s", f)
			}
		}
	}
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err == nil && bytes.Contains(data, token) && !strings.HasPrefix(f, fmt.Sprintf("/proc/%d/", os.Getpid())) && !bytes.Contains(data, []byte("host-environment")) {
			return open("it is in %s", f)
		}
	}
	if controls == 0 {
		return unknown("of %d environments that could be read, not even our own shows what it holds", attempts)
	}
	return blocked("%d environments could be read, ours among them, and none holds it", attempts)
}

func hostProcesses(args []string) Finding {
	if len(args) != 1 {
		return unknown("it needs TOKEN")
	}
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	seen := false
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		if bytes.Contains(data, []byte("host-processes")) {
			seen = true // this process and whoever started it
			continue
		}
		if bytes.Contains(data, []byte(args[0])) {
			return open("%s is the host's process", f)
		}
	}
	if !seen {
		return unknown("of %d processes not even our own can be seen", len(files))
	}
	return blocked("%d processes can be seen, ours among them, and none is the host's", len(files))
}

func hostIPC(args []string) Finding {
	var key int
	if len(args) != 1 {
		return unknown("it needs KEY")
	}
	if _, err := fmt.Sscan(args[0], &key); err != nil {
		return unknown("%v", err)
	}
	if id, err := unix.SysvShmGet(key, 0, 0); err == nil {
		return open("shared memory of key %d is there (id %d)", key, id)
	} else if err != unix.ENOENT && !refusal(err) {
		return unknown("shmget: %v", err)
	}
	// The control: memory of our own by another key works, so the call does.
	id, err := unix.SysvShmGet(key+1, 4096, unix.IPC_CREAT|unix.IPC_EXCL|0o600)
	if err != nil {
		return blocked("shared memory can't be had at all: %v", err)
	}
	_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
	return blocked("memory of our own can be made, the host's is not there")
}
