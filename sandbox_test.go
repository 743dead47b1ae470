package skerry_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/skerry-run/skerry"
)

func TestNamesAreCallersOwnWithinReason(t *testing.T) {
	for _, name := range []string{"a", "a b", "..", "報告", "é", "e\u0301", "-rf", "'\"", ".", strings.Repeat("x", 256)} {
		if err := (skerry.Ref{Kind: skerry.SessionKind, Name: name}).Validate(); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", strings.Repeat("x", 257), "a\nb", "a\x00", "\x1b[31m", "\x7f", "\u0085", "\xff",
		"a\u202eb", "a\u2066b", "a\u200bb", "a\u200db", "\ufeffa", "a\u00adb", "a\u2028b", "a\u00a0b", "a\ue000b", "a\U000e0041b"} {
		for _, ref := range []skerry.Ref{{Kind: skerry.RunKind, Name: name}, {Kind: skerry.RunKind, Name: "x", Org: name}} {
			if name == "" && ref.Name != "" {
				continue // no org is the default one
			}
			if err := ref.Validate(); skerry.KindOf(err) != skerry.Invalid {
				t.Errorf("%q gave %v, want invalid", ref, err)
			}
		}
	}
	for _, name := range []string{"a:b", "a/b", `a\b`, ":", "/", "../x"} {
		if err := (skerry.Ref{Kind: skerry.SessionKind, Name: name}).Validate(); skerry.KindOf(err) != skerry.Invalid || skerry.HintOf(err) == "" {
			t.Errorf("session %q gave %v, want invalid with a hint", name, err)
		}
		if err := (skerry.Ref{Kind: skerry.RunKind, Name: name}).Validate(); err != nil {
			t.Errorf("run %q gave %v", name, err)
		}
	}
	for _, kind := range []skerry.SandboxKind{"", "Run", "pod"} {
		if err := (skerry.Ref{Kind: kind, Name: "x"}).Validate(); skerry.KindOf(err) != skerry.Invalid {
			t.Errorf("kind %q gave %v, want invalid", kind, err)
		}
	}
}

func TestKeysAreSafeAndDiffer(t *testing.T) {
	safe := regexp.MustCompile(`^[0-9a-f]{32}$`)
	seen := map[string]skerry.Ref{}
	for _, r := range []skerry.Ref{
		{Kind: skerry.RunKind, Name: "a"}, {Kind: skerry.SessionKind, Name: "a"}, {Kind: skerry.SessionKind, Name: "A"},
		{Kind: skerry.SessionKind, Org: "a", Name: "b"}, {Kind: skerry.SessionKind, Org: "b", Name: "a"}, {Kind: skerry.SessionKind, Org: "ab", Name: "c"},
		{Kind: skerry.SessionKind, Org: "a", Name: "bc"}, {Kind: skerry.SessionKind, Name: "é"}, {Kind: skerry.SessionKind, Name: "e\u0301"},
		{Kind: skerry.SessionKind, Name: "../../x"}, {Kind: skerry.SessionKind, Name: strings.Repeat("x", 256)},
	} {
		key := r.Key()
		if !safe.MatchString(key) {
			t.Errorf("%v has the key %q", r, key)
		}
		if other, ok := seen[key]; ok {
			t.Errorf("%v and %v have one key", r, other)
		}
		seen[key] = r
	}
	named, unnamed := skerry.Ref{Kind: skerry.RunKind, Org: skerry.DefaultOrg, Name: "a"}, skerry.Ref{Kind: skerry.RunKind, Name: "a"}
	if named.Key() != unnamed.Key() {
		t.Error("no org and the default org differ")
	}
}

func TestSandboxesThatNoBackendCouldMake(t *testing.T) {
	good := skerry.SandboxSpec{Ref: skerry.Ref{Kind: skerry.SessionKind, Name: "a"}, Persistent: true}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*skerry.SandboxSpec){
		"no name":             func(s *skerry.SandboxSpec) { s.Name = "" },
		"limits":              func(s *skerry.SandboxSpec) { s.Limits.PIDs = -1 },
		"network":             func(s *skerry.SandboxSpec) { s.Network.Mode = "host" },
		"environment":         func(s *skerry.SandboxSpec) { s.Env = map[string]string{"=": ""} },
		"ttl":                 func(s *skerry.SandboxSpec) { s.TTL = -1 },
		"idle":                func(s *skerry.SandboxSpec) { s.Idle = skerry.MaxDuration + 1 },
		"retention":           func(s *skerry.SandboxSpec) { s.Retention = -time.Second },
		"time to remember":    func(s *skerry.SandboxSpec) { s.Remember = -time.Second },
		"a run that persists": func(s *skerry.SandboxSpec) { s.Kind = skerry.RunKind },
	} {
		s := good
		change(&s)
		if err := s.Validate(); skerry.KindOf(err) != skerry.Invalid {
			t.Errorf("%s gave %v, want invalid", name, err)
		}
	}
}

func TestFiltersSelect(t *testing.T) {
	run := skerry.Ref{Kind: skerry.RunKind, Name: "a"}
	for _, c := range []struct {
		filter skerry.Filter
		want   bool
	}{
		{skerry.Filter{}, true}, {skerry.Filter{Kind: skerry.RunKind}, true}, {skerry.Filter{Kind: skerry.SessionKind}, false},
		{skerry.Filter{Org: skerry.DefaultOrg}, true}, {skerry.Filter{Org: "other"}, false},
	} {
		if got := c.filter.Matches(run); got != c.want {
			t.Errorf("%+v gave %v", c.filter, got)
		}
	}
}

func TestAReportFailsByItsWorstFinding(t *testing.T) {
	r := skerry.Report{{Status: skerry.FindingOK}, {Status: skerry.FindingWarn}}
	if r.Failed() || (skerry.Report{}).Failed() {
		t.Error("a report without a failure failed")
	}
	if !append(r, skerry.Finding{Status: skerry.FindingFail}).Failed() {
		t.Error("a failure was passed over")
	}
}
