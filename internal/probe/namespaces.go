//go:build linux

package probe

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// namespaceAttacks try to get out of the sandbox's view, or to get powers in a
// view of their own.
var namespaceAttacks = []Attack{
	{Name: "namespaces", Tries: "make or enter namespaces with unshare, clone, clone3 and setns", run: namespaces},
	{Name: "mounts", Tries: "change what is mounted: mount, umount, pivot_root, chroot, and the newer calls", run: mounts},
	{Name: "privileges", Tries: "become root or gain capabilities", run: privileges},
}

func namespaces([]string) Finding {
	runtime.LockOSThread() // never unlocked: a thread that got in must not be used again
	var attempts []attempt
	kinds := []struct {
		name string
		flag uintptr
	}{
		{"user", unix.CLONE_NEWUSER}, {"mnt", unix.CLONE_NEWNS}, {"pid", unix.CLONE_NEWPID}, {"net", unix.CLONE_NEWNET},
		{"ipc", unix.CLONE_NEWIPC}, {"uts", unix.CLONE_NEWUTS}, {"cgroup", unix.CLONE_NEWCGROUP},
	}
	for _, k := range kinds {
		_, _, e := unix.RawSyscall(unix.SYS_UNSHARE, k.flag, 0, 0)
		err := errno(e)
		if e == unix.EINVAL && k.flag == unix.CLONE_NEWUSER {
			// Several threads may not do it; a child of one thread below may.
			err = refusedAs("%v", e)
		}
		attempts = append(attempts, attempt{"unshare " + k.name, err})
		attempts = append(attempts, attempt{"clone into a new " + k.name, cloneExit(k.flag)})
		attempts = append(attempts, attempt{"clone into a new user and " + k.name, cloneExit(k.flag | unix.CLONE_NEWUSER)})
		for _, of := range []string{"1", "self"} {
			fd, err := unix.Open("/proc/"+of+"/ns/"+k.name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err == nil {
				err = unix.Setns(fd, int(k.flag))
				unix.Close(fd)
				if err == unix.EINVAL && k.flag == unix.CLONE_NEWUSER {
					err = refusedAs("entering one's own user namespace is always refused")
				}
			}
			attempts = append(attempts, attempt{fmt.Sprintf("setns to the %s namespace of %s", k.name, of), err})
		}
	}
	var clone3Args [11]uint64
	clone3Args[0], clone3Args[4] = unix.CLONE_NEWUSER, uint64(unix.SIGCHLD)
	pid, _, e := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&clone3Args)), unsafe.Sizeof(clone3Args), 0)
	if e == 0 && pid == 0 {
		exitChild()
	}
	attempts = append(attempts, attempt{"clone3 into a new user", errno(e)})
	return judge(attempts...)
}

// cloneExit makes a child with the flags that ends at once.
func cloneExit(flags uintptr) error {
	pid, _, e := unix.RawSyscall6(unix.SYS_CLONE, flags|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if e != 0 {
		return e
	}
	if pid == 0 {
		exitChild()
	}
	_, _ = unix.Wait4(int(pid), nil, 0, nil)
	return nil
}

// exitChild ends a child that shares the parent's image but none of its
// threads: nothing but raw calls is safe there.
func exitChild() {
	for {
		_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
}

func mounts([]string) Finding {
	dir := "/tmp"
	fsopen := func(name string) error {
		p, err := unix.BytePtrFromString(name)
		if err != nil {
			return err
		}
		fd, _, e := unix.RawSyscall(unix.SYS_FSOPEN, uintptr(unsafe.Pointer(p)), 0, 0)
		if e == 0 {
			unix.Close(int(fd))
		}
		return errno(e)
	}
	tree, treeErr := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE)
	if treeErr == nil {
		unix.Close(tree)
	}
	attr := unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}
	return judge(
		attempt{"mount tmpfs", unix.Mount("none", dir, "tmpfs", 0, "")},
		attempt{"mount proc", unix.Mount("none", dir, "proc", 0, "")},
		attempt{"bind /", unix.Mount("/", dir, "", unix.MS_BIND, "")},
		attempt{"remount / writable", unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, "")},
		attempt{"remount /usr writable", unix.Mount("", "/usr", "", unix.MS_REMOUNT|unix.MS_BIND, "")},
		attempt{"make / shared", unix.Mount("", "/", "", unix.MS_SHARED|unix.MS_REC, "")},
		attempt{"umount /proc", unix.Unmount("/proc", unix.MNT_DETACH)},
		attempt{"umount /tmp", unix.Unmount("/tmp", unix.MNT_DETACH)},
		attempt{"pivot_root", unix.PivotRoot(dir, dir)},
		attempt{"chroot", unix.Chroot(dir)},
		attempt{"fsopen", fsopen("tmpfs")},
		attempt{"open_tree", treeErr},
		attempt{"mount_setattr", unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &attr)},
	)
}

func privileges([]string) Finding {
	if os.Getuid() == 0 || os.Geteuid() == 0 || os.Getgid() == 0 {
		return open("it runs as uid %d, gid %d", os.Getuid(), os.Getgid())
	}
	runtime.LockOSThread()
	nnp, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if err != nil {
		return unknown("PR_GET_NO_NEW_PRIVS: %v", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var now [2]unix.CapUserData
	if err := unix.Capget(&header, &now[0]); err != nil {
		return unknown("capget: %v", err)
	}
	if now[0].Effective|now[0].Permitted|now[1].Effective|now[1].Permitted != 0 {
		return open("it has the capabilities %#x %#x", now[1].Permitted, now[0].Permitted)
	}
	var attempts []attempt
	if nnp != 1 {
		attempts = append(attempts, attempt{"no_new_privs is not set, a setuid program gains its owner's rights", nil})
	}
	want := [2]unix.CapUserData{{Effective: ^uint32(0), Permitted: ^uint32(0), Inheritable: ^uint32(0)}, {}}
	raw := func(nr, a, b, c uintptr) error {
		_, _, e := unix.RawSyscall(nr, a, b, c)
		if e == unix.EINVAL {
			return refusedAs("root does not exist in this user namespace")
		}
		return errno(e)
	}
	group := uint32(0)
	attempts = append(attempts,
		attempt{"capset", unix.Capset(&header, &want[0])},
		attempt{"setuid(0)", raw(unix.SYS_SETUID, 0, 0, 0)},
		attempt{"setresuid(0, 0, 0)", raw(unix.SYS_SETRESUID, 0, 0, 0)},
		attempt{"setgid(0)", raw(unix.SYS_SETGID, 0, 0, 0)},
		attempt{"setresgid(0, 0, 0)", raw(unix.SYS_SETRESGID, 0, 0, 0)},
		attempt{"setgroups(0)", raw(unix.SYS_SETGROUPS, 1, uintptr(unsafe.Pointer(&group)), 0)},
	)
	return judge(attempts...)
}
