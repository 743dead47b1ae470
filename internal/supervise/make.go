//go:build linux

package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/boxes"
	"github.com/skerry-run/skerry/internal/bwrap"
	"github.com/skerry-run/skerry/internal/cgroups"
	"github.com/skerry-run/skerry/internal/control"
	"github.com/skerry-run/skerry/internal/initconfig"
	"github.com/skerry-run/skerry/internal/sweep"
)

// make brings the sandbox up to where its init runs, or is about to: what it
// waits for goes on in the kernel while the caller dials already.
func (s *supervisor) make() error {
	l := &launch{}
	var child filesForChild
	defer child.close()
	argsFD, statusFD, holdFD, err := l.openPipes(&child, s.order.Record.Network.Mode)
	if err != nil {
		return internal(err)
	}
	seccompFD := child.add(s.seccomp)
	line, theirs, err := control.Pair()
	if err != nil {
		return internal(err)
	}
	s.line = line
	controlFD := child.add(theirs)
	layout := <-s.layout
	data, err := addData(&child, layout, s.order.Record)
	if err != nil {
		return internal(err)
	}
	config, err := memfd("config", nil)
	if err != nil {
		return internal(err)
	}
	configFD := child.add(config)

	if err := s.makeGroup(); err != nil {
		return err
	}
	if err := limitFiles(fileBytes(s.order.Record)); err != nil {
		return internal(err)
	}
	s.launch = l
	err = l.start(s.order.Bwrap, s.order.Dirs.Mark(s.order.Record.Key), s.order.Record.UID, &child, argsFD,
		[]string{bwrap.InitPath, "serve", "--config-fd", strconv.Itoa(configFD), "--control-fd", strconv.Itoa(controlFD)},
		s.startInGroup)
	if err != nil {
		return skerry.Errorf(skerry.Denied, op, "%w", err).WithHint(bwrap.InstallHint).WithOutcome(skerry.StartFailed)
	}
	// bwrap's own start goes on meanwhile, up to where it needs its options.
	spec := bwrap.Spec{
		ReadOnlyProc: s.scoresKeepers(),
		Layout:       layout, Init: s.order.Init, Data: data, SeccompFD: seccompFD, StatusFD: statusFD, HoldFD: holdFD,
	}
	if s.group != nil {
		spec.CgroupBinds = s.group.Binds()
	}
	if err := s.makeFolders(&spec); err != nil {
		return err
	}
	if err := writeConfig(config, s.initConfig(layout)); err != nil {
		return internal(err)
	}
	if err := s.makeSocket(); err != nil {
		return internal(err)
	}
	s.box.Record.Warnings = append(s.box.Record.Warnings, s.warnings()...)
	if err := s.box.Update(); err != nil {
		return internal(err)
	}
	if err := l.sendArgs(bwrap.Args(spec)); err != nil {
		return s.afterExit(err)
	}
	if l.hold != nil {
		if err := s.makeNetwork(); err != nil {
			return err
		}
		if err := l.release(); err != nil {
			return s.afterExit(err)
		}
	}
	s.reply.send(boxes.Reply{Record: &s.box.Record})
	return nil
}

func internal(err error) error {
	return skerry.Errorf(skerry.Internal, op, "%w", err).WithOutcome(skerry.StartFailed)
}

// afterExit prefers what bwrap said to err, which only shows that it is gone.
func (s *supervisor) afterExit(err error) error {
	select {
	case <-s.launch.exited:
		return s.setupError()
	case <-time.After(time.Second):
		return internal(err)
	}
}

// openPipes makes the pipes between us and bwrap, and numbers its ends.
func (l *launch) openPipes(child *filesForChild, mode skerry.NetworkMode) (args, status, hold int, err error) {
	argsR, argsW, err := os.Pipe()
	if err != nil {
		return 0, 0, 0, err
	}
	l.args, args = argsW, child.add(argsR)
	statusR, statusW, err := os.Pipe()
	if err != nil {
		return 0, 0, 0, err
	}
	l.status, status = statusR, child.add(statusW)
	hold = -1
	if mode == skerry.NetworkInternet || mode == skerry.NetworkAllow {
		holdR, holdW, err := os.Pipe()
		if err != nil {
			return 0, 0, 0, err
		}
		l.hold, hold = holdW, child.add(holdR)
	}
	return args, status, hold, nil
}

