//go:build linux

package boxes

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerry-run/skerry"
)

// newDirs makes empty folders of an installation.
func newDirs(t *testing.T) Dirs {
	t.Helper()
	dir := t.TempDir()
	d := Dirs{State: filepath.Join(dir, "state"), Run: filepath.Join(dir, "run")}
	if err := d.Ensure(); err != nil {
		t.Fatal(err)
	}
	return d
}

func record(name string) Record {
	ref := skerry.Ref{Kind: skerry.SessionKind, Org: "o", Name: name}
	now := time.Now().Round(0)
	return Record{
		Ref: ref, Key: ref.Key(), SandboxUID: "uid", Created: now, Expires: now.Add(time.Hour), Idle: time.Minute,
		Persistent: true, Remember: time.Second, Digest: "d", Network: skerry.Network{Mode: skerry.NetworkDeny},
		Limits: skerry.DefaultLimits, Warnings: []string{"w"}, Recreated: true, Lost: []string{"l"}, UID: 7, Subnet: 8,
	}
}

func claim(t *testing.T, d Dirs, r Record) *Box {
	t.Helper()
	b, err := d.Claim(&r, func([]Record) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestARecordComesBackAsItWas(t *testing.T) {
	d := newDirs(t)
	want := record("a name / with ünï")
	self, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	want.Supervisor = self
	b := claim(t, d, want)
	got, alive, err := d.Find(want.Key)
	if err != nil || !alive {
		t.Fatalf("alive %v, error %v", alive, err)
	}
	if !got.Created.Equal(want.Created) || !got.Expires.Equal(want.Expires) {
		t.Errorf("times %v and %v, want %v and %v", got.Created, got.Expires, want.Created, want.Expires)
	}
	got.Created, got.Expires = want.Created, want.Expires
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	b.Record.Warnings = []string{"changed"}
	if err := b.Update(); err != nil {
		t.Fatal(err)
	}
	if got, _, _ := d.Find(want.Key); len(got.Warnings) != 1 || got.Warnings[0] != "changed" {
		t.Errorf("after an update: %+v", got.Warnings)
	}
	again := want
	if _, err := d.Claim(&again, func([]Record) error { return nil }); !errors.Is(err, ErrTaken) {
		t.Errorf("a second claim: %v, want ErrTaken", err)
	}
	if err := b.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, alive, err := d.Find(want.Key); alive || err != nil || d.Exists(want.Key) {
		t.Errorf("after its removal: alive %v, error %v", alive, err)
	}
}

func TestOfManyClaimsOneWins(t *testing.T) {
	d := newDirs(t)
	var won atomic.Int32
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			r := record("one")
			b, err := d.Claim(&r, func([]Record) error { return nil })
			switch {
			case err == nil:
				won.Add(1)
				t.Cleanup(func() { b.Remove() })
			case !errors.Is(err, ErrTaken):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Errorf("%d of 16 claims won", won.Load())
	}
}

func TestARecordIsReadInBounds(t *testing.T) {
	d := newDirs(t)
	r := record("large")
	b := claim(t, d, r)
	defer b.Remove()
	path := filepath.Join(b.Dir, recordName)
	for name, text := range map[string]string{
		"too large": `{"key":"` + strings.Repeat("x", maxRecord) + `"}`,
		"no JSON":   "\x00\xff{",
		"empty":     "",
		"a list":    "[]",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, alive, err := d.Find(r.Key); err == nil || alive {
			t.Errorf("%s: alive %v, record %+v; want an error", name, alive, got)
		}
	}
}

func TestOnlyKeysAreBoxes(t *testing.T) {
	d := newDirs(t)
	for _, name := range []string{"x", ".new-1", strings.Repeat("g", 32), strings.Repeat("A", 32), strings.Repeat("0", 33)} {
		if err := os.Mkdir(filepath.Join(d.boxes(), name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := d.keys(); err != nil || len(got) != 0 {
		t.Errorf("keys %q, error %v", got, err)
	}
	if records, err := d.List(); err != nil || len(records) != 0 {
		t.Errorf("records %v, error %v", records, err)
	}
}

// The box of a process that lives is never taken over by another, whatever its
// record says. That of a lock that was let go is.
func TestOnlyTheDeadAreTaken(t *testing.T) {
	d := newDirs(t)
	r := record("alive")
	var err error
	if r.Supervisor, err = Self(); err != nil {
		t.Fatal(err)
	}
	b := claim(t, d, r)
	if got, err := d.TakeDead(r.Key); got != nil || err != nil {
		t.Fatalf("a living box was taken: %v, error %v", got, err)
	}
	if dead, err := d.Dead(); err != nil || len(dead) != 0 {
		t.Errorf("dead %q, error %v", dead, err)
	}
	b.lock.Close() // as the kernel does when its holder dies
	if dead, err := d.Dead(); err != nil || len(dead) != 1 {
		t.Errorf("dead %q, error %v", dead, err)
	}
	got, err := d.TakeDead(r.Key)
	if err != nil || got == nil || got.Record.Ref != r.Ref {
		t.Fatalf("took %+v, error %v", got, err)
	}
	if err := got.Remove(); err != nil {
		t.Fatal(err)
	}
	if got, err := d.TakeDead(r.Key); got != nil || err != nil {
		t.Errorf("what is gone was taken: %v, error %v", got, err)
	}
}

func TestTellingIsClaimedOnce(t *testing.T) {
	d := newDirs(t)
	r := record("told")
	b := claim(t, d, r)
	defer b.Remove()
	if d.Told(r.Key) {
		t.Error("told before anybody told")
	}
	var told atomic.Int32
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if d.Tell(r.Key) {
				told.Add(1)
			}
		})
	}
	wg.Wait()
	if told.Load() != 1 || !d.Told(r.Key) {
		t.Errorf("%d of 16 told", told.Load())
	}
	if d.Tell(record("nobody").Key) {
		t.Error("a box that does not exist was told of")
	}
}

// While its owner removes a box, whoever looks for dead ones finds a living one
// or none at all: no error, and never a box that another has claimed since.
func TestNobodyTakesWhatIsBeingRemoved(t *testing.T) {
	d := newDirs(t)
	r := record("again")
	var err error
	if r.Supervisor, err = Self(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	looked := make(chan struct{})
	for range 4 {
		go func() {
			defer func() { looked <- struct{}{} }()
			for {
				select {
				case <-done:
					return
				default:
				}
				if got, err := d.TakeDead(r.Key); got != nil || err != nil {
					t.Errorf("took %v, error %v", got, err)
					return
				}
			}
		}()
	}
	for range 500 {
		b := claim(t, d, r)
		if err := b.Remove(); err != nil {
			t.Error(err)
		}
	}
	close(done)
	for range 4 {
		<-looked
	}
	if err := d.Sweep(); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(d.boxes()); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}
