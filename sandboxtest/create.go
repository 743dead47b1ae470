package sandboxtest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerry-run/skerry"
)

func testCreate(t *testing.T, s *suite) {
	t.Run("returns when commands can be started", func(t *testing.T) {
		s.session(t).do(argv("true")).want(0)
		s.run(t).do(argv("true")).want(0)
	})

	t.Run("a live sandbox of the same ref is a conflict and stays untouched", func(t *testing.T) {
		b := s.session(t)
		b.sh("echo mine > f; export MINE=1").want(0)
		for _, backend := range []skerry.Backend{s.Backend, s.again(t)} {
			_, err := backend.Create(b.ctx, s.spec(skerry.SessionKind, func(spec *skerry.SandboxSpec) { spec.Ref = b.ref }))
			wantKind(t, "create", err, skerry.Conflict)
		}
		b.sh("cat f; echo $MINE").wantOut("mine\n1\n")
	})

	t.Run("of one ref at the same time makes one sandbox", func(t *testing.T) {
		const callers = 8
		spec := s.spec(skerry.SessionKind)
		ctx := s.context(t)
		s.cleanup(t, nil, spec.Ref)
		var wg sync.WaitGroup
		errs := make([]error, callers)
		for i := range callers {
			wg.Go(func() {
				sandbox, err := s.Create(ctx, spec)
				if errs[i] = err; err == nil {
					sandbox.Close()
				}
			})
		}
		wg.Wait()
		made := 0
		for _, err := range errs {
			if err == nil {
				made++
				continue
			}
			wantKind(t, "create", err, skerry.Conflict)
		}
		if made != 1 {
			t.Errorf("%d of %d callers made it", made, callers)
		}
	})

	t.Run("whose context ends leaves nothing behind", func(t *testing.T) {
		for _, after := range []time.Duration{0, time.Millisecond, 3 * time.Millisecond, 10 * time.Millisecond, 30 * time.Millisecond} {
			spec := s.spec(skerry.SessionKind)
			ctx := s.context(t)
			s.cleanup(t, nil, spec.Ref)
			short, cancel := context.WithTimeout(ctx, after)
			sandbox, err := s.Create(short, spec)
			cancel()
			if err == nil {
				// It was quicker than the context; then it is whole.
				b := &box{Sandbox: sandbox, t: t, ctx: ctx, suite: s, ref: spec.Ref}
				b.do(argv("true")).want(0)
				sandbox.Close()
				continue
			}
			_, err = s.Open(ctx, spec.Ref)
			wantKind(t, "open after a create that was given up", err, skerry.NotFound)
			b := s.create(t, spec)
			b.do(argv("true")).want(0)
		}
	})

	t.Run("refuses what can never work, by its kind", func(t *testing.T) {
		ctx := s.context(t)
		for name, mod := range map[string]func(*skerry.SandboxSpec){
			"no kind":             func(spec *skerry.SandboxSpec) { spec.Kind = "" },
			"unknown kind":        func(spec *skerry.SandboxSpec) { spec.Kind = "island" },
			"no name":             func(spec *skerry.SandboxSpec) { spec.Name = "" },
			"control in name":     func(spec *skerry.SandboxSpec) { spec.Name = "a\nb" },
			"long name":           func(spec *skerry.SandboxSpec) { spec.Name = strings.Repeat("n", 257) },
			"name not UTF-8":      func(spec *skerry.SandboxSpec) { spec.Name = "a\xffb" },
			"path in name":        func(spec *skerry.SandboxSpec) { spec.Name = "a/../b" },
			"colon in name":       func(spec *skerry.SandboxSpec) { spec.Name = "a:b" },
			"name turns around":   func(spec *skerry.SandboxSpec) { spec.Name = "a\u202eb" },
			"name with no width":  func(spec *skerry.SandboxSpec) { spec.Name = "a\u200bb" },
			"negative ttl":        func(spec *skerry.SandboxSpec) { spec.TTL = -1 },
			"absurd ttl":          func(spec *skerry.SandboxSpec) { spec.TTL = 1 << 62 }, // B075
			"negative memory":     func(spec *skerry.SandboxSpec) { spec.Limits.MemoryBytes = -1 },
			"tiny memory":         func(spec *skerry.SandboxSpec) { spec.Limits.MemoryBytes = 1 },
			"unknown network":     func(spec *skerry.SandboxSpec) { spec.Network.Mode = "sometimes" },
			"allow without rules": func(spec *skerry.SandboxSpec) { spec.Network.Mode = skerry.NetworkAllow },
			"a variable's name":   func(spec *skerry.SandboxSpec) { spec.Env = map[string]string{"A=B": "1"} },
			"a variable with NUL": func(spec *skerry.SandboxSpec) { spec.Env = map[string]string{"A": "\x00"} },
			"a persistent run":    func(spec *skerry.SandboxSpec) { spec.Kind, spec.Persistent = skerry.RunKind, true },
		} {
			spec := s.spec(skerry.SessionKind, mod)
			sandbox, err := s.Create(ctx, spec)
			if err == nil {
				s.cleanup(t, sandbox, spec.Ref)
			}
			wantKind(t, name, err, skerry.Invalid)
		}
	})

	t.Run("takes any legal name and keeps names apart", func(t *testing.T) {
		tag := s.name("x")
		var boxes []*box
		names := []string{
			tag + " with spaces", tag + "..", "-" + tag, tag + "$(id)`id`'\"", tag + "\u00e9", tag + "e\u0301", // NFC and NFD
			tag + "A", tag + "a", tag + strings.Repeat("長", 60), "." + tag, tag + "*?[",
		}
		for _, name := range names {
			b := s.session(t, func(spec *skerry.SandboxSpec) { spec.Name = name })
			b.write("who", name)
			boxes = append(boxes, b)
		}
		for i, b := range boxes {
			if got := b.read("who"); got != names[i] {
				t.Errorf("session %q holds the file of %q", names[i], got)
			}
			if got := b.Info().Name; got != names[i] {
				t.Errorf("session %q calls itself %q", names[i], got)
			}
		}
	})

	t.Run("gives every command the sandbox's environment", func(t *testing.T) {
		env := map[string]string{"ODD": "a b\n\"c' $HOME `id` é", "EMPTY": "", "OVER": "sandbox"}
		b := s.session(t, func(spec *skerry.SandboxSpec) { spec.Env = env })
		for _, spec := range []skerry.CommandSpec{
			argv("bash", "-c", `printf %s "$ODD|${EMPTY-unset}|$OVER"`), script(`printf %s "$ODD|${EMPTY-unset}|$OVER"`),
		} {
			spec.Env = map[string]string{"OVER": "command"}
			b.do(spec).wantOut(env["ODD"] + "||command")
		}
	})

	t.Run("tells in Info what was asked, with the defaults", func(t *testing.T) {
		b := s.session(t, func(spec *skerry.SandboxSpec) {
			spec.TTL, spec.Idle = 7*time.Minute, 5*time.Minute
			spec.Limits.PIDs = 99
		})
		info := b.Info()
		want := skerry.Limits{PIDs: 99}.OrDefaults(skerry.DefaultLimits)
		if info.Ref != b.ref || info.Backend != s.Name() || info.Idle != 5*time.Minute || info.Limits != want || info.Persistent || info.Recreated {
			t.Errorf("info %+v", info)
		}
		if left := info.Expires.Sub(info.Created); left < 6*time.Minute || left > 8*time.Minute {
			t.Errorf("expires %v after it was made, want about 7m", left)
		}
		if got := fmt.Sprint(info.Network); got != "deny" {
			t.Errorf("network %s", got)
		}
	})
}
