package local

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/sandboxtest"
)

// asOrdinary tells a test process that it is the one that was started as an
// ordinary user.
const asOrdinary = "SKERRY_TEST_ORDINARY"

// ordinaryID is a user that nobody is.
const ordinaryID = 64_123

func TestConformance(t *testing.T) {
	state := newState(t)
	b := backendAt(t, state)
	opts := sandboxtest.Options{
		Again:  func(t *testing.T) skerry.Backend { return backendAt(t, state) },
		MaxTTL: DefaultMaxTTL,
	}
	if os.Geteuid() != 0 {
		opts.Without = map[sandboxtest.Feature]string{
			sandboxtest.MemoryLimit: "an ordinary user has no control group here; a limit on each process's data stands in",
			sandboxtest.CPUUsage:    "an ordinary user has no control group here to read it from",
			sandboxtest.MemoryUsage: "an ordinary user has no control group here to read it from",
		}
	}
	sandboxtest.Run(t, b, opts)
}

// TestConformanceAsAnOrdinaryUser runs the suite once more, without root.
func TestConformanceAsAnOrdinaryUser(t *testing.T) {
	switch {
	case os.Getenv(asOrdinary) != "" || os.Geteuid() != 0:
		t.Skip("TestConformance runs as one already")
	case testing.Short():
		t.Skip("the whole suite a second time")
	}
	runAsOrdinary(t, "^TestConformance$")
}

// runAsOrdinary runs tests of this package in a process of an ordinary user.
func runAsOrdinary(t *testing.T, tests string) {
	t.Helper()
	home, err := os.MkdirTemp(testDir, "home-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(home, ordinaryID, ordinaryID); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(home, "local.test")
	copyForOrdinary(t, os.Args[0], binary)
	args := []string{"-test.run", tests, "-test.timeout", "15m"}
	if testing.Verbose() {
		args = append(args, "-test.v")
	}
	c := exec.CommandContext(t.Context(), binary, args...)
	c.Dir = home
	c.Env = append(built(t), "HOME="+home, "TMPDIR="+home, "PATH="+os.Getenv("PATH"), asOrdinary+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinaryID, Gid: ordinaryID}, Pdeathsig: syscall.SIGKILL}
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	out, err := c.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Errorf("as an ordinary user: %v", err)
	}
}

func copyForOrdinary(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}
