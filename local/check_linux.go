package local

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/bwrap"
	"github.com/skerry-run/skerry/internal/cgroups"
	"github.com/skerry-run/skerry/internal/hostnet"
	"github.com/skerry-run/skerry/internal/seccompbpf"
	"github.com/skerry-run/skerry/internal/sweep"
)

// checkLimit bounds one program that Check runs.
const checkLimit = 15 * time.Second

// Check tries what sandboxes need, one Finding each, and makes a sandbox at
// the end.
func (b *Backend) Check(ctx context.Context) (skerry.Report, error) {
	var r skerry.Report
	layout := bwrap.ReadLayout("")
	for _, look := range []func(context.Context) []skerry.Finding{
		checkOS,
		b.checkBwrap,
		b.checkInit,
		b.checkState,
		b.checkLeftovers,
		func(ctx context.Context) []skerry.Finding { return []skerry.Finding{b.checkNamespaces(ctx, layout)} },
		b.checkSeccomp,
		checkCgroups,
		checkUIDs,
		func(ctx context.Context) []skerry.Finding { return hostnet.Check(ctx, os.Geteuid() == 0) },
		func(context.Context) []skerry.Finding { return checkInterpreters(layout) },
		b.checkSandbox,
	} {
		if err := ctx.Err(); err != nil {
			return r, err
		}
		r = append(r, look(ctx)...)
	}
	return r, nil
}

func found(name string, status skerry.FindingStatus, remedy, format string, args ...any) skerry.Finding {
	return skerry.Finding{Name: name, Status: status, Detail: fmt.Sprintf(format, args...), Remedy: remedy}
}

func checkOS(context.Context) []skerry.Finding {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return []skerry.Finding{found("os", skerry.FindingWarn, "", "the kernel does not say its name: %v", err)}
	}
	return []skerry.Finding{found("os", skerry.FindingOK, "", "Linux %s", unix.ByteSliceToString(u.Release[:]))}
}

func (b *Backend) checkBwrap(ctx context.Context) []skerry.Finding {
	const name = "bubblewrap"
	v, err := bwrap.ReadVersion(ctx, b.config.Bwrap)
	if err != nil {
		return []skerry.Finding{found(name, skerry.FindingFail, skerry.HintOf(err), "%v", err)}
	}
	if fi, err := os.Stat(b.config.Bwrap); err == nil && fi.Mode()&os.ModeSetuid != 0 {
		return []skerry.Finding{found(name, skerry.FindingFail, "chmod u-s "+b.config.Bwrap+" and permit user namespaces instead", "%s %v is setuid, which does not go together with --disable-userns", b.config.Bwrap, v)}
	}
	return []skerry.Finding{found(name, skerry.FindingOK, "", "%s %v", b.config.Bwrap, v)}
}

func (b *Backend) checkInit(ctx context.Context) []skerry.Finding {
	const name = "skerry-init"
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.config.Init, "version")
	cmd.Env = []string{}
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return []skerry.Finding{found(name, skerry.FindingFail, "install the skerry-init that came with this program", "%s version: %v", b.config.Init, err)}
	}
	if bytes.Contains(elfInterpreter(b.config.Init), []byte("ld-")) {
		return []skerry.Finding{found(name, skerry.FindingWarn, "build it with CGO_ENABLED=0", "%s is not static and may not run in a sandbox", b.config.Init)}
	}
	return []skerry.Finding{found(name, skerry.FindingOK, "", "%s %s", b.config.Init, strings.TrimSpace(string(out)))}
}

// elfInterpreter gives the first bytes of a program, where the name of its
// dynamic loader stands if it has one.
func elfInterpreter(path string) []byte {
	const enough = 4096
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	b := make([]byte, enough)
	n, _ := f.Read(b)
	return b[:n]
}

func (b *Backend) checkState(context.Context) []skerry.Finding {
	const name = "state-folder"
	if err := b.dirs.Ensure(); err != nil {
		return []skerry.Finding{found(name, skerry.FindingFail, skerry.HintOf(err), "%v", err)}
	}
	if os.Geteuid() == 0 {
		if err := b.dirs.Passable(); err != nil {
			return []skerry.Finding{found(name, skerry.FindingFail, skerry.HintOf(err), "%v", err)}
		}
	}
	return []skerry.Finding{found(name, skerry.FindingOK, "", "%s, %s", b.dirs.State, b.dirs.Run)}
}

