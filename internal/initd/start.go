//go:build linux

package initd

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/skerry-run/skerry"

	"github.com/skerry-run/skerry/internal/keep"
)

const startOp = "start command"

// start starts the command that spec asks for, or finds it. digest is of the
// whole request. It goes on when the caller has gone: another call with the
// same id finds what came of it.
func (s *Server) start(ctx context.Context, spec skerry.CommandSpec, digest [32]byte) (c *command, attached bool, err error) {
	c = &command{
		id: spec.ID, digest: digest, background: spec.Background, server: s,
		ready: make(chan struct{}), done: make(chan struct{}), gone: make(chan struct{}),
		grace: spec.Grace,
	}
	existing, err := s.add(c)
	if err != nil {
		return nil, false, err
	}
	if existing != nil {
		select {
		case <-existing.ready:
			return existing, true, existing.startErr
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
	}
	c.startErr = s.launch(context.WithoutCancel(ctx), c, spec)
	if c.startErr != nil {
		s.remove(c)
	}
	close(c.ready)
	return c, false, c.startErr
}

// launch runs the program and everything that goes with it.
func (s *Server) launch(ctx context.Context, c *command, spec skerry.CommandSpec) error {
	if err := s.roomForStart(); err != nil {
		return err
	}
	if err := s.writeStartFiles(ctx, spec.Files); err != nil {
		return err
	}
	p, err := s.prepare(c, spec)
	if err != nil {
		return err
	}
	defer p.closeTheirs()
	k, err := s.nursery.take()
	if err != nil {
		p.closeOurs()
		return startFailed(skerry.Busy, "no process for it could be made: %w", err).
			WithHint("the sandbox has reached its process or memory limit; end something in it")
	}
	p.req.Protect = s.nursery.protect(k)
	c.before = s.usage.read()
	started, err := s.begin(k, p)
	if err != nil {
		p.closeOurs()
		se, ok := errors.AsType[*stepError](err)
		if ok && se.step != keep.StepDefence {
			s.nursery.give(k)
		} else {
			k.conn.Close() // which ends it
		}
		if !ok && c.before.ooms >= 0 && s.usage.read().ooms > c.before.ooms {
			err = &stepError{errno: syscall.ENOMEM} // the kernel chose the keeper
		}
		return describe(err, p.req.Dir, spec)
	}
	c.keeper, c.seq, c.pid, c.begin, c.started = k, k.seq, int(started.Arg), started.At, time.Now()
	c.orphan = s.reaper.expect(c.pid)
	c.out, c.pumps, c.stdin, c.tty, c.state = p.out, p.pumps, p.stdin, p.tty, p.state
	c.notices = p.notices
	for _, pump := range c.pumps {
		go pump.run()
	}
	if spec.Timeout > 0 {
		c.mu.Lock()
		c.timer = time.AfterFunc(spec.Timeout, func() {
			c.end(stopReason{outcome: skerry.Timeout, limit: skerry.CommandLimit, reason: fmt.Sprintf("command limit of %v", spec.Timeout)})
		})
		c.mu.Unlock()
	}
	go c.follow()
	s.watch.started()
	s.memory.started()
	return nil
}

// startPatience is how long a keeper may take to start a program, on a machine
// that is busy. One that user code stops over and over takes longer.
const startPatience = 30 * time.Second

// begin hands the request to the keeper and waits for its word.
func (s *Server) begin(k *keeper, p *prepared) (keep.Packet, error) {
	k.resume()
	// A program that was stopped on its way to exec holds its keeper up.
	defer every(resumePause, func() { keep.Below(k.pid).Signal(syscall.SIGCONT) })()
	limit := time.AfterFunc(startPatience, func() { s.reaper.kill(k.pid) })
	defer limit.Stop()
	if err := k.start(p.req, p.theirs); err != nil {
		return keep.Packet{}, err
	}
	got, err := k.receive()
	if err != nil {
		go s.buryKeeper(k) // with what it may have started
		return keep.Packet{}, err
	}
	switch got.Op {
	case keep.OpStarted:
		return got, nil
	case keep.OpFailed:
		return keep.Packet{}, &stepError{step: got.Flag, errno: syscall.Errno(got.Arg)}
	}
	return keep.Packet{}, fmt.Errorf("keeper: unexpected keep.Packet %q", got.Op)
}

// stepError is what a keeper could not do.
type stepError struct {
	step  uint32
	errno syscall.Errno
}

func (e *stepError) Error() string { return e.errno.Error() }

// describe names the cause and the remedy of a start that failed.
func describe(err error, dir string, spec skerry.CommandSpec) error {
	se, ok := errors.AsType[*stepError](err)
	if !ok {
		return startFailed(skerry.Unavailable, "the process that was to start it did not answer: %w", err).WithHint("start it again")
	}
	program := "bash"
	if len(spec.Argv) > 0 {
		program = spec.Argv[0]
	}
	switch {
	case se.errno == syscall.EAGAIN:
		return startFailed(skerry.Busy, "process limit of the sandbox reached").WithHint("end something in the sandbox, or raise the limit of pids")
	case se.errno == syscall.ENOMEM:
		return startFailed(skerry.Busy, "not enough memory to start a process").WithHint("end something in the sandbox, or raise its memory limit")
	case se.step == keep.StepDefence:
		return startFailed(skerry.Denied, "the filter that protects the init could not be installed").WithHint("the kernel must allow seccomp filters in sandboxes")
	case se.step == keep.StepDir:
		return workdirError(dir, se.errno)
	case se.errno == syscall.E2BIG:
		return startFailed(skerry.Invalid, "arguments and environment are too large for Linux").WithHint("send large values as files or on stdin")
	case se.errno == syscall.ENOENT:
		return startFailed(skerry.NotFound, "%s: it is there, but its interpreter is not", program).WithHint("see the first line of the script, or the libraries that the program needs")
	case se.errno == syscall.ENOEXEC:
		return startFailed(skerry.Invalid, "%s is not a program", program).WithHint("a script needs a first line like #!/bin/sh")
	}
	return startFailed(skerry.Denied, "%s: %w", program, se.errno)
}

func workdirError(dir string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOENT):
		return startFailed(skerry.NotFound, "workdir not found: %q", dir).WithHint("make it first, or leave the workdir out")
	case errors.Is(err, syscall.ENOTDIR):
		return startFailed(skerry.Invalid, "workdir not found: %q is not a directory", dir).WithHint("give a directory, or leave the workdir out")
	}
	return startFailed(skerry.Denied, "workdir not found: %q can't be entered: %w", dir, err)
}

