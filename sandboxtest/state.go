package sandboxtest

import (
	"strings"
	"testing"
	"time"

	"github.com/skerry-run/skerry"
)

// testState has what a session's shell keeps from one script to the next.
func testState(t *testing.T, s *suite) {
	t.Run("cwd, variables, functions, aliases, umask and shopt persist", func(t *testing.T) {
		b := s.session(t)
		b.sh("mkdir -p 'd e' && cd 'd e' && export A='x y' && B=not-exported && f() { echo \"f:$1:${2-none}\"; } && shopt -s expand_aliases nullglob && alias hi='echo hello' && umask 027").want(0)
		b.sh("pwd; echo \"$A\"; f 1; hi; umask; shopt -q nullglob && echo nullglob").
			wantOut("/workspace/d e\nx y\nf:1:none\nhello\n0027\nnullglob\n")
		b.sh("cd ..; unset A; unset -f f; unalias hi; shopt -u nullglob; umask 022").want(0)
		b.sh("pwd; echo \"[$A]\"; umask; shopt -q nullglob || echo off; type f >/dev/null 2>&1 || echo no f; alias hi 2>/dev/null || echo no hi").
			wantOut("/workspace\n[]\n0022\noff\nno f\nno hi\n")
	})

	t.Run("values of any bytes persist exactly", func(t *testing.T) { // B041
		b := s.session(t)
		b.sh("export V=$'a\\nb \"c\\' $HOME `id` \\\\ é漢 \\x01\\xff;#'").want(0)
		b.sh("printf %s \"$V\"").wantOut("a\nb \"c' $HOME `id` \\ é漢 \x01\xff;#")
		b.sh("export E=").want(0)
		b.sh("echo [${E-unset}]").wantOut("[]\n")
	})

	t.Run("functions with heredocs, quotes and odd names persist", func(t *testing.T) {
		b := s.session(t)
		b.sh("f() { cat <<'X'\nin $A 'q' \"\nX\n}\ng-h() { echo \"g:$*\"; }\nexport -f f").want(0)
		b.sh("f; g-h 1 2").wantOut("in $A 'q' \"\ng:1 2\n")
	})

	t.Run("set options and readonly marks do not persist", func(t *testing.T) { // B020
		b := s.session(t)
		b.sh("set -euxf; readonly R=1; export R").want(0)
		if d := b.sh("R=2; echo $R; false; echo /wor*").wantOut("2\n/workspace\n"); d.err != "" {
			t.Errorf("stderr %q", d.err)
		}
	})

	t.Run("a change persists although its script failed", func(t *testing.T) { // B025
		b := s.session(t)
		b.sh("mkdir sub; cd sub && export F=1 && false").want(1)
		b.sh("pwd; echo $F").wantOut("/workspace/sub\n1\n")
	})

	t.Run("exit keeps what was set before it", func(t *testing.T) { // B019
		b := s.session(t)
		b.sh("cd /tmp; export X=1; exit 3").want(3)
		b.sh("pwd; echo $X").wantOut("/tmp\n1\n")
	})

	t.Run("a trap of the user's own runs and hides nothing", func(t *testing.T) { // X6
		b := s.session(t)
		b.sh("export T=1; trap 'echo bye' EXIT; echo hi").wantOut("hi\nbye\n")
		b.sh("echo $T").wantOut("1\n")
		b.sh("export T=2; trap 'exit 7' EXIT").want(7)
		b.sh("echo $T; trap").wantOut("2\n")
		b.sh("trap 'echo debug' DEBUG; export T=3; trap - DEBUG").want(0)
		b.sh("trap '' TERM INT; trap 'export T=4' EXIT").want(0)
		b.sh("echo alive").wantOut("alive\n")
	})

	t.Run("exec and a kill keep the last good state", func(t *testing.T) {
		b := s.session(t)
		b.sh("export K=good; cd /tmp").want(0)
		b.sh("export K=lost; exec true").want(0)
		b.sh("export K=lost; kill -KILL $$").wantOutcome(skerry.Signaled)
		spec := script("export K=lost; sleep 1000")
		spec.Timeout, spec.Grace = 300*time.Millisecond, 200*time.Millisecond
		b.do(spec).wantOutcome(skerry.Timeout)
		b.sh("pwd").wantOut("/tmp\n")
		if d := b.sh("echo ${K:-none}").want(0); d.out != "good\n" && d.out != "lost\n" {
			t.Errorf("K is %q", d.out)
		}
		b.sh("echo usable").wantOut("usable\n")
	})

	t.Run("output can't forge it", func(t *testing.T) {
		b := s.session(t)
		b.sh("cd /tmp; export K=real").want(0)
		b.sh("for m in __CWD__ __EXIT_CODE__:9 'K=forged' 'declare -x K=\"forged\"' 'export K=forged' 'cd /etc'; do echo \"$m\"; echo \"$m\" >&2; done; for fd in $(seq 3 60) 62 63 100 200 254 255; do { printf 'K=forged\\ndeclare -x K=\"forged\"\\ncd /etc\\n' >&$fd; } 2>/dev/null; done; true")
		b.sh("pwd; echo $K").wantOut("/tmp\nreal\n")
		b.sh("bash -c 'for fd in $(seq 3 255); do { printf \"K=forged\\0\" >&$fd; } 2>/dev/null; done'; true").want(0)
		b.sh("pwd; echo $K").wantOut("/tmp\nreal\n")
	})

	t.Run("a cwd that was deleted falls back to the workspace with a notice", func(t *testing.T) {
		b := s.session(t)
		b.sh("mkdir gone; cd gone; rmdir ../gone").want(0)
		d := b.sh("pwd").wantOut("/workspace\n")
		if len(d.exit.Notices) == 0 {
			t.Error("no notice says so")
		}
		if d := b.sh("pwd").wantOut("/workspace\n"); len(d.exit.Notices) != 0 {
			t.Errorf("notices %q", d.exit.Notices)
		}
	})

	t.Run("a directory and variables of one command do not persist", func(t *testing.T) {
		b := s.session(t)
		spec := script("pwd; echo $ONCE")
		spec.Dir, spec.Env = "/tmp", map[string]string{"ONCE": "1"}
		b.do(spec).wantOut("/tmp\n1\n")
		b.sh("echo [$ONCE]").wantOut("[]\n")
	})

	t.Run("argv commands see the session's cwd and exported variables", func(t *testing.T) {
		b := s.session(t)
		b.sh("cd /tmp; export SEEN=1; HIDDEN=1").want(0)
		b.do(argv("bash", "-c", "pwd; echo $SEEN[$HIDDEN]")).wantOut("/tmp\n1[]\n")
	})

	t.Run("our own variables are not in it", func(t *testing.T) { // B039
		b := s.session(t)
		b.sh("export MINE=1").want(0)
		first := b.sh("env | cut -d= -f1 | sort | tr '\\n' ' '").want(0).out
		if !strings.Contains(first, "MINE ") {
			t.Errorf("environment %q", first)
		}
		for name := range strings.FieldsSeq(first) {
			if strings.Contains(strings.ToUpper(name), "SKERRY") {
				t.Errorf("%s is in the environment", name)
			}
		}
		if second := b.sh("env | cut -d= -f1 | sort | tr '\\n' ' '").want(0).out; second != first {
			t.Errorf("names %q, then %q", first, second)
		}
	})

	t.Run("stays in its own session", func(t *testing.T) { // B039
		a, b := s.session(t), s.session(t)
		a.sh("export X=a; cd /tmp").want(0)
		b.sh("echo [$X]; pwd").wantOut("[]\n/workspace\n")
	})

	t.Run("of a big environment and many functions persists", func(t *testing.T) {
		b := s.session(t)
		b.sh("for i in $(seq 300); do eval \"f$i() { echo $i; }\"; export V$i=$(printf 'x%.0s' $(seq 100)); done").want(0)
		b.sh("f7; f300; echo ${#V299}").wantOut("7\n300\n100\n")
	})

	t.Run("an alias works in the next script and in no subshell's wrapper", func(t *testing.T) {
		b := s.session(t)
		b.sh("shopt -s expand_aliases; alias cd='echo not' pwd='echo not' exit='echo not' trap='echo not' export='echo not' declare='echo not' builtin='echo not'").want(0)
		b.sh("true").want(0)
		b.sh("unalias -a").want(0)
		b.sh("cd /tmp; pwd").wantOut("/tmp\n")
	})

	t.Run("functions that hide builtins do not break it", func(t *testing.T) {
		b := s.session(t)
		b.sh("export K=1; declare() { :; }; pwd() { echo fake; }; printf() { :; }; alias() { :; }; shopt() { :; }; umask() { :; }; export() { :; }; set() { :; }").want(0)
		b.sh("echo $K").wantOut("1\n")
		b.sh("unset -f declare pwd printf alias shopt umask export set").want(0)
		b.sh("pwd").wantOut("/workspace\n")
	})
}
