//go:build linux

package supervise

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/bwrap"
	"github.com/skerry-run/skerry/internal/cgroups"
)

// Threat 8: one user for each sandbox, that nobody else has.
func TestUsersAreTheSandboxesOwn(t *testing.T) {
	first, err := pickUID("k", nil, nil, nil)
	if err != nil || first < firstUID || first >= firstUID+1<<uidBits {
		t.Fatalf("got %d, %v", first, err)
	}
	if again, _ := pickUID("k", nil, nil, nil); again != first {
		t.Errorf("the same key gave %d and %d", first, again)
	}
	seen := map[int]bool{}
	for i := range 2000 {
		uid, err := pickUID(fmt.Sprint("key", i), seen, nil, nil)
		if err != nil || seen[uid] {
			t.Fatalf("key %d: %d, %v", i, uid, err)
		}
		seen[uid] = true
	}
	second, _ := pickUID("k", map[int]bool{first: true}, nil, nil)
	third, _ := pickUID("k", nil, accounts(fmt.Appendf(nil, "a:x:0:0::/:\nbroken\nb:x:%d:1::/:/bin/sh\n", first)), nil)
	fourth, _ := pickUID("k", nil, nil, ranges(fmt.Appendf(nil, "# no\na:1:x\nu:%d:65536\n", first-5)))
	for what, uid := range map[string]int{"a living sandbox": second, "an account": third, "a subordinate range": fourth} {
		if uid == first || uid < firstUID {
			t.Errorf("taken by %s: got %d", what, uid)
		}
	}
	if _, err := pickUID("k", nil, nil, []idRange{{0, 1 << 31}}); err == nil {
		t.Error("a user was found where all are taken")
	}
}

func TestUsersAreNoneThatOthersHandOut(t *testing.T) {
	for who, r := range map[string][2]int{
		"systemd: homes":           {60001, 60577},
		"systemd: dynamic users":   {61184, 65519},
		"systemd: containers":      {524288, 1879048191},
		"systemd: foreign images":  {2147352576, 2147418111},
		"systemd: the sign bit":    {2147483648, 4294967294},
		"SSSD: mapped directories": {200000, 2000200000},
		"shadow: subordinate ids":  {100000, 600100000},
	} {
		if last := firstUID + 1<<uidBits - 1; r[0] <= last && firstUID <= r[1] {
			t.Errorf("%d to %d overlap with %s", firstUID, last, who)
		}
	}
}

func TestWorkspaceAndHomeStayWithinTheirLimit(t *testing.T) {
	for _, total := range []int64{skerry.MiB, 16 * skerry.MiB, skerry.GiB, 100 * skerry.GiB} {
		workspace, home := splitWorkspace(total)
		if workspace+home != total || home < 128*skerry.KiB || workspace < total*3/4 {
			t.Errorf("%d becomes %d and %d", total, workspace, home)
		}
	}
}

func TestEnvironmentIsCompleteAndTheCallersWordWins(t *testing.T) {
	t.Setenv("LEAK", "1")
	env := environment(bwrap.Layout{Path: []string{"/usr/bin", "/bin"}}, map[string]string{"A": "b=c", "LANG": "de_DE.UTF-8"})
	for _, want := range []string{"A=b=c", "HOME=/home/skerry", "LANG=de_DE.UTF-8", "LOGNAME=skerry", "PATH=/usr/bin:/bin", "TMPDIR=/tmp", "USER=skerry"} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is missing in %q", want, env)
		}
	}
	if !slices.IsSorted(env) || slices.Contains(env, "LEAK=1") {
		t.Errorf("%q", env)
	}
}

func TestWhatIsNotEnforcedIsNamed(t *testing.T) {
	if got := Warnings(nil); len(got) != 0 {
		t.Errorf("nothing is missing, but %q", got)
	}
	all := strings.Join(Warnings([]string{cgroups.Memory, cgroups.PIDs, cgroups.CPU}), "\n")
	for _, want := range []string{"memory", "pids", "cpu"} {
		if !strings.Contains(all, want) {
			t.Errorf("%s is not named in %q", want, all)
		}
	}
}

// B180, B187: what bwrap says becomes a hint that helps.
func TestHints(t *testing.T) {
	for said, want := range map[string]string{
		"bwrap: setting up uid map: Permission denied":                    "doctor",
		"bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted":    "user namespaces",
		"bwrap: No permissions to create new namespace, likely because …": "user namespaces",
		"bwrap: Unknown option --size":                                    "0.8",
		"bwrap: execvp /run/skerry/init: Permission denied":               "noexec",
		"something else": "doctor",
	} {
		if got := hintFor(said); !strings.Contains(got, want) {
			t.Errorf("%q: %q", said, got)
		}
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	l := tail{limit: 8}
	for range 1000 {
		l.Write([]byte("abcdef"))
	}
	l.Write([]byte("the end"))
	if got := l.String(); got != "fthe end" {
		t.Errorf("got %q", got)
	}
}