func (b *Backend) checkLeftovers(context.Context) []skerry.Finding {
	const name = "leftovers"
	b.reap()
	res, err := sweep.All(b.dirs)
	if err != nil {
		return []skerry.Finding{found(name, skerry.FindingWarn, "remove by hand what the message names", "%v", err)}
	}
	if n := len(res.Boxes) + len(res.Groups); n > 0 {
		return []skerry.Finding{found(name, skerry.FindingOK, "", "what %d dead sandboxes had left was removed", n)}
	}
	return []skerry.Finding{found(name, skerry.FindingOK, "", "none")}
}

// checkNamespaces runs bwrap in earnest, as sandboxes do: what a setting says
// and what a kernel does are two things.
func (b *Backend) checkNamespaces(ctx context.Context, layout bwrap.Layout) skerry.Finding {
	const name = "user-namespaces"
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	args := []string{"--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--uid", "1000", "--gid", "1000",
		"--disable-userns", "--new-session", "--as-pid-1", "--die-with-parent", "--clearenv", "--size", "1048576", "--tmpfs", "/tmp"}
	for _, bind := range layout.Binds {
		args = append(args, "--ro-bind", bind.Source, bind.Dest)
	}
	for _, link := range layout.Symlinks {
		args = append(args, "--symlink", link.Target, link.Path)
	}
	args = append(args, "--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev", "--", "true")
	cmd := exec.CommandContext(ctx, b.config.Bwrap, args...)
	cmd.Env = []string{"PATH=" + strings.Join(layout.Path, ":")}
	cmd.Dir = "/"
	cmd.WaitDelay = time.Second
	if os.Geteuid() == 0 {
		const anyone = 0x7fffffff // the last of the range that sandboxes get
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: anyone, Gid: anyone, Groups: []uint32{}}}
	}
	out, err := cmd.CombinedOutput()
	if err == nil {
		return found(name, skerry.FindingOK, "", "bubblewrap made user, pid, network, ipc and uts namespaces")
	}
	text := strings.TrimSpace(string(out[:min(len(out), 500)]))
	if ctx.Err() != nil {
		text = fmt.Sprintf("no answer within %v", checkLimit)
	}
	return found(name, skerry.FindingFail, namespaceRemedy("/", b.config.Bwrap), "bubblewrap could not make namespaces: %s (%v)", text, err)
}

// namespaceRemedy reads the settings that are known to forbid namespaces.
func namespaceRemedy(root, bwrapPath string) string {
	setting := func(name string) string {
		data, _ := os.ReadFile(filepath.Join(root, "proc/sys", name)) // most kernels lack most of them
		return strings.TrimSpace(string(data))
	}
	switch {
	case setting("kernel/apparmor_restrict_unprivileged_userns") == "1":
		return fmt.Sprintf("AppArmor keeps user namespaces from programs without a profile. Give bubblewrap one of its own: write "+
			"'abi <abi/4.0>, include <tunables/global> profile bwrap %s flags=(unconfined) { userns, }' to /etc/apparmor.d/bwrap and run "+
			"'apparmor_parser -r /etc/apparmor.d/bwrap'. (sysctl kernel.apparmor_restrict_unprivileged_userns=0 works too, but opens them to every program.)", bwrapPath)
	case setting("kernel/unprivileged_userns_clone") == "0":
		return "this kernel keeps user namespaces from ordinary users: sysctl kernel.unprivileged_userns_clone=1"
	case setting("user/max_user_namespaces") == "0":
		return "user namespaces are switched off: sysctl user.max_user_namespaces=15000"
	}
	return "in a container, give it the right to make user namespaces and to mount proc (for Docker: --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined), or use --backend kubernetes or http"
}

func (b *Backend) checkSeccomp(context.Context) []skerry.Finding {
	const name = "seccomp"
	filter, err := seccompbpf.Standard()
	if err != nil {
		return []skerry.Finding{found(name, skerry.FindingFail, "use a machine with an amd64 or arm64 processor", "%v", err)}
	}
	actions, err := os.ReadFile("/proc/sys/kernel/seccomp/actions_avail")
	if err != nil {
		return []skerry.Finding{found(name, skerry.FindingFail, "use a kernel with CONFIG_SECCOMP_FILTER", "the kernel has no filters for system calls: %v", err)}
	}
	return []skerry.Finding{found(name, skerry.FindingOK, "", "the standard profile, %d instructions (%s)", len(filter)/8, strings.Join(strings.Fields(string(actions)), " "))}
}

