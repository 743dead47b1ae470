package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skerry-run/skerry"
)

// stub writes a program that stands in for bwrap.
func stub(t *testing.T, text string) string {
	t.Helper()
	dir, err := os.MkdirTemp(testDir, "stub-")
	if err != nil {
		t.Fatal(err)
	}
	os.Chmod(dir, 0o755)
	p := filepath.Join(dir, "bwrap")
	if err := os.WriteFile(p, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return p
}

func backendWith(t *testing.T, bwrap string, change ...func(*Config)) *Backend {
	t.Helper()
	path, err := theInit()
	if err != nil {
		t.Fatal(err)
	}
	c := Config{StateDir: newState(t), Init: path, Bwrap: bwrap}
	for _, f := range change {
		f(&c)
	}
	b, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// B181: without bubblewrap nothing runs, and the error says what to install.
func TestWithoutBubblewrapNothingRuns(t *testing.T) {
	path, err := theInit()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", t.TempDir())
	_, err = New(Config{StateDir: newState(t), Init: path})
	if skerry.KindOf(err) != skerry.Denied || !strings.Contains(skerry.HintOf(err), "apt-get install bubblewrap") || skerry.OutcomeOf(err) != skerry.StartFailed {
		t.Errorf("got %v, hint %q, outcome %s", err, skerry.HintOf(err), skerry.OutcomeOf(err))
	}
	_, err = New(Config{StateDir: newState(t), Bwrap: "/bin/true"})
	if skerry.KindOf(err) != skerry.Denied || skerry.HintOf(err) == "" {
		t.Errorf("without skerry-init: %v, hint %q", err, skerry.HintOf(err))
	}
}

// B187: a bwrap that hangs is ended at the start limit; one that is too old
// says so.
func TestABubblewrapThatDoesNotWork(t *testing.T) {
	b := backendWith(t, stub(t, "exec sleep 300"), func(c *Config) { c.StartTimeout = 300 * time.Millisecond })
	_, err := b.Create(within(t, time.Minute), skerry.SandboxSpec{Ref: session("x")})
	if err == nil || !strings.Contains(err.Error(), "in time") || skerry.OutcomeOf(err) != skerry.StartFailed || skerry.HintOf(err) == "" {
		t.Errorf("hanging: %v, outcome %s, hint %q", err, skerry.OutcomeOf(err), skerry.HintOf(err))
	}
	wantNothingLeft(t, b)

	b = backendWith(t, stub(t, "echo 'bwrap: Unknown option --size' >&2; exit 1"))
	_, err = b.Create(within(t, time.Minute), skerry.SandboxSpec{Ref: session("x")})
	if err == nil || !strings.Contains(err.Error(), "Unknown option --size") || skerry.OutcomeOf(err) != skerry.StartFailed || !strings.Contains(skerry.HintOf(err), "0.8") {
		t.Errorf("old: %v, outcome %s, hint %q", err, skerry.OutcomeOf(err), skerry.HintOf(err))
	}
	wantNothingLeft(t, b)

	for text, want := range map[string]string{"exec sleep 300": "did not answer", "echo bubblewrap 0.4.1": "0.4", "exit 3": "exit status 3", "echo hello": "hello"} {
		if testing.Short() && strings.Contains(text, "sleep") {
			continue
		}
		r := backendWith(t, stub(t, text)).checkBwrap(t.Context())
		if r[0].Status != skerry.FindingFail || !strings.Contains(r[0].Detail, want) || r[0].Remedy == "" {
			t.Errorf("check of %q: %+v", text, r[0])
		}
	}
}

// A bwrap that is killed just after it has made a child leaves that one with
// all descriptors. Nobody waits for it, and it is ended.
func TestABubblewrapThatLeavesAChild(t *testing.T) {
	b := backendWith(t, stub(t, "sleep 100000 & exit 1"))
	if _, err := b.Create(within(t, time.Minute), skerry.SandboxSpec{Ref: session("x")}); skerry.OutcomeOf(err) != skerry.StartFailed || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	wantNothingLeft(t, b)
}

// B188, X3: bwrap ends with 1 for a failed set-up, a missing program and a
// program's own 1. They are four different results.
func TestWhoseFaultItIs(t *testing.T) {
	b := newBackend(t)
	argv := func(a ...string) func(*skerry.RunSpec) {
		return func(s *skerry.RunSpec) { s.Command.Argv = a }
	}
	if r := sh(t, b, "", argv("false")); r.Outcome != skerry.Exited || *r.ExitCode != 1 {
		t.Errorf("false: %s %q", r.Outcome, r.Reason)
	}
	if r := sh(t, b, "exit 1"); r.Outcome != skerry.Exited || *r.ExitCode != 1 {
		t.Errorf("exit 1: %s %q", r.Outcome, r.Reason)
	}
	if r := sh(t, b, "", argv("no-such-program")); r.Outcome != skerry.StartFailed || !strings.Contains(r.Reason, "no-such-program") {
		t.Errorf("missing program: %s %q", r.Outcome, r.Reason)
	}
	broken := backendWith(t, stub(t, `exec bwrap --ro-bind /no/such/place /x "$@"`))
	if r := sh(t, broken, "true"); r.Outcome != skerry.StartFailed || !strings.Contains(r.Reason, "/no/such/place") {
		t.Errorf("failed set-up: %s %q", r.Outcome, r.Reason)
	}
	wantNothingLeft(t, broken)
}

// B155: whatever step of the creation fails, nothing is left.
func TestEveryFailingStepLeavesNothing(t *testing.T) {
	for name, text := range map[string]string{
		"at once":                  "exit 1",
		"after its options":        "cat <&3 >/dev/null; exit 1",
		"killed":                   "kill -9 $$",
		"an init that ends":        `exec bwrap "$@" && true; : `,
		"a status that is a lie":   `echo '{ "child-pid": 1 }' >&4; exit 1`,
		"a status that is no json": `echo 'child-pid 5' >&4; exit 1`,
	} {
		if name == "an init that ends" {
			text = `for a; do shift; [ "$a" = serve ] && a=nonsense; set -- "$@" "$a"; done; exec bwrap "$@"`
		}
		b := backendWith(t, stub(t, text))
		s, err := b.Create(within(t, time.Minute), skerry.SandboxSpec{Ref: session("x"), Persistent: true})
		if err == nil {
			s.Close()
			t.Errorf("%s: a sandbox was made", name)
			continue
		}
		if o := skerry.OutcomeOf(err); o != skerry.StartFailed {
			t.Errorf("%s: %v has outcome %s", name, err, o)
		}
		if strings.Contains(err.Error(), "panic") || strings.Contains(err.Error(), "goroutine") { // B185
			t.Errorf("%s: %v", name, err)
		}
		wantNothingLeft(t, b)
	}
}

func TestStateFolderOfSomebodyElseIsRefused(t *testing.T) {
	path, err := theInit()
	if err != nil {
		t.Fatal(err)
	}
	state := newState(t)
	if err := os.MkdirAll(state, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(state, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Config{StateDir: state, Init: path}); skerry.KindOf(err) != skerry.Denied || skerry.HintOf(err) == "" {
		t.Errorf("one that everyone can write to: %v", err)
	}
	link := newState(t)
	if err := os.Symlink(state, link); err != nil {
		t.Fatal(err)
	}
	os.Chmod(state, 0o700)
	if _, err := New(Config{StateDir: link, Init: path}); skerry.KindOf(err) != skerry.Denied {
		t.Errorf("a link: %v", err)
	}
}

// Whoever owns a folder above can put another one in our folder's place.
func TestStateFolderBelowSomebodyElsesIsRefused(t *testing.T) {
	path, err := theInit()
	if err != nil {
		t.Fatal(err)
	}
	above := filepath.Dir(newState(t))
	at := func(dir string) error {
		_, err := New(Config{StateDir: filepath.Join(dir, "deep", "s"), Init: path})
		return err
	}
	if err := at(above); err != nil {
		t.Fatalf("our own: %v", err)
	}
	if err := os.Chmod(above, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := at(above); skerry.KindOf(err) != skerry.Denied || skerry.HintOf(err) == "" {
		t.Errorf("below one that everybody can write to: %v", err)
	}
	if err := os.Chmod(above, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	if err := at(above); err != nil {
		t.Errorf("below one like /tmp: %v", err)
	}
	os.Chmod(above, 0o755)
	if os.Geteuid() != 0 {
		return
	}
	const other = 1001
	if err := os.Chown(above, other, other); err != nil {
		t.Fatal(err)
	}
	if err := at(above); skerry.KindOf(err) != skerry.Denied {
		t.Errorf("below another user's: %v", err)
	}
	link := filepath.Join(filepath.Dir(newState(t)), "link")
	if err := os.Symlink(above, link); err != nil {
		t.Fatal(err)
	}
	if err := at(link); skerry.KindOf(err) != skerry.Denied {
		t.Errorf("through a link, below another user's: %v", err)
	}
}

func TestWhatIsRefusedBeforeAnythingStarts(t *testing.T) {
	b := newBackend(t)
	for name, spec := range map[string]skerry.SandboxSpec{
		"no kind":      {Ref: skerry.Ref{Name: "x"}},
		"an image":     {Ref: session("x"), Image: "python:3"},
		"memory":       {Ref: session("x"), Limits: skerry.Limits{MemoryBytes: 1}},
		"environment":  {Ref: session("x"), Env: map[string]string{"A": strings.Repeat("a", 100<<10), "B": strings.Repeat("a", 130<<10), "C": strings.Repeat("a", 130<<10), "D": strings.Repeat("a", 130<<10), "E": strings.Repeat("a", 130<<10), "F": strings.Repeat("a", 130<<10), "G": strings.Repeat("a", 130<<10)}},
		"a long life":  {Ref: session("x"), TTL: 48 * time.Hour},
		"allow no one": {Ref: session("x"), Network: skerry.Network{Mode: skerry.NetworkAllow}},
	} {
		_, err := b.Create(context.Background(), spec)
		if err == nil || skerry.OutcomeOf(err) != skerry.Refused {
			t.Errorf("%s: %v, outcome %s", name, err, skerry.OutcomeOf(err))
		}
	}
	wantNothingLeft(t, b)
}

// B180: the remedy names the narrow way first.
func TestNamespaceRemedyNamesTheCause(t *testing.T) {
	root := t.TempDir()
	set := func(name, value string) {
		p := filepath.Join(root, "proc/sys", name)
		os.MkdirAll(filepath.Dir(p), 0o755)
		os.WriteFile(p, []byte(value+"\n"), 0o644)
	}
	if got := namespaceRemedy(root, "/usr/bin/bwrap"); !strings.Contains(got, "container") {
		t.Errorf("unknown cause: %q", got)
	}
	set("user/max_user_namespaces", "0")
	if got := namespaceRemedy(root, "/usr/bin/bwrap"); !strings.Contains(got, "max_user_namespaces") {
		t.Errorf("switched off: %q", got)
	}
	set("kernel/apparmor_restrict_unprivileged_userns", "1")
	got := namespaceRemedy(root, "/usr/bin/bwrap")
	if !strings.Contains(got, "profile bwrap /usr/bin/bwrap") || strings.Index(got, "profile") > strings.Index(got, "sysctl") {
		t.Errorf("apparmor: %q", got)
	}
}
