package local

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/skerry-run/skerry"
)

// takesTerminals takes as many pseudo-terminals as it can get, up to 900, says
// how many, and keeps them.
const takesTerminals = `import os, resource, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
held = []
try:
    while len(held) < 900: held.append(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
except OSError as e: pass
print(len(held), flush=True)
time.sleep(float(sys.argv[1]))`

// Threat 8: the machine has one number of pseudo-terminals for all, and no
// sandbox gets more than a few of them.
func TestOneSandboxDoesNotTakeTheMachinesTerminals(t *testing.T) {
	s := limited(t, newBackend(t), "terminals", skerry.Limits{})
	r := one(t, s, "python3", "-c", takesTerminals, "10")
	n, err := strconv.Atoi(strings.TrimSpace(r.Stdout))
	evicted := os.Geteuid() != 0 && r.Outcome == skerry.Evicted // it may not have come to its print
	if !evicted && (err != nil || n < 64) {
		t.Fatalf("%s (%s), stdout %q, stderr %q", r.Outcome, r.Reason, r.Stdout, r.Stderr)
	}
	if os.Geteuid() == 0 && (n > 256 || r.Outcome != skerry.Exited) {
		t.Errorf("it got %d, and %s (%s)", n, r.Outcome, r.Reason)
	}
	if os.Geteuid() != 0 && (r.Outcome != skerry.Evicted || !strings.Contains(r.Reason, "256")) {
		t.Errorf("it kept %d: %s (%s), want evicted and the limit", n, r.Outcome, r.Reason)
	}
	// Programs that need some go on working.
	r = one(t, s, "script", "-qec", "tty && echo well", "/dev/null")
	if r.Outcome != skerry.Exited || !strings.Contains(r.Stdout, "/dev/pts/") || !strings.Contains(r.Stdout, "well") {
		t.Errorf("script: %s (%s), stdout %q, stderr %q", r.Outcome, r.Reason, r.Stdout, r.Stderr)
	}
	tty := skerry.TerminalSize{}
	c, err := s.Start(within(t, time.Minute), skerry.CommandSpec{ID: fmt.Sprint("tty-", time.Now().UnixNano()), Argv: []string{"tty"}, TTY: &tty, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if exit, err := c.Wait(within(t, time.Minute)); err != nil || exit.ExitCode == nil || *exit.ExitCode != 0 {
		t.Errorf("a command with a terminal: %+v, %v", exit, err)
	}
}