func checkCgroups(context.Context) []skerry.Finding {
	const name = "cgroups"
	host, err := cgroups.ReadHost("")
	if err != nil {
		return []skerry.Finding{found(name, skerry.FindingWarn, "", "%v", err)}
	}
	permitted := host.Permitted()
	var have, missing []string
	for _, c := range []string{cgroups.Memory, cgroups.PIDs, cgroups.CPU} {
		if permitted[c] {
			have = append(have, c)
		} else {
			missing = append(missing, c)
		}
	}
	if len(missing) == 0 {
		return []skerry.Finding{found(name, skerry.FindingOK, "", "memory, pids and cpu limits are enforced for each sandbox as a whole")}
	}
	remedy := "run as root, or in a subtree that is delegated to you: systemd-run --user --scope -p Delegate=yes skerry …"
	if os.Geteuid() == 0 {
		remedy = "mount these controllers writable, or in a container give it a control group of its own"
	}
	detail := "not permitted: " + strings.Join(missing, ", ")
	if len(have) > 0 {
		detail += "; permitted: " + strings.Join(have, ", ")
	}
	return []skerry.Finding{found(name, skerry.FindingWarn, remedy, "%s; instead %s", detail, "limits for each process hold")}
}

func checkUIDs(context.Context) []skerry.Finding {
	const name = "uid-mapping"
	if os.Geteuid() == 0 {
		return []skerry.Finding{found(name, skerry.FindingOK, "", "every sandbox runs as an unprivileged user of its own; root is never mapped")}
	}
	return []skerry.Finding{found(name, skerry.FindingOK, "", "sandboxes run as your own user (%d), in a user namespace", os.Geteuid())}
}

// checkInterpreters looks where programs in a sandbox would look.
func checkInterpreters(layout bwrap.Layout) []skerry.Finding {
	var out []skerry.Finding
	for _, program := range []struct{ name, pkg string }{{"bash", "bash"}, {"python3", "python3"}, {"node", "nodejs"}} {
		at := slices.IndexFunc(layout.Path, func(dir string) bool { return isExecutable(filepath.Join(dir, program.name)) })
		if at < 0 {
			out = append(out, found("interpreter-"+program.name, skerry.FindingWarn, "install it from the system's packages: apt-get install "+program.pkg,
				"%s is in none of %s, the folders that a sandbox sees", program.name, strings.Join(layout.Path, " ")))
			continue
		}
		out = append(out, found("interpreter-"+program.name, skerry.FindingOK, "", "%s", filepath.Join(layout.Path[at], program.name)))
	}
	return out
}

// checkSandbox makes a sandbox with everything that belongs to one.
func (b *Backend) checkSandbox(ctx context.Context) []skerry.Finding {
	const name = "sandbox"
	ctx, cancel := context.WithTimeout(ctx, 2*checkLimit)
	defer cancel()
	began := time.Now()
	ref := skerry.Ref{Kind: skerry.RunKind, Name: fmt.Sprintf("doctor-%d-%d", os.Getpid(), began.UnixNano())}
	s, err := b.Create(ctx, skerry.SandboxSpec{Ref: ref, TTL: time.Minute})
	if err != nil {
		return []skerry.Finding{found(name, skerry.FindingFail, skerry.HintOf(err), "%v", err)}
	}
	warnings := s.Info().Warnings
	s.Close()
	if err := b.Delete(ctx, ref, skerry.DeleteOptions{}); err != nil {
		return []skerry.Finding{found(name, skerry.FindingFail, skerry.HintOf(err), "one was made but not removed: %v", err)}
	}
	took := time.Since(began).Round(time.Millisecond)
	if len(warnings) > 0 {
		return []skerry.Finding{found(name, skerry.FindingWarn, "see the remedies of the other findings", "one was made and removed in %v; %s", took, strings.Join(warnings, "; "))}
	}
	return []skerry.Finding{found(name, skerry.FindingOK, "", "one was made and removed in %v", took)}
}
