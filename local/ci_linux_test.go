package local

import (
	"os"
	"testing"
)

// cannot ends a test for which the machine lacks something. On a machine that
// was set up for all of them, which is CI as root, that is a failure: a skip
// would hide that nobody looks.
func cannot(t *testing.T, why any) {
	t.Helper()
	if mustHaveAll(os.Geteuid(), os.Getenv("CI")) {
		t.Fatalf("CI as root has to have all that tests need: %v", why)
	}
	t.Skip(why)
}

func mustHaveAll(euid int, ci string) bool { return euid == 0 && ci == "true" }

func TestOnlyCIAsRootMustHaveAll(t *testing.T) {
	for _, c := range []struct {
		euid int
		ci   string
		want bool
	}{{0, "true", true}, {0, "", false}, {0, "false", false}, {1000, "true", false}, {1000, "", false}} {
		if got := mustHaveAll(c.euid, c.ci); got != c.want {
			t.Errorf("user %d, CI=%q: %v, want %v", c.euid, c.ci, got, c.want)
		}
	}
}
