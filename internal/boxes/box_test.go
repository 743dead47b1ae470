//go:build linux

package boxes

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry"
)

func ready(t *testing.T) Dirs {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	d := Dirs{State: filepath.Join(dir, "s"), Run: filepath.Join(dir, "s", "run")}
	if err := d.Ensure(); err != nil {
		t.Fatal(err)
	}
	return d
}

func recordOf(name string) *Record {
	ref := skerry.Ref{Kind: skerry.SessionKind, Org: skerry.DefaultOrg, Name: name}
	self, _ := Self()
	return &Record{Ref: ref, Key: ref.Key(), Created: time.Now(), Supervisor: self}
}

func nothing([]Record) error { return nil }

// B145: of many claims of one name one wins, and the others see it alive.
func TestOneClaimWins(t *testing.T) {
	d := ready(t)
	const many = 16
	var wg sync.WaitGroup
	won := make(chan *Box, many)
	for range many {
		wg.Go(func() {
			b, err := d.Claim(recordOf("x"), nothing)
			switch {
			case err == nil:
				won <- b
			case !errors.Is(err, ErrTaken):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(won) != 1 {
		t.Fatalf("%d claims won", len(won))
	}
	b := <-won
	key := b.Record.Key
	if _, alive, err := d.Find(key); err != nil || !alive {
		t.Errorf("alive %v, %v", alive, err)
	}
	if dead, _ := d.Dead(); len(dead) != 0 {
		t.Errorf("dead: %v", dead)
	}
	if taken, err := d.TakeDead(key); err != nil || taken != nil {
		t.Errorf("a living box was taken over: %v", err)
	}
	if err := b.MarkEnding(); err != nil || !d.Ending(key) {
		t.Errorf("ending: %v", err)
	}
	if list, err := d.List(); err != nil || len(list) != 0 {
		t.Errorf("one that ends is listed: %v %v", list, err)
	}
	if err := b.Remove(); err != nil || d.Exists(key) {
		t.Errorf("remove: %v", err)
	}
}

// What others have is known when a claim chooses, and a choice that fails
// leaves nothing.
func TestAClaimSeesTheOthers(t *testing.T) {
	d := ready(t)
	first := recordOf("one")
	b, err := d.Claim(first, func([]Record) error { first.UID = 7; return nil })
	if err != nil {
		t.Fatal(err)
	}
	defer b.Remove()
	no := errors.New("no")
	if _, err := d.Claim(recordOf("two"), func(others []Record) error {
		if len(others) != 1 || others[0].UID != 7 {
			t.Errorf("others: %+v", others)
		}
		return no
	}); !errors.Is(err, no) {
		t.Errorf("got %v", err)
	}
	entries, _ := os.ReadDir(filepath.Join(d.Run, "boxes"))
	if len(entries) != 1 {
		t.Errorf("%d entries", len(entries))
	}
}

// A box whose holder let go is dead, can be taken over once, and is gone then.
func TestADeadBoxIsTakenOverOnce(t *testing.T) {
	d := ready(t)
	b, err := d.Claim(recordOf("x"), nothing)
	if err != nil {
		t.Fatal(err)
	}
	b.lock.Close() // as the kernel does for the dead
	if dead, err := d.Dead(); err != nil || len(dead) != 1 {
		t.Fatalf("dead: %v %v", dead, err)
	}
	taken, err := d.TakeDead(b.Record.Key)
	if err != nil || taken == nil || taken.Record.Ref.Name != "x" {
		t.Fatalf("take over: %+v, %v", taken, err)
	}
	if second, err := d.TakeDead(b.Record.Key); err != nil || second != nil {
		t.Errorf("taken over twice: %v", err)
	}
	if err := taken.Remove(); err != nil || d.Exists(b.Record.Key) {
		t.Error(err)
	}
	if none, err := d.TakeDead(b.Record.Key); err != nil || none != nil {
		t.Errorf("nothing was taken over: %v", err)
	}
}

// B154: a number alone is nobody.
func TestAProcessIsItsNumberAndItsStart(t *testing.T) {
	child := exec.Command("sleep", "300")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := processOf(child.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []Process{{}, {PID: 1}, {PID: p.PID}, {PID: p.PID, StartTime: p.StartTime, BootID: "x"}, {PID: p.PID, StartTime: p.StartTime + 1, BootID: p.BootID}} {
		if fd, ok := q.Open(); ok {
			unix.Close(fd)
			t.Errorf("%+v is taken for %+v", q, p)
		}
		if err := q.Signal(unix.SIGKILL); err != nil {
			t.Error(err)
		}
	}
	fd, ok := p.Open()
	if !ok || WaitPidfd(fd, 0) {
		t.Fatal("it was killed")
	}
	defer unix.Close(fd)
	if err := p.Signal(unix.SIGKILL); err != nil || !WaitPidfd(fd, time.Minute) {
		t.Errorf("it lives: %v", err)
	}
	child.Wait()
	if err := p.Signal(unix.SIGKILL); err != nil {
		t.Errorf("signal to one that is gone: %v", err)
	}
	self, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	if mine, its := self.Age(), p.Age(); mine <= 0 || mine < its || its > time.Hour {
		t.Errorf("this process has lived for %v, its child for %v", mine, its)
	}
	if p.BootID = "x"; p.Age() != 0 {
		t.Errorf("one of another boot has lived for %v", p.Age())
	}
}

func TestTheCopyOfTheInitCannotBeReadAndFollowsTheOriginal(t *testing.T) {
	d := ready(t)
	path := filepath.Join(t.TempDir(), "skerry-init")
	if err := os.WriteFile(path, []byte("one"), 0o755); err != nil {
		t.Fatal(err)
	}
	first, err := d.InitCopy(path)
	if err != nil {
		t.Fatal(err)
	}
	fi, err := os.Stat(first)
	if err != nil || fi.Mode() != 0o111 || fi.Size() != 3 {
		t.Errorf("%v %v", fi, err)
	}
	if again, err := d.InitCopy(path); err != nil || again != first {
		t.Errorf("copied twice: %s, %v", again, err)
	}
	if err := os.WriteFile(path+".new", []byte("two!"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	if other, err := d.InitCopy(path); err != nil || other == first {
		t.Errorf("another content has the same copy: %v", err)
	}
	if _, err := d.InitCopy(t.TempDir()); err == nil {
		t.Error("a folder was copied")
	}
}

// User code may take its own rights away from what it leaves.
func TestPurgeRemovesWhatWasClosed(t *testing.T) {
	d := ready(t)
	ref := recordOf("v").Ref
	v, err := d.EnsureVolume(ref, os.Getuid())
	if err != nil {
		t.Fatal(err)
	}
	deep := filepath.Join(v.Workspace, "a", "b")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "kept")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Dir(outside), filepath.Join(deep, "link")); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{deep, filepath.Dir(deep)} {
		if err := os.Chmod(p, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Purge(ref.Key()); err != nil || d.HasVolume(ref.Key()) {
		t.Errorf("purge: %v", err)
	}
	entries, _ := os.ReadDir(d.volumes())
	if len(entries) != 0 {
		t.Errorf("left: %v", entries)
	}
	if fi, err := os.Stat(outside); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("a link led the purge outside: %v %v", fi, err)
	}
	if err := d.Purge(ref.Key()); err != nil {
		t.Errorf("of nothing: %v", err)
	}
}

func TestSpoolsHaveNoName(t *testing.T) {
	d := ready(t)
	f, err := d.Spool()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("x"), 5); err != nil {
		t.Error(err)
	}
	if entries, _ := os.ReadDir(d.spool()); len(entries) != 0 {
		t.Errorf("%v", entries)
	}
}
