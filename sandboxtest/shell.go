package sandboxtest

import (
	"strings"
	"testing"

	"github.com/skerry-run/skerry"
)

// testShell has scripts of every shape: nothing that a script says changes how
// it is wrapped, or how the next one is read.
func testShell(t *testing.T, s *suite) {
	b := s.session(t)

	t.Run("heredocs end where they end", func(t *testing.T) { // B017
		b := b.on(t)
		for text, want := range map[string]string{
			"cat <<'EOF'\nhi\nEOF":                        "hi\n",
			"cat <<-EOF\n\thi\n\tEOF":                     "hi\n",
			"cat <<A; cat <<B\none\nA\ntwo\nB":            "one\ntwo\n",
			"cat <<'the end'\nhi\nthe end":                "hi\n",
			"cat > heredoc-file <<'EOF'\nhi\nEOF":         "",
			"cat <<'EOF'\n$A `b` \"c\" \\\nEOF":           "$A `b` \"c\" \\\n",
			"if true; then cat <<X; fi\nin\nX":            "in\n",
			"cat <<EOF # comment\nhi\nEOF\n# the end":     "hi\n",
			"f() { cat <<EOF\nin $1\nEOF\n}; f function":  "in function\n",
			"cat <<EOF | tr a-z A-Z\nloud\nEOF\necho end": "LOUD\nend\n",
		} {
			if d := b.sh(text); d.exit.ExitCode == nil || *d.exit.ExitCode != 0 || d.out != want {
				t.Errorf("%q: %s, stdout %q, want %q", text, exitText(d.exit), d.out, want)
			}
		}
		if got := b.read("heredoc-file"); got != "hi\n" {
			t.Errorf("the file holds %q", got)
		}
	})

	t.Run("explicit exits are the status", func(t *testing.T) { // B019
		b := b.on(t)
		for _, c := range []struct {
			text string
			code int
		}{
			{"exit 9", 9}, {"false || exit 3", 3}, {"exec true", 0}, {"exec false", 1}, {"(exit 4)", 4}, {"false", 1},
			{"set -e; false; echo no", 1}, {"trap 'exit 7' EXIT", 7}, {"trap 'echo bye' EXIT; exit 5", 5}, {"false; true", 0},
			{"exit 3 # comment", 3}, {"true &", 0}, {"exec bash -c 'exit 8'", 8}, {"f() { return 6; }; f", 6}, {"! true", 1},
		} {
			b.sh(c.text).want(c.code)
			b.sh("echo usable").wantOut("usable\n")
		}
		b.sh("return 4")
		b.sh("echo usable").wantOut("usable\n")
	})

	t.Run("strict mode works and does not leak", func(t *testing.T) { // B020, B021
		b := b.on(t)
		b.sh("set -euo pipefail; true").want(0)
		b.sh("echo ok; false; echo [$NOT_SET]; false | true").wantOut("ok\n[]\n")
		b.sh("set -e").want(0)
		b.sh("false").want(1)
		if d := b.sh("set -u; echo $NOT_SET; echo no"); d.exit.ExitCode == nil || *d.exit.ExitCode == 0 || d.out != "" {
			t.Errorf("an unset variable under set -u: %s, stdout %q", exitText(d.exit), d.out)
		}
		b.sh("set -x; set -f; set -v; set -n")
		if d := b.sh("echo /wor*; echo alive").wantOut("/workspace\nalive\n"); d.err != "" {
			t.Errorf("stderr %q", d.err)
		}
	})

	t.Run("comments, several lines, continuations", func(t *testing.T) { // B026
		b := b.on(t)
		b.sh("# list\necho one # two\n\n\necho \\\n  three\n# end").wantOut("one\nthree\n")
		b.sh("# nothing but a comment").wantOut("")
		b.sh("\n\n").wantOut("")
		b.sh("echo one;").wantOut("one\n")
		b.sh("echo one &&\necho two").wantOut("one\ntwo\n")
		b.sh("echo dos\r\n") // odd, and the shell's own business
		b.sh("\ufeff true; echo bom")
		b.sh("echo after").wantOut("after\n")
	})

	t.Run("odd text is the shell's business", func(t *testing.T) { // B027, B029
		b := b.on(t)
		b.sh("echo '${}'").wantOut("${}\n")
		b.sh("printf %s 'print(\"`id` $HOME \\\\ !x\")'").wantOut("print(\"`id` $HOME \\\\ !x\")")
		b.sh("printf '%s|' 'a b' \"c'd\" é\\ 漢 $'\\x01'").wantOut("a b|c'd|é 漢|\x01|")
		b.sh(`echo "${BASH_VERSION:+bash}"`).wantOut("bash\n")
		long := strings.Repeat("a", 1_000_000)
		b.sh("x=" + long + "; echo ${#x}").wantOut("1000000\n")
		b.sh(strings.Repeat("true\n", 50_000) + "echo end").wantOut("end\n")
	})

	t.Run("syntax errors are status 2 and poison nothing", func(t *testing.T) { // B030, B031, X6
		b := b.on(t)
		for _, text := range []string{`echo "abc`, "echo 'abc", "if true; then", "echo $(", "case x in", "f() {", "((", "echo `", ")", "}", "do", `"`} {
			d := b.sh(text).want(2)
			if d.err == "" {
				t.Errorf("%q: no word about it on stderr", text)
			}
			b.sh("echo ok").wantOut("ok\n")
		}
		b.sh("cat <<EOF\nx").wantOut("x\n")
		b.sh("echo ok").wantOut("ok\n")
	})

	t.Run("an unquoted ampersand is a background job", func(t *testing.T) { // B028
		b := b.on(t)
		b.sh("true http://127.0.0.1:9/x?a=1&b=2").want(0)
		b.sh("echo ok").wantOut("ok\n")
	})

	t.Run("what reads stdin does not eat the script", func(t *testing.T) { // B032
		b := b.on(t)
		b.sh("read x; cat >/dev/null; echo after").wantOut("after\n")
		b.sh("echo ok").wantOut("ok\n")
	})

	t.Run("start-up files do not disturb it", func(t *testing.T) { // B032, B040
		b := s.session(t)
		b.sh("for f in .bashrc .profile .bash_profile .bash_login; do printf 'read x\\ncd /\\nexport PATH=/nowhere\\necho noise\\nexit 5\\n' > ~/$f; done").want(0)
		b.sh("pwd; command -v cat >/dev/null && echo found").wantOut("/workspace\nfound\n")
		spec := script("pwd")
		spec.Env = map[string]string{"BASH_ENV": "/home/skerry/.bashrc", "ENV": "/home/skerry/.bashrc"}
		b.do(spec) // what the caller asks for with BASH_ENV is the caller's business
		b.sh("pwd").wantOut("/workspace\n")
	})

	t.Run("an interactive bash does not hang", func(t *testing.T) { // B033
		b := b.on(t)
		if d := b.sh("bash -ic 'echo hi'").want(0); d.out != "hi\n" {
			t.Errorf("stdout %q", d.out)
		}
		b.sh("bash -ic 'sleep 300 &'").want(0)
	})

	t.Run("killing its shell is told and the session goes on", func(t *testing.T) { // B032, B037
		b := b.on(t)
		b.sh("export KEPT=yes").want(0)
		d := b.sh("echo out; kill -KILL $$; echo no").wantOutcome(skerry.Signaled)
		if d.out != "out\n" {
			t.Errorf("stdout %q", d.out)
		}
		b.sh("kill -KILL $PPID; true") // its parent may be out of reach; either way the session goes on
		b.sh("echo $KEPT").wantOut("yes\n")
	})

	t.Run("heredocs above 64 KiB need a writable temporary folder, and have one", func(t *testing.T) { // B042, X4
		b := b.on(t)
		text := strings.Repeat(strings.Repeat("x", 69)+"\n", 2000)
		b.sh("cat <<'E' | wc -c\n" + text + "E").wantOut("140000\n")
		b.sh("v=$(head -c 140000 /dev/zero | tr '\\0' x); cat <<<\"$v\" | wc -c").wantOut("140001\n")
	})

	t.Run("the first line of a script is as good as any", func(t *testing.T) {
		b := b.on(t)
		b.sh("#!/bin/sh\necho shebang is a comment").wantOut("shebang is a comment\n")
		b.sh("-n").want(127)
		b.sh("--help").want(127)
	})

	t.Run("positional arguments are none", func(t *testing.T) {
		b.on(t).sh(`echo "$#"`).wantOut("0\n")
	})

	t.Run("nothing of ours is inherited by a program", func(t *testing.T) {
		b := b.on(t)
		const text = "ls -l /proc/self/fd | sed -n 's/.* \\([0-9]*\\) -> .*/\\1/p' | sort -n | tr '\\n' ' '"
		b.do(argv("bash", "-c", text)).wantOut("0 1 2 3 ") // 3 is the folder that ls reads
	})
}