const (
	maxInitFiles = 16384
	spoolMargin  = skerry.MiB // a spool file may be a little longer than what it keeps
)

// limitFiles bounds what an init that was taken over could do to the host's
// disk: how large one of its files may be, and how many it may hold open. We
// set it for ourselves, and bwrap inherits it: even root may lack the right to
// set the limits of a process of another user.
func limitFiles(fileBytes int64) error {
	for resource, most := range map[int]uint64{
		unix.RLIMIT_FSIZE:  uint64(max(fileBytes, skerry.DefaultSpoolBytes) + spoolMargin),
		unix.RLIMIT_NOFILE: maxInitFiles,
	} {
		// syscall, not unix: the runtime must know that the limit is ours, or it
		// would give children the one that it found at its start.
		var now syscall.Rlimit
		if err := syscall.Getrlimit(resource, &now); err != nil {
			return fmt.Errorf("read limit: %w", err)
		}
		want := syscall.Rlimit{Max: min(most, now.Max)}
		want.Cur = min(now.Cur, want.Max)
		if err := syscall.Setrlimit(resource, &want); err != nil {
			return fmt.Errorf("set limit: %w", err)
		}
	}
	return nil
}

// makeGroup makes the control groups that are permitted.
func (s *supervisor) makeGroup() error {
	host, err := cgroups.ReadHost("")
	if err != nil {
		return nil // no control groups at all: warnings say what is not enforced
	}
	l := s.order.Record.Limits
	g, err := host.Create(sweep.CgroupParent(s.order.Dirs), s.order.Record.Key, cgroups.Limits{
		MemoryBytes: l.MemoryBytes, MilliCPU: l.MilliCPU, PIDs: l.PIDs + groupReserve,
	})
	if err != nil {
		return skerry.Errorf(skerry.Unavailable, op, "%w", err).WithHint("run skerry doctor").WithOutcome(skerry.StartFailed)
	}
	s.group, s.cgroupHost = g, host
	return nil
}

// startInGroup starts bwrap in the control groups. A process without the
// groups' limits never gets its options.
func (s *supervisor) startInGroup(build func() *exec.Cmd) (*exec.Cmd, error) {
	cmd := build()
	if s.group == nil {
		return cmd, cmd.Start()
	}
	born, err := s.group.Around(s.cgroupHost, func(v2 int) error {
		if v2 >= 0 {
			cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, v2
			if err := cmd.Start(); err == nil {
				return nil
			}
			cmd = build() // an old kernel, or a folder that only takes processes by number
		}
		return cmd.Start()
	})
	if err != nil || born && cmd.SysProcAttr.UseCgroupFD == s.group.HasV2() {
		return cmd, err
	}
	return cmd, s.group.Add(cmd.Process.Pid)
}

// groupReserve is how many tasks more than the limit of user code the group
// may have, so that the init can always make threads.
const groupReserve = 128

// makeFolders settles where the workspace and HOME are.
func (s *supervisor) makeFolders(spec *bwrap.Spec) error {
	r := s.order.Record
	l := r.Limits
	spec.TmpBytes = min(l.TmpBytes, l.MemoryBytes)
	spec.ShmBytes = min(l.ShmBytes, l.MemoryBytes)
	if r.Persistent {
		v, err := s.order.Dirs.EnsureVolume(r.Ref, r.UID)
		if err != nil {
			return internal(err)
		}
		s.volume = &v
		spec.WorkspaceSource, spec.HomeSource = v.Workspace, v.Home
		return nil
	}
	spec.WorkspaceBytes, spec.HomeBytes = splitWorkspace(min(l.WorkspaceBytes, l.MemoryBytes))
	return nil
}

// splitWorkspace parts one limit between two file systems in memory, so that
// the workspace and HOME together stay within it.
func splitWorkspace(total int64) (workspace, home int64) {
	home = min(max(total/8, 256*skerry.KiB), 128*skerry.MiB)
	return total - home, home
}

// fileBytes is how large one file may be: in memory as large as the largest of
// the file systems there, which have limits of their own; on the host's disk,
// where only the watch is beside it, no larger than the workspace.
func fileBytes(r boxes.Record) int64 {
	if r.Persistent {
		return r.Limits.WorkspaceBytes
	}
	return max(r.Limits.WorkspaceBytes, r.Limits.TmpBytes, r.Limits.ShmBytes)
}

