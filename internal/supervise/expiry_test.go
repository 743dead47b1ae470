//go:build linux

package supervise

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/boxes"
)

// living gives a supervisor whose sandbox was made when the clock showed now,
// with a ceiling of a day.
func living(t *testing.T, now time.Time) *supervisor {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	d := boxes.Dirs{State: filepath.Join(dir, "s"), Run: filepath.Join(dir, "s", "run")}
	if err := d.Ensure(); err != nil {
		t.Fatal(err)
	}
	ref := skerry.Ref{Kind: skerry.SessionKind, Org: skerry.DefaultOrg, Name: "x"}
	s := &supervisor{end: make(chan string, 1)}
	s.order = boxes.Order{Dirs: d, Record: boxes.Record{Ref: ref, Key: ref.Key(), Created: now, Expires: now.Add(time.Hour)}, Latest: now.Add(24 * time.Hour)}
	var err error
	if s.box, err = d.Claim(&s.order.Record, func([]boxes.Record) error { return nil }); err != nil {
		t.Fatal(err)
	}
	s.latest = time.Now().Add(24 * time.Hour)
	t.Cleanup(func() {
		s.armExpiry(time.Time{}) // stops the timer
		if err := s.box.Remove(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *supervisor) wantExpiry(t *testing.T, what string, want time.Duration) {
	t.Helper()
	r, _, err := s.order.Dirs.Find(s.order.Record.Key)
	if err != nil {
		t.Fatal(err)
	}
	if got := time.Until(r.Expires); (got - want).Abs() > time.Hour/2 {
		t.Errorf("%s: it expires in %v, want about %v", what, got, want)
	}
	select {
	case why := <-s.end:
		t.Errorf("%s: it ends at once (%s)", what, why)
	default:
	}
}

// B107: the clock of the machine is set a day and a half forward or back while
// a session lives. What was said in the old time neither ends it nor lets it
// live longer.
func TestAClockThatIsSetMovesNoLimit(t *testing.T) {
	for name, shift := range map[string]time.Duration{"forward": -36 * time.Hour, "back": 36 * time.Hour} {
		s := living(t, time.Now().Add(shift))
		s.setExpiry(time.Now().Add(2 * time.Hour).UnixMilli())
		s.wantExpiry(t, name, 2*time.Hour)
		s.setExpiry(time.Now().Add(30 * time.Hour).UnixMilli())
		s.wantExpiry(t, name+", above the ceiling", 24*time.Hour)
	}
}

// An init that was taken over can't lift the ceiling.
func TestTheInitCanNotLiftTheCeiling(t *testing.T) {
	for name, said := range map[string]int64{"never": 0, "long ago": math.MinInt64, "at the end of time": math.MaxInt64, "in a week": time.Now().Add(7 * 24 * time.Hour).UnixMilli()} {
		s := living(t, time.Now())
		s.setExpiry(said)
		s.wantExpiry(t, name, 24*time.Hour)
	}
}
