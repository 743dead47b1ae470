//go:build linux

package sweep

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/boxes"
)

func newDirs(t *testing.T) boxes.Dirs {
	t.Helper()
	dir := t.TempDir()
	d := boxes.Dirs{State: filepath.Join(dir, "state"), Run: filepath.Join(dir, "run")}
	if err := d.Ensure(); err != nil {
		t.Fatal(err)
	}
	return d
}

func record(kind skerry.SandboxKind, name string) boxes.Record {
	ref := skerry.Ref{Kind: kind, Name: name}
	return boxes.Record{Ref: ref, Key: ref.Key(), Network: skerry.Network{Mode: skerry.NetworkDeny}, Digest: "d"}
}

// Who is bound to ask how a sandbox ended can do so; of others nothing is kept.
func TestWhichEndsAreNoted(t *testing.T) {
	for _, c := range []struct {
		kind     skerry.SandboxKind
		reason   string
		remember time.Duration
		want     time.Duration // 0 is no note
	}{
		{skerry.RunKind, boxes.EndedShutdown, 0, 0},
		{skerry.RunKind, boxes.EndedShutdown, time.Hour, time.Hour},
		{skerry.RunKind, boxes.EndedOwner, time.Hour, time.Hour},
		{skerry.RunKind, boxes.EndedLost, 0, 0},
		{skerry.RunKind, boxes.EndedOOM, 0, oomMemory},
		{skerry.SessionKind, boxes.EndedOOM, 0, SessionMemory},
		{skerry.SessionKind, boxes.EndedShutdown, 0, 0},
		{skerry.SessionKind, boxes.EndedShutdown, time.Hour, time.Hour},
		{skerry.SessionKind, boxes.EndedTTL, 0, SessionMemory},
		{skerry.SessionKind, boxes.EndedIdle, time.Hour, SessionMemory},
		{skerry.SessionKind, boxes.EndedLost, 2 * SessionMemory, 2 * SessionMemory},
		{skerry.SessionKind, boxes.EndedOwner, time.Hour, 0}, // it never was
	} {
		d := newDirs(t)
		r := record(c.kind, "x")
		r.Remember = c.remember
		if err := Note(d, r, c.reason); err != nil {
			t.Fatal(err)
		}
		note, ok := d.Recall(r.Key)
		if ok != (c.want > 0) {
			t.Errorf("%+v: a note was kept: %v", c, ok)
			continue
		}
		if ok && (note.Until.Sub(note.Ended) != c.want || note.Reason != c.reason || note.Digest != "d" || note.Ref != r.Ref) {
			t.Errorf("%+v: note %+v", c, note)
		}
	}
	d := newDirs(t)
	nobody := boxes.Record{Key: strings.Repeat("0", 32), Remember: time.Hour} // of an unreadable record
	if err := Note(d, nobody, boxes.EndedLost); err != nil {
		t.Fatal(err)
	}
	if _, ok := d.Recall(nobody.Key); ok {
		t.Error("a note was kept of nobody")
	}
}

// A sweep removes the boxes of the dead, keeps those of the living, and a
// second one finds nothing.
func TestOnlyTheDeadAreSwept(t *testing.T) {
	d := newDirs(t)
	living := record(skerry.SessionKind, "living")
	var err error
	if living.Supervisor, err = boxes.Self(); err != nil {
		t.Fatal(err)
	}
	b, err := d.Claim(&living, func([]boxes.Record) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	defer b.Remove()
	// A box without anybody who holds its lock, and a record that can't be
	// read: the name alone must do.
	lost := record(skerry.SessionKind, "lost")
	dir := filepath.Join(d.Run, "boxes", lost.Key)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "record.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for round, want := range []int{1, 0} {
		got, err := All(d)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Boxes) != want || want == 1 && got.Boxes[0] != lost.Key {
			t.Errorf("round %d swept %q", round, got.Boxes)
		}
		if d.Exists(lost.Key) {
			t.Error("the dead box is still there")
		}
		if _, alive, err := d.Find(living.Key); !alive || err != nil {
			t.Errorf("the living box: alive %v, error %v", alive, err)
		}
	}
	if did, err := Box(d, living.Key); did || err != nil {
		t.Errorf("the living box was swept: %v, error %v", did, err)
	}
}

func TestInstallationsHaveControlGroupsOfTheirOwn(t *testing.T) {
	one, two := newDirs(t), newDirs(t)
	if a, b := CgroupParent(one), CgroupParent(two); a == b || a != CgroupParent(one) || !strings.HasPrefix(a, "skerry-") {
		t.Errorf("groups %q and %q", a, b)
	}
}