func startFailed(kind skerry.Kind, format string, args ...any) *skerry.Error {
	return skerry.Errorf(kind, startOp, format, args...).WithOutcome(skerry.StartFailed)
}

// digestOf is keyed, so that it tells nothing about small secrets.
func (s *Server) digestOf(spec skerry.CommandSpec) (d [32]byte) {
	if spec.Dir != "" || !s.config.Session { // else it is wherever the session is
		spec.Dir = s.resolveDir(spec.Dir)
	}
	digest := spec.Digest()
	h := hmac.New(sha256.New, s.digests[:])
	h.Write(digest[:])
	h.Sum(d[:0])
	return d
}

// lookPath finds a program the way a shell would, with the PATH of the
// command's own environment. dir is its working directory.
func lookPath(name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, executable(inDir(dir, name))
	}
	var found error = syscall.ENOENT
	for _, d := range filepath.SplitList(valueOf(env, "PATH")) {
		if d == "" {
			d = "."
		}
		path := filepath.Join(d, name)
		if !strings.Contains(path, "/") {
			path = "./" + path
		}
		err := executable(inDir(dir, path))
		if err == nil {
			return path, nil
		}
		if errors.Is(err, syscall.EACCES) {
			found = err
		}
	}
	return "", found
}

func inDir(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// executable says why path can't be run, as far as that can be told without
// running it.
func executable(path string) error {
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		return err
	}
	if st.Mode&syscall.S_IFMT == syscall.S_IFDIR {
		return syscall.EISDIR
	}
	const accessX = 1
	return syscall.Access(path, accessX)
}

func programError(name string, err error, missing string) error {
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENOTDIR):
		e := startFailed(skerry.NotFound, "%s: not found in the sandbox", name)
		e.Hint = missing
		if missing == "" {
			e.Hint = "install it in the sandbox's image, or check the PATH"
		}
		return e
	case errors.Is(err, syscall.EISDIR):
		return startFailed(skerry.Invalid, "%s is a directory", name)
	case errors.Is(err, syscall.EACCES):
		return startFailed(skerry.Denied, "%s is not executable", name).WithHint("chmod +x it, or run it with its interpreter")
	}
	return startFailed(skerry.Invalid, "%s: %w", name, err)
}

func valueOf(env []string, name string) string {
	for _, e := range slices.Backward(env) {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v
		}
	}
	return ""
}

// mergeEnv lays layers of NAME=value over each other; the later wins. The
// result is sorted.
func mergeEnv(layers ...[]string) []string {
	all := map[string]string{}
	for _, layer := range layers {
		for _, e := range layer {
			name, value, _ := strings.Cut(e, "=")
			all[name] = value
		}
	}
	out := make([]string, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, name+"="+all[name])
	}
	return out
}

func envOf(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for k, v := range m {
		out = append(out, k+"="+v)
	}
	return out
}

// resolveDir makes the working directory absolute.
func (s *Server) resolveDir(dir string) string {
	if dir == "" {
		return s.config.Workspace
	}
	if !filepath.IsAbs(dir) {
		return filepath.Join(s.config.Workspace, dir)
	}
	return dir
}

func checkDir(dir string) error {
	var st syscall.Stat_t
	if err := syscall.Stat(dir, &st); err != nil {
		return workdirError(dir, err)
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFDIR {
		return workdirError(dir, syscall.ENOTDIR)
	}
	return nil
}

func bytesOf(ss []string) [][]byte {
	bs := make([][]byte, len(ss))
	for i, s := range ss {
		bs[i] = []byte(s)
	}
	return bs
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
