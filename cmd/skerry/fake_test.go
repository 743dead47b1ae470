package main

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skerry-run/skerry"
)

// fakeBackend keeps sandboxes in memory. Its programs do what behave says; it
// is for what the command line itself does, never for how sandboxes behave.
type fakeBackend struct {
	mu        sync.Mutex
	sandboxes map[skerry.Ref]*fakeSandbox
	created   []skerry.SandboxSpec
	behave    func(skerry.CommandSpec) fakeEnd
	report    skerry.Report
}

// fakeEnd is what a program writes, and how it ends.
type fakeEnd struct {
	stdout, stderr string
	exit           skerry.Exit
	hang           bool // it does not end before it is cancelled
}

func exited(code int) skerry.Exit {
	return skerry.Exit{Outcome: skerry.Exited, ExitCode: &code, Duration: time.Millisecond}
}

func newFake(behave func(skerry.CommandSpec) fakeEnd) *fakeBackend {
	return &fakeBackend{sandboxes: map[skerry.Ref]*fakeSandbox{}, behave: behave}
}

func (b *fakeBackend) Name() string { return "fake" }

func (b *fakeBackend) Create(_ context.Context, spec skerry.SandboxSpec) (skerry.Sandbox, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	if b.sandboxes[spec.Ref] != nil {
		return nil, skerry.Errorf(skerry.Conflict, "create sandbox", "%s exists", spec.Name)
	}
	s := &fakeSandbox{backend: b, info: skerry.SandboxInfo{
		Ref: spec.Ref, Backend: "fake", Created: time.Unix(1, 0), Expires: time.Unix(1, 0).Add(spec.TTL), Network: spec.Network, Limits: spec.Limits,
	}, commands: map[string]*fakeCommand{}, files: map[string][]byte{}}
	b.sandboxes[spec.Ref] = s
	b.created = append(b.created, spec)
	return s, nil
}

func (b *fakeBackend) Open(_ context.Context, ref skerry.Ref) (skerry.Sandbox, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.sandboxes[ref]; s != nil {
		return s, nil
	}
	return nil, skerry.Errorf(skerry.NotFound, "open sandbox", "there is none of that name")
}

func (b *fakeBackend) List(_ context.Context, f skerry.Filter) ([]skerry.SandboxInfo, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []skerry.SandboxInfo
	for ref, s := range b.sandboxes {
		if f.Matches(ref) {
			out = append(out, s.info)
		}
	}
	slices.SortFunc(out, func(x, y skerry.SandboxInfo) int { return cmp.Compare(x.Name, y.Name) })
	return out, nil
}

func (b *fakeBackend) Delete(_ context.Context, ref skerry.Ref, _ skerry.DeleteOptions) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sandboxes[ref] == nil {
		return skerry.Errorf(skerry.NotFound, "delete sandbox", "there is none of that name")
	}
	delete(b.sandboxes, ref)
	return nil
}

func (b *fakeBackend) Check(context.Context) (skerry.Report, error) { return b.report, nil }

type fakeSandbox struct {
	backend  *fakeBackend
	info     skerry.SandboxInfo
	mu       sync.Mutex
	commands map[string]*fakeCommand
	files    map[string][]byte
}

func (s *fakeSandbox) Info() skerry.SandboxInfo { return s.info }

func (s *fakeSandbox) Start(_ context.Context, spec skerry.CommandSpec) (skerry.Command, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.commands[spec.ID]; c != nil {
		return c, nil
	}
	for _, f := range spec.Files {
		s.files[f.Path] = f.Data
	}
	c := &fakeCommand{spec: spec, end: s.backend.behave(spec), cancelled: make(chan struct{})}
	s.commands[spec.ID] = c
	return c, nil
}

func (s *fakeSandbox) Command(_ context.Context, id string) (skerry.Command, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.commands[id]; c != nil {
		return c, nil
	}
	return nil, skerry.Errorf(skerry.NotFound, "command", "there is none of that id")
}

func (s *fakeSandbox) Commands(context.Context) ([]skerry.CommandInfo, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []skerry.CommandInfo
	for id, c := range s.commands {
		i := skerry.CommandInfo{ID: id, Background: c.spec.Background, Stdout: int64(len(c.end.stdout)), Stderr: int64(len(c.end.stderr))}
		if !c.end.hang {
			i.Exit = &c.end.exit
		}
		out = append(out, i)
	}
	return out, nil
}

func (s *fakeSandbox) Files() skerry.Files                             { return &fakeFiles{s: s} }
func (s *fakeSandbox) Usage(context.Context) (skerry.Usage, error)     { return skerry.Usage{}, nil }
func (s *fakeSandbox) Extend(_ context.Context, _ time.Duration) error { return nil }
func (s *fakeSandbox) Close() error                                    { return nil }

