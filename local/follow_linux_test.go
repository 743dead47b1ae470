package local

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerry-run/skerry"
)

const followedBytes = 32 << 20 // more than is on its way between init and client

// followedRun is a run that ends when it is told to, with a lot of output and
// an artifact.
func followedRun() skerry.RunSpec {
	return skerry.RunSpec{
		Sandbox: skerry.SandboxSpec{Ref: skerry.Ref{Name: "followed"}, Remember: time.Minute},
		Command: skerry.CommandSpec{Argv: []string{"bash", "-c", fmt.Sprintf(
			"echo up; until [ -e go ]; do sleep 0.02; done; mkdir output; echo artifact >output/a; head -c %d /dev/zero", followedBytes)}},
	}
}

// followed is what a follower tells of the run.
type followed struct {
	Bytes  int64
	Result skerry.Result
}

// beFollower is run in a client process: it follows a run, reads its first
// output, and no more until it is told to.
func beFollower() {
	b, err := New(Config{StateDir: os.Getenv(childState), Init: os.Getenv("SKERRY_TEST_INIT")})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	var got followed
	wait := sync.OnceFunc(func() {
		fmt.Println("following")
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	})
	spec := followedRun()
	spec.Output = func(c skerry.Chunk) error {
		wait()
		got.Bytes += int64(len(c.Data))
		return nil
	}
	got.Result = skerry.Run(context.Background(), b, spec)
	_ = json.NewEncoder(os.Stdout).Encode(got)
	os.Exit(0)
}

// follow makes the run, with a follower that has stopped reading when the maker
// is about to remove it; then is called at that moment.
func follow(t *testing.T, b *Backend, state string, then func(follower io.Writer)) (skerry.Result, *bufio.Reader, *exec.Cmd) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path, err := theInit()
	if err != nil {
		t.Fatal(err)
	}
	follower := exec.Command(self)
	follower.Env = append(os.Environ(), childState+"="+state, childMode+"=follow", "SKERRY_TEST_INIT="+path)
	input, err := follower.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := follower.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	said := bufio.NewReader(output)
	ctx := within(t, 2*time.Minute)
	spec := followedRun()
	started := make(chan struct{})
	spec.Output = func(c skerry.Chunk) error {
		if c.Offset == 0 {
			close(started)
		}
		return nil
	}
	spec.Sandbox.Progress = func(e skerry.Event) {
		if e.Phase == "cleanup" {
			then(input)
		}
	}
	made := make(chan skerry.Result, 1)
	go func() { made <- skerry.Run(ctx, b, spec) }()
	select {
	case <-started:
	case r := <-made:
		t.Fatalf("the run ended early: %s %q", r.Outcome, r.Reason)
	}
	if err := follower.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = follower.Process.Kill() // has ended, as a rule
		_ = follower.Wait()
	})
	if line, err := said.ReadString('\n'); err != nil || line != "following\n" {
		t.Fatalf("the follower says %q (%v)", line, err)
	}
	ref := spec.Sandbox.Ref
	ref.Kind = skerry.RunKind
	s, err := b.Open(ctx, ref)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Files().Write(ctx, "go", strings.NewReader(""), skerry.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Close()
	return <-made, said, follower
}

// A follower in another process, who is far behind when the maker is done, still
// gets all of the output, and the artifacts.
func TestAFollowerReadsToTheEnd(t *testing.T) {
	state := newState(t)
	b := backendAt(t, state)
	made, said, _ := follow(t, b, state, func(follower io.Writer) { fmt.Fprintln(follower, "read on") })
	if made.Outcome != skerry.Exited {
		t.Fatalf("the maker: %s %q", made.Outcome, made.Reason)
	}
	var got followed
	if err := json.NewDecoder(said).Decode(&got); err != nil {
		t.Fatal(err)
	}
	if want := int64(len("up\n") + followedBytes); got.Bytes != want || got.Result.Outcome != skerry.Exited || len(got.Result.Files) != 1 || len(got.Result.Warnings) > len(made.Warnings) {
		t.Errorf("the follower got %d of %d bytes, %s %q, artifacts %v, warnings %q", got.Bytes, want, got.Result.Outcome, got.Result.Reason, got.Result.Files, got.Result.Warnings)
	}
	wantNothingLeft(t, b)
}

// One who does not read keeps nothing: the run is removed, and it is told how
// the run ended and that output is missing.
func TestAFollowerWhoDoesNotReadKeepsNothing(t *testing.T) {
	state := newState(t)
	b := backendAt(t, state)
	var input io.Writer
	made, said, _ := follow(t, b, state, func(follower io.Writer) { input = follower })
	if made.Outcome != skerry.Exited {
		t.Fatalf("the maker: %s %q", made.Outcome, made.Reason)
	}
	wantNothingLeft(t, b)
	fmt.Fprintln(input, "read on")
	var got followed
	if err := json.NewDecoder(said).Decode(&got); err != nil {
		t.Fatal(err)
	}
	if got.Bytes > followedBytes || got.Result.Outcome != skerry.Exited || len(got.Result.Files) != 0 || !strings.Contains(strings.Join(got.Result.Warnings, "\n"), "its sandbox is gone") {
		t.Errorf("the follower got %d bytes, %s %q, artifacts %v, warnings %q; want the outcome and a warning", got.Bytes, got.Result.Outcome, got.Result.Reason, got.Result.Files, got.Result.Warnings)
	}
}
