package local

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/boxes"
)

// Environment of a test binary that plays the part of a client.
const (
	childState = "SKERRY_TEST_CHILD_STATE"
	childMode  = "SKERRY_TEST_CHILD_MODE"
)

// beClient is run instead of the tests in a client process: it makes runs, or
// a session, until it is killed.
func beClient() {
	b, err := New(Config{StateDir: os.Getenv(childState), Init: os.Getenv("SKERRY_TEST_INIT")})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for i := 0; ; i++ {
		r := skerry.Run(context.Background(), b, skerry.RunSpec{
			Sandbox: skerry.SandboxSpec{Ref: skerry.Ref{Name: fmt.Sprint("kill-", os.Getpid(), "-", i)}},
			Command: skerry.CommandSpec{Argv: []string{"bash", "-c", "setsid sleep 300 & (trap '' TERM; exec sleep 300) & sleep 0.01"}},
		})
		fmt.Println(r.Outcome, r.Reason)
	}
}

func startClient(t *testing.T, state string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path, err := theInit()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childState+"="+state, childMode+"=run", "SKERRY_TEST_INIT="+path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// nothingLeftWithin waits until nothing is left, at most two seconds.
func nothingLeftWithin(t *testing.T, b *Backend, after string) {
	t.Helper()
	const limit = 2 * time.Second
	var got []string
	for end := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		if got = left(t, b); len(got) == 0 {
			return
		}
		if time.Now().After(end) {
			break
		}
	}
	t.Errorf("%s: %v later there is still %q", after, limit, got)
}

// moments is how many random moments of a run a client is killed at.
func moments(t *testing.T) int {
	if testing.Short() {
		return 10
	}
	return 100
}

// B154, B160: whenever the client is killed, its supervisor removes everything.
func TestClientKilledAtAnyMoment(t *testing.T) {
	state := newState(t)
	b := backendAt(t, state)
	for range moments(t) {
		client := startClient(t, state)
		after := time.Duration(rand.Int64N(int64(150 * time.Millisecond)))
		time.Sleep(after)
		client.Process.Kill()
		client.Wait()
		nothingLeftWithin(t, b, fmt.Sprint("client killed after ", after))
		if t.Failed() {
			return
		}
	}
}

// With the supervisor killed as well, nothing runs on, and the next start
// finds and removes what is left.
func TestClientAndSupervisorKilledAtAnyMoment(t *testing.T) {
	state := newState(t)
	b := backendAt(t, state)
	for range moments(t) {
		client := startClient(t, state)
		after := time.Duration(rand.Int64N(int64(150 * time.Millisecond)))
		time.Sleep(after)
		var ended []int
		for _, pid := range childrenOf(client.Process.Pid) {
			if fd, err := unix.PidfdOpen(pid, 0); err == nil {
				unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
				ended = append(ended, fd)
			}
		}
		client.Process.Kill()
		client.Wait()
		for _, fd := range ended {
			boxes.WaitPidfd(fd, time.Minute)
			unix.Close(fd)
		}
		if err := b.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		nothingLeftWithin(t, b, fmt.Sprint("both killed after ", after))
		if t.Failed() {
			return
		}
	}
}

// childrenOf gives the pids of a process's children.
func childrenOf(pid int) []int {
	var out []int
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, f := range files { // each thread has its own
		data, _ := os.ReadFile(f)
		for f := range strings.FieldsSeq(string(data)) {
			if n, err := strconv.Atoi(f); err == nil {
				out = append(out, n)
			}
		}
	}
	return out
}

// Many runs, some at a time, leave this process and the machine as they were.
func TestManyRunsLeakNothing(t *testing.T) {
	runs, atOnce := 200, 8
	if testing.Short() {
		runs = 24
	}
	b := newBackend(t)
	all := func(prefix string, n int) {
		var wg sync.WaitGroup
		next := make(chan int)
		for range atOnce {
			wg.Go(func() {
				for i := range next {
					r := skerry.Run(t.Context(), b, skerry.RunSpec{
						Sandbox: skerry.SandboxSpec{Ref: skerry.Ref{Name: fmt.Sprint(prefix, i)}},
						Command: skerry.CommandSpec{Argv: []string{"sh", "-c", fmt.Sprint("echo ", i)}},
					})
					if r.Outcome != skerry.Exited || r.Stdout != fmt.Sprint(i, "\n") {
						t.Errorf("run %d: %s %q, output %q", i, r.Outcome, r.Reason, r.Stdout)
					}
				}
			})
		}
		for i := range n {
			next <- i
		}
		close(next)
		wg.Wait()
		for range 500 { // Delete does not wait for the supervisors' own ends
			if b.reap(); len(b.children) == 0 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	all("warm", atOnce) // what is made once is made now
	before := census(t)
	all("leak", runs)
	after := census(t)
	for what, n := range after {
		// Other programs start and end meanwhile; growth of ours would be in
		// the hundreds.
		const noise = 20
		if n > before[what]+noise || (what == "descriptors" || what == "children") && n > before[what] {
			t.Errorf("%s: %d before, %d after %d runs", what, before[what], n, runs)
		}
	}
	wantNothingLeft(t, b)
}

func census(t *testing.T) map[string]int {
	t.Helper()
	count := func(dir string) int {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	return map[string]int{
		"processes":   count("/proc"),
		"mounts":      strings.Count(string(mounts), "\n"),
		"descriptors": count("/proc/self/fd"),
		"goroutines":  runtime.NumGoroutine(),
		"children":    len(childrenOf(os.Getpid())),
	}
}
