package local

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/boxes"
	"github.com/skerry-run/skerry/internal/cgroups"
	"github.com/skerry-run/skerry/internal/sweep"
)

func session(name string) skerry.Ref { return skerry.Ref{Kind: skerry.SessionKind, Name: name} }

// mustCreate makes a session that is gone at the end of the test.
func mustCreate(t testing.TB, b *Backend, spec skerry.SandboxSpec) skerry.Sandbox {
	t.Helper()
	s, err := b.Create(within(t, time.Minute), spec)
	if err != nil {
		t.Fatalf("create %s: %v (hint: %s)", spec.Name, err, skerry.HintOf(err))
	}
	t.Cleanup(func() {
		s.Close()
		if err := b.Delete(context.WithoutCancel(t.Context()), spec.Ref, skerry.DeleteOptions{Purge: true}); err != nil && skerry.KindOf(err) != skerry.NotFound {
			t.Errorf("delete %s: %v", spec.Name, err)
		}
	})
	return s
}

// script runs a shell script in a session and gives what it printed.
func script(t testing.TB, s skerry.Sandbox, text string) string {
	t.Helper()
	ctx := within(t, time.Minute)
	c, err := s.Start(ctx, skerry.CommandSpec{ID: fmt.Sprint("c", time.Now().UnixNano()), Argv: []string{"bash", "-c", text}})
	if err != nil {
		t.Fatalf("start %q: %v", text, err)
	}
	var out bytes.Buffer
	if err := c.Output(ctx, skerry.Offsets{}, func(c skerry.Chunk) error { out.Write(c.Data); return nil }); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// left gives everything on the host that belongs to the sandboxes of b.
func left(t testing.TB, b *Backend) []string {
	t.Helper()
	var out []string
	entries, err := os.ReadDir(filepath.Join(b.dirs.Run, "boxes"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, _ := os.ReadFile(filepath.Join(b.dirs.Run, "boxes", e.Name(), "error"))
		out = append(out, "box "+e.Name()+" "+string(text))
	}
	host, err := cgroups.ReadHost("")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range host.Children(sweep.CgroupParent(b.dirs)) {
		out = append(out, "control group "+name)
	}
	// A sandbox's processes have our copy of the init among their mounts; the
	// host's must not.
	files, _ := filepath.Glob("/proc/[0-9]*/mountinfo")
	for _, f := range append(files, "/proc/self/mountinfo") {
		mounts, _ := os.ReadFile(f) // a process may end meanwhile
		for line := range strings.Lines(string(mounts)) {
			if strings.Contains(line, b.dirs.State) {
				out = append(out, f+" has "+strings.TrimSpace(line))
			}
		}
	}
	return out
}

func wantNothingLeft(t testing.TB, b *Backend) {
	t.Helper()
	if got := left(t, b); len(got) > 0 {
		t.Errorf("left behind: %q", got)
	}
}

func TestSessionIsFoundAgainByItsName(t *testing.T) {
	state := newState(t)
	b := backendAt(t, state)
	ref := session("a name with spaces and ünï")
	made := mustCreate(t, b, skerry.SandboxSpec{Ref: ref, Env: map[string]string{"K": "v"}})
	script(t, made, "echo kept > f")
	made.Close()

	other := backendAt(t, state) // as another process would see it
	again, err := other.Open(within(t, time.Minute), ref)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if got := script(t, again, "cat f; echo $K; pwd"); got != "kept\nv\n/workspace\n" {
		t.Errorf("found another session: %q", got)
	}
	list, err := other.List(t.Context(), skerry.Filter{Kind: skerry.SessionKind})
	if err != nil || len(list) != 1 || list[0].Name != ref.Name {
		t.Errorf("list: %v %+v", err, list)
	}
	if list, _ := other.List(t.Context(), skerry.Filter{Org: "else"}); len(list) != 0 {
		t.Errorf("another org sees %+v", list)
	}
	if err := other.Delete(within(t, time.Minute), ref, skerry.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wantNothingLeft(t, b)
	if _, err := b.Open(t.Context(), ref); skerry.KindOf(err) != skerry.NotFound {
		t.Errorf("open after delete: %v", err)
	}
	if err := b.Delete(t.Context(), ref, skerry.DeleteOptions{}); skerry.KindOf(err) != skerry.NotFound {
		t.Errorf("delete after delete: %v", err)
	}
}

// B145: of many that create the same name at once, exactly one does.
func TestOneOfManyCreatesWins(t *testing.T) {
	state := newState(t)
	ref := session("race")
	const many = 6
	var wg sync.WaitGroup
	errs := make([]error, many)
	for i := range many {
		b := backendAt(t, state)
		wg.Go(func() {
			s, err := b.Create(within(t, time.Minute), skerry.SandboxSpec{Ref: ref})
			if errs[i] = err; err == nil {
				s.Close()
			}
		})
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		switch {
		case err == nil:
			won++
		case skerry.KindOf(err) != skerry.Conflict || skerry.OutcomeOf(err) != skerry.Refused:
			t.Errorf("a loser got %v (%s)", err, skerry.OutcomeOf(err))
		}
	}
	if won != 1 {
		t.Errorf("%d of %d creates succeeded", won, many)
	}
	b := backendAt(t, state)
	if err := b.Delete(within(t, time.Minute), ref, skerry.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wantNothingLeft(t, b)
}

// B146: a name is free again at once, and never answered by what is ending.
func TestCreateWhileTheOldOneEnds(t *testing.T) {
	b := newBackend(t)
	ref := session("again")
	for range 3 {
		s := mustCreate(t, b, skerry.SandboxSpec{Ref: ref})
		script(t, s, "touch old; sleep 300 & true")
		s.Close()
		r, _, err := b.dirs.Find(ref.Key())
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Supervisor.Signal(unix.SIGTERM); err != nil { // a delete that does not wait
			t.Fatal(err)
		}
		for range 100 { // until the signal has arrived, a conflict is the right answer
			s, err = b.Create(within(t, time.Minute), skerry.SandboxSpec{Ref: ref})
			if skerry.KindOf(err) != skerry.Conflict {
				break
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := script(t, s, "ls"); got != "" {
			t.Errorf("the new session has %q", got)
		}
		s.Close()
		if err := b.Delete(within(t, time.Minute), ref, skerry.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	wantNothingLeft(t, b)
}

func TestTTLEndsASessionAndIsRemembered(t *testing.T) {
	b := newBackend(t)
	ref := session("short")
	s := mustCreate(t, b, skerry.SandboxSpec{Ref: ref, TTL: 400 * time.Millisecond})
	s.Close()
	r, alive, err := b.dirs.Find(ref.Key())
	if err == nil && alive {
		if fd, ok := r.Supervisor.Open(); ok {
			if !boxes.WaitPidfd(fd, 20*time.Second) {
				t.Fatal("it did not end by its ttl")
			}
			unix.Close(fd)
		}
	}
	_, err = b.Open(within(t, time.Minute), ref)
	if skerry.KindOf(err) != skerry.Expired || !strings.Contains(err.Error(), "ttl") {
		t.Errorf("open: %v", err)
	}
	wantNothingLeft(t, b)
	if s, err := b.Create(within(t, time.Minute), skerry.SandboxSpec{Ref: ref}); err != nil {
		t.Errorf("a session's name can't be used again: %v", err)
	} else {
		s.Close()
	}
}

func TestExtendAndItsCeiling(t *testing.T) {
	b := newBackend(t)
	ref := session("extend")
	if _, err := b.Create(t.Context(), skerry.SandboxSpec{Ref: ref, TTL: 25 * time.Hour}); skerry.KindOf(err) != skerry.Invalid || skerry.HintOf(err) == "" || skerry.OutcomeOf(err) != skerry.Refused {
		t.Errorf("a ttl above the ceiling: %v", err)
	}
	s := mustCreate(t, b, skerry.SandboxSpec{Ref: ref, TTL: time.Minute})
	if err := s.Extend(t.Context(), 25*time.Hour); skerry.KindOf(err) != skerry.Invalid {
		t.Errorf("extend above the ceiling: %v", err)
	}
	if err := s.Extend(within(t, time.Minute), 2*time.Hour); err != nil {
		t.Fatal(err)
	}
	want := time.Now().Add(2 * time.Hour)
	if got := s.Info().Expires; got.Sub(want).Abs() > 30*time.Second {
		t.Errorf("the handle says %v, want about %v", got, want)
	}
	for range 200 { // the supervisor hears of it from the init
		list, err := b.List(t.Context(), skerry.Filter{})
		if err != nil || len(list) != 1 {
			t.Fatal(err, list)
		}
		if list[0].Expires.Sub(want).Abs() < 30*time.Second {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("the list still says the old time")
}

// B107: after the machine's clock was set, the record of a living session is of
// another time. It can be extended all the same, and not without end.
func TestExtendAfterTheClockWasSet(t *testing.T) {
	state := newState(t)
	b := backendAt(t, state)
	for name, shift := range map[string]time.Duration{"forward": -36 * time.Hour, "back": 36 * time.Hour} {
		ref := session(name)
		mustCreate(t, b, skerry.SandboxSpec{Ref: ref, TTL: time.Hour}).Close()
		path := filepath.Join(b.dirs.Run, "boxes", ref.Key(), "record.json")
		var r boxes.Record
		data, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(data, &r)
		}
		if err != nil {
			t.Fatal(err)
		}
		r.Created, r.Expires = r.Created.Add(shift), r.Expires.Add(shift)
		if data, err = json.Marshal(r); err == nil {
			err = os.WriteFile(path, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		s, err := backendAt(t, state).Open(within(t, time.Minute), ref)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		defer s.Close()
		if err := s.Extend(within(t, time.Minute), 2*time.Hour); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := s.Extend(within(t, time.Minute), 25*time.Hour); skerry.KindOf(err) != skerry.Invalid {
			t.Errorf("%s: above the ceiling: %v", name, err)
		}
		if got := script(t, s, "echo alive"); got != "alive\n" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// B103, B164: a persistent session finds its own files again, and nobody
// else's; what it had in memory is gone.
func TestPersistentFilesOutliveTheSession(t *testing.T) {
	b := newBackend(t)
	ref := session("notes")
	spec := skerry.SandboxSpec{Ref: ref, Persistent: true}
	s := mustCreate(t, b, spec)
	if got := script(t, s, "echo w > w; mkdir -p d; chmod 0 d; echo h > ~/h; echo t > /tmp/t; stat -c %U:%G . ~"); got != "skerry:skerry\nskerry:skerry\n" {
		t.Errorf("owners: %q", got)
	}
	s.Close()
	if err := b.Delete(within(t, time.Minute), ref, skerry.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wantNothingLeft(t, b)
	if _, err := b.Open(t.Context(), ref); skerry.KindOf(err) != skerry.NotFound || !strings.Contains(err.Error(), "files are kept") {
		t.Errorf("open: %v", err)
	}
	s = mustCreate(t, b, spec)
	if got := script(t, s, "cat w ~/h; ls /tmp; pwd"); got != "w\nh\n/workspace\n" {
		t.Errorf("the second time: %q", got)
	}
	other := mustCreate(t, b, skerry.SandboxSpec{Ref: session("notes2"), Persistent: true})
	if got := script(t, other, "ls -A . ~"); strings.Contains(got, "w") && !strings.Contains(got, "workspace") {
		t.Errorf("another session sees %q", got)
	}
	s.Close()
	if err := b.Delete(within(t, time.Minute), ref, skerry.DeleteOptions{Purge: true}); err != nil {
		t.Fatal(err)
	}
	if b.dirs.HasVolume(ref.Key()) {
		t.Error("purge left the files")
	}
	if err := b.Delete(t.Context(), ref, skerry.DeleteOptions{Purge: true}); skerry.KindOf(err) != skerry.NotFound {
		t.Errorf("purge of nothing: %v", err)
	}
}

// A late retry of a run that is remembered never runs twice.
func TestARunIsRemembered(t *testing.T) {
	b := newBackend(t)
	remember := func(s *skerry.RunSpec) { s.Sandbox.Remember = time.Hour }
	if r := sh(t, b, "true", remember); r.Outcome != skerry.Exited {
		t.Fatal(r.Reason)
	}
	r := sh(t, b, "echo twice", remember)
	if r.Outcome != skerry.Refused || r.Stdout != "" {
		t.Errorf("the same id again: %s %q %q", r.Outcome, r.Reason, r.Stdout)
	}
	wantNothingLeft(t, b)
}

// B154, B160: with the supervisor killed nothing of the sandbox runs on, and
// the next start removes what is left on the host.
func TestSweepAfterTheSupervisorWasKilled(t *testing.T) {
	state := newState(t)
	b := backendAt(t, state)
	ref := session("orphan")
	s := mustCreate(t, b, skerry.SandboxSpec{Ref: ref})
	script(t, s, "setsid sleep 300 & (trap '' TERM; exec sleep 300) & true")
	if len(left(t, b)) < 3 {
		t.Fatalf("a living sandbox shows only in %q", left(t, b))
	}
	r, _, err := b.dirs.Find(ref.Key())
	if err != nil {
		t.Fatal(err)
	}
	fd, ok := r.Supervisor.Open()
	if !ok {
		t.Fatal("no supervisor")
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil {
		t.Fatal(err)
	}
	if !boxes.WaitPidfd(fd, 10*time.Second) {
		t.Fatal("it lives")
	}
	if list, err := b.List(t.Context(), skerry.Filter{}); err != nil || len(list) != 0 {
		t.Errorf("list: %v %v", list, err)
	}
	b2 := backendAt(t, state) // sweeps
	wantNothingLeft(t, b2)
	_, err = b2.Open(t.Context(), ref)
	if skerry.KindOf(err) != skerry.Expired {
		t.Errorf("open of a session that was lost: %v", err)
	}
	s2 := mustCreate(t, b2, skerry.SandboxSpec{Ref: ref})
	if i := s2.Info(); !i.Recreated || len(i.Lost) == 0 {
		t.Errorf("it does not say that it was made anew: %+v", i)
	}
	for i, want := range []bool{true, false} {
		r := skerry.Exec(t.Context(), s2, skerry.ExecSpec{Command: skerry.CommandSpec{ID: fmt.Sprint("told", i), Argv: []string{"true"}}})
		if r.Recreated != want || r.Outcome != skerry.Exited {
			t.Errorf("command %d: recreated %v, outcome %s (%s); want recreated %v", i, r.Recreated, r.Outcome, r.Reason, want)
		}
	}
	again, err := b2.Open(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if again.Info().Recreated {
		t.Error("another process is told once more")
	}
}

// B154: after a reboot another process may have the supervisor's number. It is
// never signalled.
func TestARecordOfAnotherBootIsNobody(t *testing.T) {
	state := newState(t)
	b := backendAt(t, state)
	victim := exec.Command("sleep", "300")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { victim.Process.Kill(); victim.Wait() }()
	key := session("old").Key()
	dir := filepath.Join(b.dirs.Run, "boxes", key)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	record, _ := json.Marshal(boxes.Record{Ref: session("old"), Key: key, Supervisor: boxes.Process{PID: victim.Process.Pid, StartTime: 12345, BootID: "another"}})
	if err := os.WriteFile(filepath.Join(dir, "record.json"), record, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b = backendAt(t, state)
	wantNothingLeft(t, b)
	if err := victim.Process.Signal(unix.Signal(0)); err != nil {
		t.Errorf("the process that happened to have its number: %v", err)
	}
	mustCreate(t, b, skerry.SandboxSpec{Ref: session("old")})
}

// A broken record is swept like any other.
func TestABrokenRecordIsSwept(t *testing.T) {
	state := newState(t)
	b := backendAt(t, state)
	for i, content := range []string{"", "{", "[]", `{"supervisor":{"pid":1}}`} {
		dir := filepath.Join(b.dirs.Run, "boxes", fmt.Sprintf("%032x", i))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "record.json"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b = backendAt(t, state)
	wantNothingLeft(t, b)
}

func TestCreateThatIsCancelledLeavesNothing(t *testing.T) {
	b := newBackend(t)
	for _, after := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		s, err := b.Create(ctx, skerry.SandboxSpec{Ref: session("cancelled")})
		cancel()
		if err == nil {
			s.Close()
			if err := b.Delete(within(t, time.Minute), session("cancelled"), skerry.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		} else if o := skerry.OutcomeOf(err); o != skerry.StartFailed {
			t.Errorf("after %v: %v has outcome %s", after, err, o)
		}
		wantNothingLeft(t, b)
	}
}

// A sandbox whose box was deleted can't be found by anyone, and ends.
func TestASandboxWithoutItsBoxEnds(t *testing.T) {
	b := newBackend(t)
	ref := session("box")
	mustCreate(t, b, skerry.SandboxSpec{Ref: ref}).Close()
	r, _, err := b.dirs.Find(ref.Key())
	if err != nil {
		t.Fatal(err)
	}
	fd, ok := r.Supervisor.Open()
	if !ok {
		t.Fatal("no supervisor")
	}
	defer unix.Close(fd)
	if err := os.RemoveAll(filepath.Join(b.dirs.Run, "boxes", ref.Key())); err != nil {
		t.Fatal(err)
	}
	if !boxes.WaitPidfd(fd, 20*time.Second) {
		t.Fatal("it lives on")
	}
	wantNothingLeft(t, b)
}
