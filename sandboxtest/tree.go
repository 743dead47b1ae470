package sandboxtest

import (
	"strings"
	"testing"
	"time"

	"github.com/skerry-run/skerry"
)

// testTree has whose end ends what: background children, daemons, zombies.
func testTree(t *testing.T, s *suite) {
	b := s.session(t)

	t.Run("the end of a command is the end of its process, not of its pipes", func(t *testing.T) { // B067
		b := b.on(t)
		for i, text := range []string{
			"sleep 5000 & echo hi", "nohup sleep 5000 >/dev/null & echo hi", "setsid sleep 5000 & echo hi",
			"sleep 5000 & sleep 5000 & echo hi", "(sleep 5000 & ); echo hi",
		} {
			for _, spec := range []skerry.CommandSpec{argv("bash", "-c", text), script(text)} {
				if d := b.do(spec).want(0); strings.TrimSpace(d.out) != "hi" {
					t.Errorf("case %d: stdout %q", i, d.out)
				}
			}
		}
	})

	t.Run("what a session's command leaves running lives on", func(t *testing.T) {
		b := b.on(t)
		b.sh("(until test -e go-bg; do sleep 0.01; done; echo lived > bg-out) & echo started").wantOut("started\n")
		b.do(argv("bash", "-c", "setsid bash -c 'until test -e go-bg; do sleep 0.01; done; echo lived > bg-out-2' >/dev/null 2>&1 &")).want(0)
		b.sh("true").want(0)
		b.write("go-bg", "")
		b.until("both wrote", func() bool { return b.hasFile("bg-out") && b.hasFile("bg-out-2") })
	})

	t.Run("background output after the end of its command harms nobody", func(t *testing.T) {
		b := b.on(t)
		b.sh("(until test -e go-late; do sleep 0.01; done; echo late; echo late-file > late-out) & echo early").wantOut("early\n")
		b.write("go-late", "")
		b.until("it wrote", func() bool { return b.hasFile("late-out") })
	})

	t.Run("nothing of a run survives its command", func(t *testing.T) {
		b := s.run(t)
		c := b.start(argv("bash", "-c", "setsid sleep 4323 & (sleep 4323 & ) ; sleep 4323 & echo done"))
		b.finish(c, "the program").wantOut("done\n")
		if n := b.processes("sleep 4323"); n != "0" {
			t.Errorf("%s processes are left", n)
		}
	})

	for _, tree := range []struct{ name, text string }{
		{"children", "sleep 4324 & sleep 4324"},                                                                                    // B070
		{"a pipeline", "while sleep 0.05; do echo tick; done | cat; sleep 4324"},                                                   // B069
		{"setsid", "setsid sleep 4324 & sleep 4324"},                                                                               // B071
		{"setsid whose parent has gone", "(setsid sleep 4324 &) ; sleep 4324"},                                                     // B068
		{"double fork", "setsid bash -c '(sleep 4324 & ) & exit' ; sleep 4324"},                                                    //
		{"TERM ignored", "trap '' TERM; sleep 4324 & setsid sleep 4324 & sleep 4324"},                                              //
		{"a cleared environment", "env -i setsid /bin/sleep 4324 & env -i /bin/sleep 4324 & sleep 4324"},                           // membership does not hang on what a program can change
		{"a fork in answer to TERM", "trap 'setsid sleep 4324 & sleep 4324 & sleep 4324' TERM; while :; do sleep 0.05; done"},      //
		{"many", "for i in $(seq 40); do setsid sleep 4324 & done; sleep 4324"},                                                    //
		{"a shell in a shell", "bash -c 'bash -c \"setsid sleep 4324 & sleep 4324\"'"},                                             //
		{"everything closed", "setsid bash -c 'exec sleep 4324' <&- >&- 2>&- & exec 1>&- 2>&-; sleep 4324"},                        //
		{"a stopped child", "sleep 4324 & kill -STOP $!; sleep 4324"},                                                              //
		{"an orphan that orphans", "bash -c '(bash -c \"(setsid sleep 4324 &); exec sleep 4324\" &)'; exec sleep 4324"},            //
		{"a child named by another argv", "bash -c 'exec -a \"sleep 4324\" setsid sleep 4324' & sleep 4324"},                       //
		{"a process group of its own", "set -m; sleep 4324 & set +m; bash -ic 'sleep 4324 & disown' 2>/dev/null; exec sleep 4324"}, // B033
	} {
		t.Run("a timeout kills "+tree.name, func(t *testing.T) {
			b := b.on(t)
			for _, spec := range []skerry.CommandSpec{argv("bash", "-c", tree.text), script(tree.text)} {
				spec.Timeout, spec.Grace = 700*time.Millisecond, 300*time.Millisecond
				b.do(spec).wantOutcome(skerry.Timeout)
				if n := b.processes("sleep 4324"); n != "0" {
					t.Errorf("%s of %s are left", n, shown(spec))
				}
			}
		})
	}

	t.Run("a timeout leaves the background work of other commands alone", func(t *testing.T) {
		b := b.on(t)
		b.sh("(until test -e go-other; do sleep 0.01; done; echo lived > other-out) &").want(0)
		spec := script("sleep 4325 & sleep 4325")
		spec.Timeout = 300 * time.Millisecond
		b.do(spec).wantOutcome(skerry.Timeout)
		b.write("go-other", "")
		b.until("it wrote", func() bool { return b.hasFile("other-out") })
	})

	t.Run("timeouts use nothing up", func(t *testing.T) { // B070
		s.need(t, PIDLimit)
		b := s.session(t, func(spec *skerry.SandboxSpec) { spec.Limits.PIDs = 64 })
		for range 12 {
			spec := script("for i in $(seq 8); do setsid sleep 4326 & done; sleep 4326")
			spec.Timeout, spec.Grace = 200*time.Millisecond, 100*time.Millisecond
			b.do(spec).wantOutcome(skerry.Timeout)
		}
		b.sh("for i in $(seq 30); do sleep 0.1 & done; wait; echo usable").wantOut("usable\n")
		if n := b.processes("sleep 4326"); n != "0" {
			t.Errorf("%s processes are left", n)
		}
	})

	t.Run("orphans are reaped", func(t *testing.T) { // B080
		b := b.on(t)
		b.sh("for i in 1 2 3 4 5; do (sleep 0.05 & ); done; sleep 0.2").want(0)
		b.until("no zombie is left", func() bool {
			d := b.do(argv("bash", "-c", `cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') Z ' || true`)).want(0)
			return d.out == "0\n"
		})
	})

	t.Run("a sandbox under full load still answers", func(t *testing.T) { // B081
		b := s.session(t)
		c := b.start(argv("bash", "-c", "for i in $(seq 64); do while :; do :; done & done; echo burning; wait"))
		began := make(chan struct{})
		ended := make(chan error, 1)
		go func() {
			first := true
			ended <- c.Output(b.ctx, skerry.Offsets{}, func(skerry.Chunk) error {
				if first {
					first = false
					close(began)
				}
				return nil
			})
		}()
		<-began
		b.do(argv("echo", "here")).wantOut("here\n")
		if _, err := b.Usage(b.ctx); err != nil {
			t.Error(err)
		}
		if err := c.Cancel(b.ctx, "enough"); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		b.finishOnly(c).wantOutcome(skerry.Cancelled)
	})

	t.Run("a command can't end the sandbox", func(t *testing.T) {
		b := s.session(t)
		b.do(argv("bash", "-c", "kill -KILL -1; echo still here"))
		b.do(argv("bash", "-c", "kill -KILL 1; kill -TERM 1; kill -INT 1; kill -SEGV 1; kill -STOP 1; true"))
		b.sh("kill -TERM 1; kill -QUIT 1; true")
		b.sh("echo alive").wantOut("alive\n")
	})
}
