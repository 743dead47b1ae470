package skerry_test

import (
	"context"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/skerry-run/skerry"
)

// What one field of a spec says decides its digest, unless it only names the
// command or is for people: a field that is new has to be given its place.
func TestEveryFieldDecidesACommandsDigest(t *testing.T) {
	for i := range reflect.TypeFor[skerry.CommandSpec]().NumField() {
		var spec skerry.CommandSpec
		fill(reflect.ValueOf(&spec).Elem().Field(i))
		name := reflect.TypeFor[skerry.CommandSpec]().Field(i).Name
		decides := name != "ID" && name != "Missing"
		if got := spec.Digest() != (skerry.CommandSpec{}).Digest(); got != decides {
			t.Errorf("%s decides: %v, want %v", name, got, decides)
		}
	}
}

func TestOtherRequestsHaveOtherDigests(t *testing.T) {
	seen := map[[32]byte]int{}
	for i, spec := range []skerry.CommandSpec{
		{},
		{Argv: []string{"a", "b"}},
		{Argv: []string{"ab"}},
		{Argv: []string{"a"}, Script: "b"},
		{Argv: []string{"1;a"}},
		{Argv: []string{"\xff"}},
		{Argv: []string{"\xfe"}}, // not text, and not the same
		{Argv: []string{"\ufffd"}},
		{Script: "a"},
		{Dir: "a"},
		{Env: map[string]string{"a": "b"}},
		{Env: map[string]string{"a": "b", "c": "d"}},
		{Env: map[string]string{"a": "bc", "": "d"}},
		{TTY: &skerry.TerminalSize{}},
		{TTY: &skerry.TerminalSize{Cols: 24, Rows: 80}},
		{Files: []skerry.StartFile{{Path: "a", Data: []byte("b")}}},
		{Files: []skerry.StartFile{{Path: "a"}, {Path: "b"}}},
		{Files: []skerry.StartFile{{Path: "a", Mode: 0o600}}},
		{Timeout: skerry.DefaultKillGrace},
		{Grace: skerry.DefaultKillGrace + 1},
	} {
		digest := spec.Digest()
		if other, ok := seen[digest]; ok {
			t.Errorf("specs %d and %d have one digest", other, i)
		}
		seen[digest] = i
	}
}

func TestDefaultsDecideNoDigest(t *testing.T) {
	terminal := func(cols, rows uint16) skerry.CommandSpec {
		return skerry.CommandSpec{TTY: &skerry.TerminalSize{Cols: cols, Rows: rows}}
	}
	file := func(mode uint32) skerry.CommandSpec {
		return skerry.CommandSpec{Files: []skerry.StartFile{{Path: "a", Mode: mode}}}
	}
	for name, c := range map[string][2]skerry.CommandSpec{
		"grace":          {{}, {Grace: 3 * time.Second}},
		"columns":        {terminal(0, 10), terminal(80, 10)},
		"rows":           {terminal(10, 0), terminal(10, 24)},
		"mode of a file": {file(0), file(0o644)},
		"no environment": {{}, {Env: map[string]string{}}},
		"no arguments":   {{}, {Argv: []string{}}},
		"no files":       {{}, {Files: []skerry.StartFile{}}},
		"an empty file":  {{Files: []skerry.StartFile{{}}}, {Files: []skerry.StartFile{{Data: []byte{}}}}},
	} {
		if c[0].Digest() != c[1].Digest() {
			t.Errorf("%s: %+v and %+v have two digests", name, c[0], c[1])
		}
	}
	spec := file(0)
	spec.Digest()
	if spec.Files[0].Mode != 0 {
		t.Error("the caller's files were changed")
	}
}

// asked is a fake backend that keeps what it was asked for.
type asked struct {
	skerry.Backend
	digest string
}

func (a *asked) Name() string { return "asked" }
func (a *asked) Create(_ context.Context, spec skerry.SandboxSpec) (skerry.Sandbox, error) {
	a.digest = spec.Digest
	return nil, skerry.Errorf(skerry.Busy, "create sandbox", "it only looks")
}

func runDigest(t *testing.T, change func(*skerry.RunSpec)) string {
	t.Helper()
	spec := skerry.RunSpec{
		Sandbox: skerry.SandboxSpec{Ref: skerry.Ref{Name: "one"}, Remember: time.Minute},
		Command: skerry.CommandSpec{Argv: []string{"true"}},
		Inputs: []skerry.Input{{Path: "in", Size: 1, Open: func() (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader("x")), nil
		}}},
	}
	change(&spec)
	var b asked
	skerry.Run(t.Context(), &b, spec)
	if b.digest == "" {
		t.Fatal("the run has no digest")
	}
	return b.digest
}

func TestDefaultsDecideNoRunsDigest(t *testing.T) {
	plain := runDigest(t, func(*skerry.RunSpec) {})
	for name, change := range map[string]func(*skerry.RunSpec){
		"org":       func(s *skerry.RunSpec) { s.Sandbox.Org = skerry.DefaultOrg },
		"kind":      func(s *skerry.RunSpec) { s.Sandbox.Kind = skerry.RunKind },
		"limits":    func(s *skerry.RunSpec) { s.Sandbox.Limits = skerry.DefaultLimits },
		"network":   func(s *skerry.RunSpec) { s.Sandbox.Network.Mode = skerry.NetworkDeny },
		"env":       func(s *skerry.RunSpec) { s.Sandbox.Env = map[string]string{} },
		"timeout":   func(s *skerry.RunSpec) { s.Command.Timeout = skerry.DefaultRunTimeout },
		"grace":     func(s *skerry.RunSpec) { s.Command.Grace = skerry.DefaultKillGrace },
		"directory": func(s *skerry.RunSpec) { s.Command.Dir = "." },
		"mode":      func(s *skerry.RunSpec) { s.Inputs[0].Mode = 0o644 },
	} {
		if runDigest(t, change) != plain {
			t.Errorf("%s: the default spelled out is another request", name)
		}
	}
	for name, change := range map[string]func(*skerry.RunSpec){
		"org":       func(s *skerry.RunSpec) { s.Sandbox.Org = "other" },
		"profile":   func(s *skerry.RunSpec) { s.Sandbox.Profile = "other" },
		"image":     func(s *skerry.RunSpec) { s.Sandbox.Image = "other" },
		"limits":    func(s *skerry.RunSpec) { s.Sandbox.Limits.PIDs = 100 },
		"network":   func(s *skerry.RunSpec) { s.Sandbox.Network.Mode = skerry.NetworkInternet },
		"env":       func(s *skerry.RunSpec) { s.Sandbox.Env = map[string]string{"A": "1"} },
		"timeout":   func(s *skerry.RunSpec) { s.Command.Timeout = time.Second },
		"directory": func(s *skerry.RunSpec) { s.Command.Dir = "sub" },
		"language":  func(s *skerry.RunSpec) { s.Language = "python" },
		"mode":      func(s *skerry.RunSpec) { s.Inputs[0].Mode = 0o600 },
		"path":      func(s *skerry.RunSpec) { s.Inputs[0].Path = "other" },
		"input":     func(s *skerry.RunSpec) { s.Inputs = nil },
	} {
		if runDigest(t, change) == plain {
			t.Errorf("another %s is the same request", name)
		}
	}
}
