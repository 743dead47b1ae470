package local

import (
	"os"
	"slices"
	"testing"

	"github.com/skerry-run/skerry/internal/verify"
)

// openToOrdinary are the attacks that work where an ordinary user made the
// sandbox: the kernel lets nobody but root bound these for a whole sandbox.
var openToOrdinary = []string{"memory", "neighbour-inotify"}

// TestEveryAttackIsBlocked makes the attacks of `skerry verify`. That each of
// them works where nothing defends is shown by the tests of internal/probe.
func TestEveryAttackIsBlocked(t *testing.T) {
	lines, err := verify.Run(t.Context(), verify.Config{Backend: newBackend(t), SameHost: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	blocked := 0
	for _, l := range lines {
		switch {
		case l.Status == verify.Blocked:
			blocked++
		case l.Status == verify.NotTested:
			t.Logf("%s: not tested: %s", l.Name, l.Detail)
		case os.Geteuid() != 0 && slices.Contains(openToOrdinary, l.Name):
			t.Logf("%s: %s as an ordinary user: %s", l.Name, l.Status, l.Detail)
		default:
			t.Errorf("%s: %s: %s", l.Name, l.Status, l.Detail)
		}
	}
	const least = 40
	if blocked < least {
		t.Errorf("only %d attacks were blocked", blocked)
	}
}

func TestEveryAttackIsBlockedAsAnOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("TestEveryAttackIsBlocked runs as one already")
	}
	runAsOrdinary(t, "^TestEveryAttackIsBlocked$")
}
