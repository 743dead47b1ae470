package sandboxtest

import (
	"strings"
	"testing"
	"time"

	"github.com/skerry-run/skerry"
)

func testLimits(t *testing.T, s *suite) {
	limit := func(set func(*skerry.Limits)) func(*skerry.SandboxSpec) {
		return func(spec *skerry.SandboxSpec) { set(&spec.Limits) }
	}
	// A hog in the shell itself, so that it needs no interpreter: one string
	// that doubles.
	const hog = "echo begun; x=0123456789abcdef; while :; do x=$x$x; done"

	t.Run("memory above the limit is oom, and the session lives on", func(t *testing.T) {
		s.need(t, MemoryLimit)
		b := s.session(t, limit(func(l *skerry.Limits) { l.MemoryBytes = 64 * skerry.MiB }))
		b.sh("export KEPT=1").want(0)
		for _, spec := range []skerry.CommandSpec{argv("bash", "-c", hog), script(hog)} {
			spec.Timeout = time.Minute
			d := b.do(spec).wantOutcome(skerry.OOM)
			if d.out != "begun\n" {
				t.Errorf("stdout %q", d.out)
			}
		}
		b.sh("echo $KEPT").wantOut("1\n")
		if u, err := b.Usage(b.ctx); err != nil || u.OOMEvents == 0 {
			t.Errorf("usage %+v, error %v", u, err)
		}
	})

	t.Run("a child that the kernel killed for memory does not hide the program's end", func(t *testing.T) {
		s.need(t, MemoryLimit)
		b := s.session(t, limit(func(l *skerry.Limits) { l.MemoryBytes = 64 * skerry.MiB }))
		d := b.do(argv("bash", "-c", "bash -c '"+hog+"' >/dev/null; echo after; exit 3"))
		if d.exit.Outcome != skerry.OOM {
			d.want(3)
		}
		if !strings.HasSuffix(d.out, "after\n") && d.exit.Outcome == skerry.Exited {
			t.Errorf("stdout %q", d.out)
		}
	})

	t.Run("what stays below the memory limit is left alone", func(t *testing.T) { // B036
		b := s.session(t, limit(func(l *skerry.Limits) { l.MemoryBytes = 128 * skerry.MiB }))
		b.do(argv("bash", "-c", "x=$(head -c 20000000 /dev/zero | tr '\\0' x); echo ${#x}; exit 137")).want(137)
	})

	t.Run("a fork bomb is bounded and ends, and the session lives on", func(t *testing.T) {
		s.need(t, PIDLimit)
		b := s.session(t, limit(func(l *skerry.Limits) { l.PIDs = 64 }))
		b.sh("export KEPT=1").want(0)
		spec := argv("bash", "-c", "bomb() { bomb | bomb & }; bomb; sleep 1000")
		spec.Timeout, spec.Grace = time.Second, 200*time.Millisecond
		d := b.do(spec)
		if d.exit.Outcome == skerry.Exited && *d.exit.ExitCode == 0 {
			t.Errorf("it is said to have %s", exitText(d.exit))
		}
		b.sh("echo $KEPT; for i in 1 2 3 4 5; do sleep 0.01 & done; wait; echo usable").wantOut("1\nusable\n")
	})

	t.Run("a setsid fork bomb is bounded and ends", func(t *testing.T) {
		s.need(t, PIDLimit)
		b := s.session(t, limit(func(l *skerry.Limits) { l.PIDs = 64 }))
		b.write("bomb.sh", "trap '' TERM\nwhile :; do setsid bash /workspace/bomb.sh & done\n")
		spec := argv("bash", "/workspace/bomb.sh")
		spec.Timeout, spec.Grace = time.Second, 200*time.Millisecond
		b.do(spec)
		b.sh("echo usable").wantOut("usable\n")
		if n := b.processes("bash /workspace/bomb.sh"); n != "0" {
			t.Errorf("%s processes are left", n)
		}
	})

	t.Run("as many processes as the limit allows can run", func(t *testing.T) {
		b := s.session(t, limit(func(l *skerry.Limits) { l.PIDs = 64 }))
		b.do(argv("bash", "-c", "for i in $(seq 50); do sleep 1 & done; wait; echo all")).wantOut("all\n")
	})

	t.Run("more processes than the limit can't run", func(t *testing.T) {
		s.need(t, PIDLimit)
		b := s.session(t, limit(func(l *skerry.Limits) { l.PIDs = 32 }))
		spec := argv("bash", "-c", "for i in $(seq 400); do sleep 1000 & done 2>/dev/null; echo all; wait")
		spec.Timeout, spec.Grace = 3*time.Second, 200*time.Millisecond
		if d := b.do(spec); strings.Contains(d.out, "all") {
			t.Error("400 processes were started")
		}
		b.sh("echo usable").wantOut("usable\n")
	})

	t.Run("the workspace is bounded", func(t *testing.T) {
		s.need(t, WorkspaceLimit)
		b := s.session(t, limit(func(l *skerry.Limits) { l.WorkspaceBytes = 8 * skerry.MiB }))
		d := b.do(argv("bash", "-c", "head -c 100000000 /dev/zero > /workspace/fill; echo $?; stat -c %s /workspace/fill"))
		wantFull(t, d, 8*skerry.MiB)
		b.sh("rm -f /workspace/fill; echo x > f && cat f").wantOut("x\n")
	})

	t.Run("/tmp and /dev/shm are bounded", func(t *testing.T) {
		s.need(t, TmpLimit)
		b := s.session(t, limit(func(l *skerry.Limits) { l.TmpBytes, l.ShmBytes = 8*skerry.MiB, 2*skerry.MiB }))
		for place, bytes := range map[string]int64{"/tmp": 8 * skerry.MiB, "/dev/shm": 2 * skerry.MiB} {
			wantFull(t, b.do(argv("bash", "-c", `head -c 100000000 /dev/zero > "$1/fill"; echo $?; stat -c %s "$1/fill"; rm -f "$1/fill"`, "x", place)), bytes)
		}
		b.sh("echo usable").wantOut("usable\n")
	})

	t.Run("unlinked files count too", func(t *testing.T) {
		s.need(t, TmpLimit)
		b := s.session(t, limit(func(l *skerry.Limits) { l.TmpBytes = 8 * skerry.MiB }))
		b.do(argv("bash", "-c", "exec 9> /tmp/hidden; rm /tmp/hidden; head -c 100000000 /dev/zero >&9; echo $?")).wantOut("1\n")
	})

	t.Run("files up to the limit fit", func(t *testing.T) {
		b := s.session(t, limit(func(l *skerry.Limits) { l.WorkspaceBytes, l.TmpBytes = 32*skerry.MiB, 32*skerry.MiB }))
		b.do(argv("bash", "-c", "head -c 25000000 /dev/zero > /workspace/a && head -c 25000000 /dev/zero > /tmp/a && stat -c %s /workspace/a /tmp/a")).wantOut("25000000\n25000000\n")
	})
}

// wantFull checks that a command that filled a place was stopped by the limit:
// by an error of its write, or as a whole.
func wantFull(t *testing.T, d done, limit int64) {
	t.Helper()
	if d.exit.Outcome == skerry.Evicted {
		return
	}
	fields := strings.Fields(d.out)
	if len(fields) != 2 || fields[0] == "0" || len(fields[1]) > len(itoa(int(limit)))+1 {
		t.Errorf("%s: %s, stdout %q, limit %d", d.what, exitText(d.exit), d.out, limit)
	}
}