// initConfig is what the init is told.
func (s *supervisor) initConfig(layout bwrap.Layout) initconfig.Config {
	r := s.order.Record
	c := initconfig.Config{
		Session: r.Ref.Kind == skerry.SessionKind, Workspace: bwrap.Workspace, Home: bwrap.Home, Tmp: bwrap.Tmp,
		Env:  environment(layout, s.order.Env),
		PIDs: r.Limits.PIDs, WorkspaceBytes: r.Limits.WorkspaceBytes, WatchWorkspace: r.Persistent,
		FileBytes: fileBytes(r), SpoolBytes: skerry.DefaultSpoolBytes,
		SandboxUID: r.SandboxUID, Trusted: true, ScoreKeepers: s.scoresKeepers(),
	}
	if !r.Expires.IsZero() {
		c.TTLMS = max(1, time.Until(r.Expires).Milliseconds())
		c.TTLAskedMS = max(0, r.Expires.Sub(r.Created).Milliseconds())
	}
	if c.Session {
		c.IdleMS = r.Idle.Milliseconds()
	} else if r.Retention > 0 {
		c.IdleMS = max(1, r.Retention.Milliseconds())
	}
	if !s.countsMemory() {
		c.DataBytes = r.Limits.MemoryBytes
	}
	return c
}

// environment is complete: nothing of the caller's own environment is in it.
func environment(layout bwrap.Layout, given map[string]string) []string {
	env := initconfig.BaseEnvironment(bwrap.Home, bwrap.Tmp)
	env["PATH"] = strings.Join(layout.Path, ":")
	maps.Copy(env, given)
	out := make([]string, 0, len(env))
	for k, v := range env {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return out
}

func writeConfig(f *os.File, c initconfig.Config) error {
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	return err
}

// makeSocket listens where clients dial. The folder is reached through a
// descriptor: a socket's path may have only 107 bytes.
func (s *supervisor) makeSocket() error {
	dir, err := unix.Open(s.box.Dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open box: %w", err)
	}
	defer unix.Close(dir)
	path := fmt.Sprintf("/proc/self/fd/%d/%s", dir, filepath.Base(s.box.Socket()))
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	l.SetUnlinkOnClose(false) // the path means something else by then; the box goes as a whole
	s.socket = l
	return os.Chmod(path, 0o600)
}

// warnings names what is not enforced here.
func (s *supervisor) warnings() []string {
	missing := []string{cgroups.Memory, cgroups.PIDs, cgroups.CPU}
	if s.group != nil {
		missing = s.group.Missing
	}
	return Warnings(missing)
}

// Warnings says in words what the absence of control groups means.
func Warnings(missing []string) []string {
	var out []string
	for _, c := range missing {
		switch c {
		case cgroups.Memory:
			out = append(out, "the kernel keeps the memory limit for each process alone; for all together it is measured four times a second, and can be passed meanwhile: no memory control group is permitted here")
		case cgroups.CPU:
			out = append(out, "the cpu limit is not enforced: no cpu control group is permitted here")
		case cgroups.PIDs:
			out = append(out, "the pids limit is enforced by RLIMIT_NPROC alone: no pids control group is permitted here")
		}
	}
	return out
}

// hintFor maps what bwrap says to what a person would do. bwrap tells its
// reasons in no other way than words, so nothing but the hint hangs on them.
func hintFor(text string) string {
	switch {
	case strings.Contains(text, "setting up uid map"), strings.Contains(text, "RTM_NEWADDR"), strings.Contains(text, "No permissions to creat"), strings.Contains(text, "Creating new namespace failed"):
		return "user namespaces are restricted here; skerry doctor says by what, and how to permit them to bubblewrap alone"
	case strings.Contains(strings.ToLower(text), "unknown option"):
		return fmt.Sprintf("bubblewrap %v or later is needed; %s", bwrap.Needed, bwrap.InstallHint)
	case strings.Contains(text, "execvp") && strings.Contains(text, "Permission denied"):
		return "the state folder may lie on a file system that is mounted noexec; choose another one"
	}
	return "skerry doctor checks what sandboxes need"
}

// memfd makes a file in memory that holds data, read from its start.
func memfd(name string, data []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make memfd: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err := f.WriteAt(data, 0); err != nil && len(data) > 0 {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