type fakeCommand struct {
	spec      skerry.CommandSpec
	end       fakeEnd
	once      sync.Once
	cancelled chan struct{}
	reason    string
}

func (c *fakeCommand) ID() string { return c.spec.ID }

func (c *fakeCommand) Output(ctx context.Context, _ skerry.Offsets, fn func(skerry.Chunk) error) error {
	if c.end.stdout != "" {
		if err := fn(skerry.Chunk{Stream: skerry.Stdout, Data: []byte(c.end.stdout)}); err != nil {
			return err
		}
	}
	if c.end.stderr != "" {
		if err := fn(skerry.Chunk{Stream: skerry.Stderr, Data: []byte(c.end.stderr)}); err != nil {
			return err
		}
	}
	return c.wait(ctx)
}

func (c *fakeCommand) wait(ctx context.Context) error {
	if !c.end.hang {
		return nil
	}
	select {
	case <-c.cancelled:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *fakeCommand) Stdin(context.Context) (io.WriteCloser, error) {
	return nil, skerry.Errorf(skerry.Invalid, "stdin", "the fake reads none")
}
func (c *fakeCommand) Signal(context.Context, int, bool) error           { return nil }
func (c *fakeCommand) Resize(context.Context, skerry.TerminalSize) error { return nil }

func (c *fakeCommand) Cancel(_ context.Context, reason string) error {
	c.once.Do(func() { c.reason = reason; close(c.cancelled) })
	return nil
}

func (c *fakeCommand) Wait(ctx context.Context) (skerry.Exit, error) {
	if err := c.wait(ctx); err != nil {
		return skerry.Exit{}, err
	}
	if c.end.hang {
		return skerry.Exit{Outcome: skerry.Cancelled, Reason: c.reason}, nil
	}
	return c.end.exit, nil
}

// fakeFiles has plain files only, and the tar stream that a test gives it.
type fakeFiles struct {
	skerry.Files
	s *fakeSandbox
}

func (f *fakeFiles) Read(_ context.Context, p string, _, length int64, w io.Writer) (skerry.FileInfo, error) {
	data, ok := f.s.files[p]
	if !ok {
		return skerry.FileInfo{}, skerry.Errorf(skerry.NotFound, "read", "there is no such file")
	}
	if length >= 0 {
		data = data[:min(length, int64(len(data)))]
	}
	_, err := w.Write(data)
	return skerry.FileInfo{Path: p, Size: int64(len(data))}, err
}

func (f *fakeFiles) Write(_ context.Context, p string, r io.Reader, _ skerry.WriteOptions) (skerry.FileInfo, error) {
	data, err := io.ReadAll(r)
	f.s.files[p] = data
	return skerry.FileInfo{Path: p, Size: int64(len(data))}, err
}

func (f *fakeFiles) List(_ context.Context, dir string, _ skerry.ListOptions) ([]skerry.FileInfo, error) {
	var out []skerry.FileInfo
	for p, data := range f.s.files {
		if rest, ok := strings.CutPrefix(p, dir+"/"); ok {
			out = append(out, skerry.FileInfo{Path: rest, Type: skerry.RegularFile, Size: int64(len(data))})
		}
	}
	slices.SortFunc(out, func(x, y skerry.FileInfo) int { return cmp.Compare(x.Path, y.Path) })
	return out, nil
}

func (f *fakeFiles) Stat(_ context.Context, p string) (skerry.FileInfo, error) {
	if data, ok := f.s.files[p]; ok {
		return skerry.FileInfo{Path: p, Type: skerry.RegularFile, Size: int64(len(data)), Mode: 0o644}, nil
	}
	for name := range f.s.files {
		if strings.HasPrefix(name, path.Clean(p)+"/") {
			return skerry.FileInfo{Path: p, Type: skerry.Directory}, nil
		}
	}
	return skerry.FileInfo{}, skerry.Errorf(skerry.NotFound, "stat", "there is no such file")
}

// invocation is what one call of the command line printed.
type invocation struct {
	code           int
	stdout, stderr string
}

// invoke calls the command line on a backend, with an environment of pairs.
func invoke(ctx context.Context, b skerry.Backend, stdin string, env map[string]string, args ...string) invocation {
	var stdout, stderr bytes.Buffer
	a := newApp(strings.NewReader(stdin), &stdout, &stderr, func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	})
	a.openBackend = fixedBackend(b)
	for name, v := range env {
		a.environ = append(a.environ, name+"="+v)
	}
	code := a.run(ctx, args)
	return invocation{code, stdout.String(), stderr.String()}
}
