package sandboxtest

import (
	"bytes"
	"context"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerry-run/skerry"
)

// testLoad has what only shows with much at once, or again and again.
func testLoad(t *testing.T, s *suite) {
	t.Run("two scripts of one session at once keep their own variables", func(t *testing.T) { // B143
		b := s.session(t)
		other, err := s.again(t).Open(b.ctx, b.ref)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		b2 := *b
		b2.Sandbox = other
		a := b.start(script("export T=a; sleep 1; echo $T"))
		c := b2.start(script("export T=b; sleep 1; echo $T"))
		b.finish(a, "the first").wantOut("a\n")
		b2.finish(c, "the second").wantOut("b\n")
		if d := b.sh("echo $T").want(0); d.out != "a\n" && d.out != "b\n" {
			t.Errorf("afterwards T is %q, want that of one of them", d.out)
		}
	})

	t.Run("thirty programs at once start programs of their own", func(t *testing.T) { // B105
		b := s.session(t, func(spec *skerry.SandboxSpec) { spec.Limits.PIDs = 1024 })
		b.needProgram("python3")
		var commands []skerry.Command
		for range 30 {
			commands = append(commands, b.start(argv("python3", "-c", "import subprocess; print(subprocess.run(['echo', 'child'], capture_output=True, check=True).stdout)")))
		}
		for _, c := range commands {
			b.finish(c, "python").wantOut("b'child\\n'\n")
		}
	})

	t.Run("a program sees that a call was denied", func(t *testing.T) { // B105
		b := s.session(t)
		b.needProgram("python3")
		b.do(argv("python3", "-c", `import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
for call in (lambda: libc.mount(b"none", b"/tmp", b"tmpfs", 0, None), lambda: libc.ptrace(16, 1, 0, 0), lambda: libc.chroot(b"/tmp")):
    print(call(), errno.errorcode[ctypes.get_errno()])`)).wantOut("-1 EPERM\n-1 EPERM\n-1 EPERM\n")
	})

	t.Run("twenty timeouts leave no process and a usable session", func(t *testing.T) { // B070
		s.need(t, PIDLimit)
		b := s.session(t, func(spec *skerry.SandboxSpec) { spec.Limits.PIDs = 64 })
		for range 20 {
			spec := argv("sh", "-c", "sleep 601 & sleep 602")
			spec.Timeout, spec.Grace = 100*time.Millisecond, 100*time.Millisecond
			b.do(spec).wantOutcome(skerry.Timeout)
		}
		if n := b.processes("sleep 60"); n != "0" {
			t.Errorf("%s processes are left", n)
		}
		b.sh("for i in $(seq 30); do sleep 0.1 & done; wait; echo usable").wantOut("usable\n")
	})

	t.Run("a stopped program does not stretch its limit", func(t *testing.T) { // B107
		const stop, cont = 19, 18
		b := s.session(t)
		for _, signals := range [][]int{{stop}, {stop, cont}, {stop, cont, stop}} {
			spec := argv("sleep", "1000")
			spec.Timeout, spec.Grace = 2*time.Second, 100*time.Millisecond
			c := b.start(spec)
			for _, sig := range signals {
				if err := c.Signal(b.ctx, sig, true); err != nil {
					t.Fatal(err)
				}
			}
			// That it ended at all, before the test's patience, is the point;
			// checkExit looks at the duration's sign.
			if d := b.finish(c, "sleep").wantOutcome(skerry.Timeout); d.exit.Duration < spec.Timeout {
				t.Errorf("it ran for %v, before its limit of %v", d.exit.Duration, spec.Timeout)
			}
		}
	})

	t.Run("a binary file is read byte by byte", func(t *testing.T) { // B136
		b := s.session(t)
		b.do(argv("bash", "-c", `printf '\x89PNG\r\n\x1a\n\0\xff\xfe' > x.png`)).want(0)
		var got bytes.Buffer
		if _, err := b.Files().Read(b.ctx, "x.png", 0, -1, &got); err != nil || got.String() != "\x89PNG\r\n\x1a\n\x00\xff\xfe" {
			t.Errorf("read %q, error %v", got.String(), err)
		}
	})

	t.Run("non-ASCII is printed in the locale C too", func(t *testing.T) { // B064
		b := s.session(t)
		b.needProgram("python3")
		spec := argv("python3", "-c", `print("\u2615")`)
		spec.Env = map[string]string{"LC_ALL": "C"}
		b.do(spec).wantOut("☕\n")
	})

	t.Run("after many runs, half of them cancelled, a run works and nothing grew", func(t *testing.T) { // B153
		ctx := s.context(t)
		run := func(cancelled bool) skerry.Result {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			rs := skerry.RunSpec{Sandbox: s.spec(skerry.RunKind), Command: argv("bash", "-c", "echo up")}
			if cancelled {
				rs.Command = argv("bash", "-c", "echo up; exec sleep 1000")
				rs.Output = func(skerry.Chunk) error { cancel(); return nil }
			}
			return skerry.Run(ctx, s.Backend, rs)
		}
		run(true) // what is made once is made now
		goroutines, files := runtime.NumGoroutine(), openFiles()
		const runs, atOnce = 40, 4
		next := make(chan bool)
		var wg sync.WaitGroup
		for range atOnce {
			wg.Go(func() {
				for cancelled := range next {
					want := skerry.Exited
					if cancelled {
						want = skerry.Cancelled
					}
					if r := run(cancelled); r.Outcome != want {
						t.Errorf("cancelled %v: outcome %s (%s)", cancelled, r.Outcome, r.Reason)
					}
				}
			})
		}
		for i := range runs {
			next <- i%2 == 1
		}
		close(next)
		wg.Wait()
		if r := run(false); r.Outcome != skerry.Exited || r.Stdout != "up\n" {
			t.Errorf("the run after them: %s (%s), stdout %q", r.Outcome, r.Reason, r.Stdout)
		}
		b := &box{t: t, ctx: ctx, suite: s}
		b.until("nothing has grown", func() bool {
			infos, err := s.List(ctx, skerry.Filter{Kind: skerry.RunKind, Org: s.org})
			if err != nil {
				t.Fatal(err)
			}
			return len(infos) == 0 && runtime.NumGoroutine() <= goroutines && openFiles() <= files
		})
	})
}

// openFiles counts this process's descriptors; 0 where the system does not
// list them.
func openFiles() (n int) {
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			n++
		}
	}
	return n
}
