package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/testbuild"
)

// theInit is skerry-init, built once for all tests. It lies where the users of
// sandboxes can reach it.
var theInit = sync.OnceValues(func() (string, error) {
	if p := os.Getenv("SKERRY_TEST_INIT"); p != "" {
		return p, nil
	}
	return filepath.Join(testDir, "skerry-init"), testbuild.Programs(testDir, "skerry-init")
})

// theProgram is skerry, built once for all tests.
var theProgram = sync.OnceValues(func() (string, error) {
	if p := os.Getenv("SKERRY_TEST_PROGRAM"); p != "" {
		return p, nil
	}
	return filepath.Join(testDir, "skerry"), testbuild.Programs(testDir, "skerry")
})

// built is what tells a child of these tests where the programs are: it may be
// of a user who can't build them.
func built(t testing.TB) []string {
	t.Helper()
	initPath, err := theInit()
	if err != nil {
		t.Fatal(err)
	}
	program, err := theProgram()
	if err != nil {
		t.Fatal(err)
	}
	return []string{"SKERRY_TEST_INIT=" + initPath, "SKERRY_TEST_PROGRAM=" + program}
}

// testDir is passable by every user, which t.TempDir is not.
var testDir string

func TestMain(m *testing.M) {
	switch os.Getenv(childMode) {
	case "run":
		beClient()
	case "session":
		beSessionMaker()
	case "follow":
		beFollower()
	case "reach":
		beReacher()
	}
	dir, err := os.MkdirTemp("", "skerry-local-")
	if err != nil {
		panic(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		panic(err)
	}
	testDir = dir
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if err := os.RemoveAll(dir); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// newState makes an empty state folder.
func newState(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(testDir, "state-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "s")
}

func newBackend(t testing.TB) *Backend {
	t.Helper()
	return backendAt(t, newState(t))
}

func backendAt(t testing.TB, state string) *Backend {
	t.Helper()
	path, err := theInit()
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(Config{StateDir: state, Init: path})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// sh runs a script in a fresh run and gives its result.
func sh(t testing.TB, b *Backend, script string, change ...func(*skerry.RunSpec)) skerry.Result {
	t.Helper()
	spec := skerry.RunSpec{
		Sandbox: skerry.SandboxSpec{Ref: skerry.Ref{Name: "t-" + strings.ReplaceAll(t.Name(), "/", "-")}},
		Command: skerry.CommandSpec{Argv: []string{"bash", "-c", script}},
	}
	for _, f := range change {
		f(&spec)
	}
	return skerry.Run(within(t, time.Minute), b, spec)
}

func TestRunTrue(t *testing.T) {
	b := newBackend(t)
	r := sh(t, b, "id; echo hi")
	t.Logf("%+v", r)
	if r.Outcome != skerry.Exited || *r.ExitCode != 0 {
		t.Fatal(r)
	}
}

func TestCheckFindsThatSandboxesWork(t *testing.T) {
	b := newBackend(t)
	r, err := b.Check(within(t, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r {
		t.Logf("%-20s %-4s %s | %s", f.Name, f.Status, f.Detail, f.Remedy)
		if f.Status != skerry.FindingOK && f.Remedy == "" && f.Name != "sandbox" {
			t.Errorf("%s says %q and no remedy", f.Name, f.Detail)
		}
	}
	if r.Failed() {
		t.Error("it fails where runs work")
	}
}
