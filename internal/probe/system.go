//go:build linux

package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// systemAttacks try to write where only the host may.
var systemAttacks = []Attack{
	{Name: "write-system", Tries: "create a file in /, /usr, /etc, /dev, /sys, /proc, /run, /home, /var and others", run: writeSystem},
	{Name: "write-kernel-settings", Tries: "write /proc/sys, core_pattern, sysrq-trigger, /sys and the cgroup's files", run: writeKernelSettings},
	{Name: "devices", Tries: "open every device there is, and make new ones", run: devices},
	{Name: "host-terminal", Tries: "open the caller's terminal and type into it with TIOCSTI and TIOCLINUX", run: hostTerminal},
}

func writeSystem([]string) Finding {
	// The control: writing works where it should.
	if err := writeFile("/tmp/skerry-probe"); err != nil {
		return unknown("even /tmp can't be written: %v", err)
	}
	var attempts []attempt
	for _, dir := range []string{
		"/", "/usr", "/usr/bin", "/usr/lib", "/usr/local", "/usr/local/bin", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/etc/profile.d", "/etc/cron.d",
		"/dev", "/dev/pts", "/sys", "/proc", "/run", "/run/skerry", "/home", "/root", "/var", "/var/tmp", "/var/run", "/var/spool/cron", "/opt", "/srv", "/mnt", "/media", "/boot",
	} {
		info, err := os.Stat(dir)
		if err != nil {
			continue // what is not there can't be written
		}
		if !info.IsDir() {
			continue
		}
		err = writeFile(filepath.Join(dir, "skerry-probe"))
		if err == unix.ENOENT {
			err = refusedAs("the file system makes no files")
		}
		attempts = append(attempts, attempt{"create a file in " + dir, err})
	}
	for _, file := range []string{"/etc/passwd", "/etc/hosts", "/etc/ld.so.cache", "/etc/resolv.conf", "/etc/localtime", "/bin/sh", "/usr/bin/env"} {
		if _, err := os.Stat(file); err != nil {
			continue
		}
		fd, err := unix.Open(file, unix.O_WRONLY, 0)
		if err == nil {
			unix.Close(fd)
		}
		if err == unix.ETXTBSY {
			err = nil
		}
		attempts = append(attempts, attempt{"open for writing " + file, err}, attempt{"chmod " + file, unix.Chmod(file, 0o777)})
	}
	return judge(attempts...)
}

// writeFile creates a file and removes it again.
func writeFile(path string) error {
	fd, err := unix.Open(path, unix.O_CREAT|unix.O_WRONLY|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	unix.Close(fd)
	return unix.Unlink(path)
}

func writeKernelSettings([]string) Finding {
	var attempts []attempt
	try := func(path string) {
		fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err == unix.ENOENT || err == unix.EISDIR || err == unix.ENOTDIR {
			return
		}
		if err == nil {
			unix.Close(fd)
		}
		attempts = append(attempts, attempt{"open for writing " + path, err})
	}
	for _, path := range []string{
		"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/kernel/domainname", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hotplug", "/proc/sys/vm/overcommit_memory",
		"/proc/sys/vm/panic_on_oom", "/proc/sys/net/ipv4/ip_forward", "/proc/sys/fs/binfmt_misc/register", "/proc/sys/user/max_user_namespaces", "/proc/sysrq-trigger",
		"/proc/irq/default_smp_affinity", "/proc/mtrr", "/proc/timer_list", "/proc/kmsg", "/proc/acpi/wakeup", "/proc/scsi/scsi",
		"/sys/kernel/uevent_helper", "/sys/power/state", "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/fs/selinux/load", "/sys/kernel/security/apparmor/.load", "/sys/module/kernel/parameters/panic",
	} {
		try(path)
	}
	walk := func(root string, most int) {
		n := 0
		_ = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err != nil || n > most {
				return filepath.SkipDir
			}
			if d.Type().IsRegular() {
				n++
				try(path)
			}
			return nil
		})
	}
	const most = 4000
	walk("/proc/sys", most)
	walk("/sys/fs/cgroup", most)
	walk("/sys/kernel", most)
	if len(attempts) == 0 {
		return unknown("none of the files is there")
	}
	f := judge(attempts...)
	if f.Verdict == Blocked {
		f.Detail = fmt.Sprintf("%d files, each refused; for example %s", len(attempts), brief([]string{fmt.Sprintf("%s: %v", attempts[0].what, attempts[0].err)}))
	}
	return f
}

func devices([]string) Finding {
	harmless := map[string]bool{"/dev/null": true, "/dev/zero": true, "/dev/full": true, "/dev/random": true, "/dev/urandom": true, "/dev/tty": true, "/dev/ptmx": true, "/dev/pts/ptmx": true}
	var attempts []attempt
	_ = filepath.WalkDir("/dev", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.Type()&os.ModeDevice == 0 || harmless[path] {
			return nil
		}
		if strings.HasPrefix(path, "/dev/pts/") {
			return nil // of this sandbox's own devpts
		}
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err == nil {
			unix.Close(fd)
		}
		attempts = append(attempts, attempt{"open " + path, err})
		return nil
	})
	for _, path := range []string{"/dev/mem", "/dev/kmem", "/dev/port", "/dev/kmsg", "/dev/fuse", "/dev/kvm", "/dev/vsock", "/dev/vhost-vsock", "/dev/net/tun", "/dev/loop-control", "/dev/mapper/control", "/dev/sda", "/dev/vda", "/dev/nvme0n1", "/dev/userfaultfd"} {
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err == nil {
			unix.Close(fd)
		}
		if err == unix.ENOENT {
			err = refusedAs("it does not exist in the sandbox's own /dev")
		}
		attempts = append(attempts, attempt{"open " + path, err})
	}
	const memory = 1<<8 | 1 // character device 1:1, the machine's memory
	for _, dir := range []string{"/workspace", "/tmp", "/dev/shm", "/home/skerry"} {
		path := dir + "/skerry-probe-device"
		err := unix.Mknod(path, unix.S_IFCHR|0o666, memory)
		if err == nil {
			_ = unix.Unlink(path)
		}
		attempts = append(attempts, attempt{"mknod in " + dir, err})
	}
	return judge(attempts...)
}

func hostTerminal([]string) Finding {
	if fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0); err == nil {
		defer unix.Close(fd)
		if err := typeInto(fd); err == nil {
			return open("/dev/tty is a terminal, and TIOCSTI typed into it")
		} else if !refusal(err) && err != unix.EIO {
			return unknown("TIOCSTI: %v", err)
		}
		return open("/dev/tty is a terminal")
	} else if err != unix.ENXIO && err != unix.ENOENT && err != unix.EACCES {
		return unknown("open /dev/tty: %v", err)
	}
	for fd := range 3 {
		if _, err := unix.IoctlGetTermios(fd, unix.TCGETS); err == nil {
			return open("descriptor %d is a terminal", fd)
		}
	}
	// With a terminal of our own the ioctls themselves can be tried.
	ptmx, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return blocked("the process has no terminal, and can't make one: %v", err)
	}
	defer unix.Close(ptmx)
	if err := typeInto(ptmx); err == nil {
		return blocked("the process has no terminal; TIOCSTI would work, but only on a terminal of its own")
	} else {
		return blocked("the process has no terminal; TIOCSTI on one of its own: %v", err)
	}
}

func typeInto(fd int) error { return unix.IoctlSetPointerInt(fd, unix.TIOCSTI, ' ') }
