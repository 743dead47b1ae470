// Package sandboxtest is the conformance suite of Skerry: what every
// [skerry.Backend] promises, as tests. A backend of your own passes it when
//
//	func TestConformance(t *testing.T) {
//		sandboxtest.Run(t, myBackend, sandboxtest.Options{})
//	}
//
// is green. The sandboxes need bash, coreutils, grep and a /proc; what also
// needs python3 is skipped where there is none. Ids in comments (B017, X6) name
// the failure that a test keeps from coming back.
package sandboxtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerry-run/skerry"
)

// Feature is something that a backend may be unable to do in some place.
type Feature string

const (
	MemoryLimit    Feature = "memory limit"    // the kernel kills what goes over Limits.MemoryBytes: outcome oom
	PIDLimit       Feature = "pid limit"       // Limits.PIDs holds
	WorkspaceLimit Feature = "workspace limit" // Limits.WorkspaceBytes holds
	TmpLimit       Feature = "tmp limit"       // Limits.TmpBytes holds
	MemoryUsage    Feature = "memory usage"    // Usage of a sandbox knows the memory
	CPUUsage       Feature = "cpu usage"       // Usage of a sandbox knows the CPU time
	NetworkDeny    Feature = "network deny"
	Persistent     Feature = "persistent" // SandboxSpec.Persistent
	Remember       Feature = "remember"   // SandboxSpec.Remember
)

// Options say how the suite meets a backend. The zero value asks for
// everything.
type Options struct {
	// Without names what the backend can't do here, each with why; those
	// subtests are skipped with that reason.
	Without map[Feature]string

	// Again makes a second Backend on the same place, as another process
	// would. Nil uses the one backend for both.
	Again func(t *testing.T) skerry.Backend

	// Patience bounds every single subtest; 0 is two minutes. Nothing in the
	// suite is a measurement of time: it only ends what hangs.
	Patience time.Duration

	// MaxTTL is the longest time to live that the backend grants, at most
	// skerry.MaxDuration; 0 says that it has no such ceiling.
	MaxTTL time.Duration

	// Image goes into every SandboxSpec.
	Image string
}

const defaultPatience = 2 * time.Minute

// Run runs the whole suite against backend. It makes its own sandboxes, in an
// org of its own, and removes them.
func Run(t *testing.T, backend skerry.Backend, opts Options) {
	if opts.Patience == 0 {
		opts.Patience = defaultPatience
	}
	s := &suite{Backend: backend, opts: opts, org: "conformance-" + randomHex(4)}
	for _, g := range []struct {
		name string
		test func(*testing.T, *suite)
	}{
		{"backend", testBackend},
		{"create", testCreate},
		{"expiry", testExpiry},
		{"sandbox", testSandbox},
		{"start", testStart},
		{"refused", testRefused},
		{"output", testOutput},
		{"slow reader", testSlowReader},
		{"text", testText},
		{"stdin", testStdin},
		{"end", testEnd},
		{"tree", testTree},
		{"shell", testShell},
		{"state", testState},
		{"concurrent", testConcurrent},
		{"terminal", testTerminal},
		{"environment", testEnvironment},
		{"files read and write", testFilesReadWrite},
		{"files list", testFilesList},
		{"files confined", testFilesConfined},
		{"files search", testFilesSearch},
		{"files tar", testFilesTar},
		{"limits", testLimits},
		{"network", testNetwork},
		{"isolation", testIsolation},
		{"persistent", testPersistent},
		{"run", testRun},
		{"run artifacts", testRunArtifacts},
		{"same run", testSameRun},
		{"detach", testDetach},
		{"handles", testHandles},
		{"load", testLoad},
	} {
		t.Run(g.name, func(t *testing.T) { g.test(t, s) })
	}
}

// suite is one backend under test.
type suite struct {
	skerry.Backend
	opts Options
	org  string
	n    atomic.Int64
}

// need skips the test where the backend can't do what it is about.
func (s *suite) need(t *testing.T, features ...Feature) {
	t.Helper()
	for _, f := range features {
		if why, ok := s.opts.Without[f]; ok {
			t.Skipf("%s: %s", f, why)
		}
	}
}

// again gives another Backend on the same place.
func (s *suite) again(t *testing.T) skerry.Backend {
	if s.opts.Again == nil {
		return s.Backend
	}
	return s.opts.Again(t)
}

// name gives a name that nobody has had.
func (s *suite) name(what string) string {
	return fmt.Sprintf("%s-%d-%s", what, s.n.Add(1), randomHex(4))
}

// context gives a context that ends with the test, or when patience is at its
// end.
func (s *suite) context(t *testing.T) context.Context {
	cause := fmt.Errorf("the test's patience of %v is at its end", s.opts.Patience)
	ctx, cancel := context.WithTimeoutCause(t.Context(), s.opts.Patience, cause)
	t.Cleanup(cancel)
	return ctx
}

// spec gives the spec of a new sandbox.
func (s *suite) spec(kind skerry.SandboxKind, mods ...func(*skerry.SandboxSpec)) skerry.SandboxSpec {
	spec := skerry.SandboxSpec{
		Ref:   skerry.Ref{Kind: kind, Org: s.org, Name: s.name(string(kind))},
		Image: s.opts.Image,
		TTL:   10 * time.Minute, // what a crashed test leaves behind goes by itself
	}
	for _, mod := range mods {
		mod(&spec)
	}
	return spec
}

// create makes a sandbox that is removed when the test ends.
func (s *suite) create(t *testing.T, spec skerry.SandboxSpec) *box {
	t.Helper()
	ctx := s.context(t)
	sandbox, err := s.Create(ctx, spec)
	if err != nil {
		t.Fatalf("create %s %q: %v (hint: %s)", spec.Kind, spec.Name, err, skerry.HintOf(err))
	}
	s.cleanup(t, sandbox, spec.Ref)
	return &box{Sandbox: sandbox, t: t, ctx: ctx, suite: s, ref: spec.Ref}
}

// cleanup removes a sandbox when the test ends, if it still exists.
func (s *suite) cleanup(t *testing.T, sandbox skerry.Sandbox, ref skerry.Ref) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), s.opts.Patience)
		defer cancel()
		if sandbox != nil {
			sandbox.Close()
		}
		err := s.Delete(ctx, ref, skerry.DeleteOptions{Purge: true})
		if kind := skerry.KindOf(err); err != nil && kind != skerry.NotFound && kind != skerry.Expired {
			t.Errorf("delete %s %q: %v", ref.Kind, ref.Name, err)
		}
	})
}

// session makes a session that is removed when the test ends.
func (s *suite) session(t *testing.T, mods ...func(*skerry.SandboxSpec)) *box {
	t.Helper()
	return s.create(t, s.spec(skerry.SessionKind, mods...))
}

// run makes the sandbox of a run that is removed when the test ends.
func (s *suite) run(t *testing.T, mods ...func(*skerry.SandboxSpec)) *box {
	t.Helper()
	return s.create(t, s.spec(skerry.RunKind, mods...))
}

func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return hex.EncodeToString(b)
}
