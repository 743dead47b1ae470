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
	"syscall"
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

// beSessionMaker is a client that makes one session, and stays.
func beSessionMaker() {
	b, err := New(Config{StateDir: os.Getenv(childState), Init: os.Getenv("SKERRY_TEST_INIT")})
	if err == nil {
		_, err = b.Create(context.Background(), skerry.SandboxSpec{Ref: session("made"), TTL: 10 * time.Minute})
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	select {}
}

// startClient starts a client of that mode of TestMain.
func startClient(t *testing.T, state, mode string) *exec.Cmd {
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
	cmd.Env = append(os.Environ(), childState+"="+state, childMode+"="+mode, "SKERRY_TEST_INIT="+path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// startProgram starts skerry over and over, each time with a run, in a process
// group of its own.
func startProgram(t *testing.T, state string) *exec.Cmd {
	t.Helper()
	program, err := theProgram()
	if err != nil {
		t.Fatal(err)
	}
	path, err := theInit()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `while :; do "$0" run -l bash -c 'setsid sleep 300 & (trap "" TERM; exec sleep 300) & sleep 0.01'; done`, program)
	cmd.Env = append(os.Environ(), "SKERRY_STATE_DIR="+state, "SKERRY_INIT="+path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// killGroup kills what startProgram started.
func killGroup(client *exec.Cmd) {
	_ = unix.Kill(-client.Process.Pid, unix.SIGKILL) // ours until it is reaped
	_ = client.Wait()
}

// nothingLeftWithin waits until nothing is left, at most the two seconds that
// are promised.
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

// moments are random moments at which a client is killed. They follow what the
// machine is able to: a client that had no sandbox yet lets the next one live
// longer, another one shorter.
type moments struct {
	random   *rand.Rand
	begins   time.Duration // about how long a client needs to have a sandbox
	met, all int           // kills that met one, and all kills
}

func newMoments(t *testing.T) *moments {
	seed := rand.Uint64()
	t.Logf("seed of the moments: %d", seed)
	return &moments{random: rand.New(rand.NewPCG(seed, 0))}
}

func (*moments) count() int {
	if testing.Short() {
		return 10
	}
	return 100
}

// wait waits until the next moment. The first one, which tells how long a
// client needs, is when its first sandbox appears.
func (m *moments) wait(b *Backend) time.Duration {
	const (
		enough = 150 * time.Millisecond // for a sandbox to be made, used and removed
		never  = time.Minute
	)
	var after time.Duration
	if m.begins == 0 {
		for start := time.Now(); boxesOf(b) == 0 && m.begins < never; m.begins = time.Since(start) {
			time.Sleep(time.Millisecond)
		}
		after = m.begins
	} else {
		after = m.begins/2 + time.Duration(m.random.Int64N(int64(m.begins/2+enough)))
		time.Sleep(after) // the moment itself, not a wait for something
	}
	m.all++
	if boxesOf(b) > 0 {
		m.met++
		m.begins -= m.begins / 16
	} else {
		m.begins += m.begins / 4
	}
	return after
}

// check sees to it that enough kills met what they are for.
func (m *moments) check(t *testing.T) {
	t.Helper()
	t.Logf("%d of %d kills met a sandbox", m.met, m.all)
	if m.met*3 < m.all {
		t.Errorf("only %d of %d kills met a sandbox: the others show nothing", m.met, m.all)
	}
}

// boxesOf counts the boxes of b, without a look at anything else.
func boxesOf(b *Backend) int {
	entries, _ := os.ReadDir(filepath.Join(b.dirs.Run, "boxes")) // not there before the first client
	return len(entries)
}

// A session whose maker is killed while it is made is whole, or it never was.
func TestClientKilledWhileItMakesASession(t *testing.T) {
	state := newState(t)
	b := backendAt(t, state)
	ref := session("made")
	moment := newMoments(t)
	whole, never := 0, 0
	for range moment.count() {
		client := startClient(t, state, "session")
		after := moment.wait(b)
		met := boxesOf(b) > 0
		client.Process.Kill()
		client.Wait()
		ctx := within(t, time.Minute)
		for {
			if len(left(t, b)) == 0 {
				if met {
					never++
				}
				break
			}
			// While it is on its way out it may answer for the last time.
			if works(ctx, b, ref) && b.Delete(ctx, ref, skerry.DeleteOptions{}) == nil {
				whole++
				break
			}
			if ctx.Err() != nil {
				t.Fatalf("killed after %v: there is still %q, and no session", after, left(t, b))
			}
		}
		nothingLeftWithin(t, b, fmt.Sprint("maker killed after ", after))
		if t.Failed() {
			return
		}
	}
	t.Logf("%d sessions were whole, %d ended while they were made", whole, never)
	moment.check(t)
}

// works says whether a command can be run in a sandbox.
func works(ctx context.Context, b *Backend, ref skerry.Ref) bool {
	s, err := b.Open(ctx, ref)
	if err != nil {
		return false
	}
	defer s.Close()
	r := skerry.Exec(ctx, s, skerry.ExecSpec{Command: skerry.CommandSpec{ID: "works", Argv: []string{"true"}}})
	return r.Outcome == skerry.Exited
}

// B154, B160: whenever the client is killed, its supervisor removes everything.
func TestClientKilledAtAnyMoment(t *testing.T) {
	state := newState(t)
	b := backendAt(t, state)
	moment := newMoments(t)
	for range moment.count() {
		client := startClient(t, state, "run")
		after := moment.wait(b)
		client.Process.Kill()
		client.Wait()
		nothingLeftWithin(t, b, fmt.Sprint("client killed after ", after))
		if t.Failed() {
			return
		}
	}
	moment.check(t)
}

// With the supervisor killed as well, nothing runs on, and the next start
// finds and removes what is left.
func TestClientAndSupervisorKilledAtAnyMoment(t *testing.T) {
	state := newState(t)
	b := backendAt(t, state)
	moment := newMoments(t)
	for range moment.count() {
		client := startClient(t, state, "run")
		after := moment.wait(b)
		ended := killChildren(client.Process.Pid)
		client.Process.Kill()
		client.Wait()
		ended()
		if err := b.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		nothingLeftWithin(t, b, fmt.Sprint("both killed after ", after))
		if t.Failed() {
			return
		}
	}
	moment.check(t)
}

// The same with the program itself, instead of one that uses the library.
func TestSkerryKilledAtAnyMoment(t *testing.T) {
	state := newState(t)
	b := backendAt(t, state)
	moment := newMoments(t)
	for range moment.count() {
		client := startProgram(t, state)
		after := moment.wait(b)
		killGroup(client)
		nothingLeftWithin(t, b, fmt.Sprint("skerry killed after ", after))
		if t.Failed() {
			return
		}
	}
	moment.check(t)
}

// What is left when the supervisor is killed as well is gone after the next
// start of skerry, whatever that is started for.
func TestSkerryAndSupervisorKilledAtAnyMoment(t *testing.T) {
	state := newState(t)
	b := backendAt(t, state)
	program, err := theProgram()
	if err != nil {
		t.Fatal(err)
	}
	moment := newMoments(t)
	for range moment.count() / 2 { // each takes a second start
		client := startProgram(t, state)
		after := moment.wait(b)
		var ended []func()
		for _, skerry := range childrenOf(client.Process.Pid) {
			ended = append(ended, killChildren(skerry))
		}
		killGroup(client)
		for _, wait := range ended {
			wait()
		}
		next := exec.Command(program, "session", "list")
		next.Env = client.Env
		if out, err := next.CombinedOutput(); err != nil {
			t.Fatalf("the next start: %v\n%s", err, out)
		}
		nothingLeftWithin(t, b, fmt.Sprint("both killed after ", after))
		if t.Failed() {
			return
		}
	}
	moment.check(t)
}

// killChildren kills the children of a process, and gives what waits for their
// ends.
func killChildren(pid int) (ended func()) {
	var fds []int
	for _, child := range childrenOf(pid) {
		if fd, err := unix.PidfdOpen(child, 0); err == nil {
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // it may have ended
			fds = append(fds, fd)
		}
	}
	return func() {
		for _, fd := range fds {
			boxes.WaitPidfd(fd, time.Minute)
			unix.Close(fd)
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
