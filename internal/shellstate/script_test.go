//go:build linux

package shellstate

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Scripts of every shape are what bash makes of them, with nothing of the
// wrapper in what they read, write or report.
func TestScriptShapes(t *testing.T) {
	s := newSession(t)
	for _, c := range []struct {
		script string
		code   int
		out    string
		err    string
	}{
		{"cat <<'E'\n$A `b` \"c\"\nE\n", 0, "$A `b` \"c\"\n", ""},
		{"cat <<E\nends without newline\nE", 0, "ends without newline\n", ""}, // B017
		{"cat > f <<'EOF'\nhi\nEOF", 0, "", ""},                               // B017
		{"cat f", 0, "hi\n", ""},                                              // B017
		{"cat <<-E\n\thi\n\tE", 0, "hi\n", ""},                                // B017
		{"cat <<A; cat <<B\na\nA\nb\nB", 0, "a\nb\n", ""},                     // B017
		{"cat <<'E F'\nhi\nE F", 0, "hi\n", ""},                               // B017
		{"cat <<EOF\nx", 0, "x\n", "bash: line 2: warning: here-document at line 1 delimited by end-of-file (wanted `EOF')\n"}, // B030
		{"echo ok", 0, "ok\n", ""}, // B030
		{"echo \"abc", 2, "", "bash: eval: line 1: unexpected EOF while looking for matching `\"'\n"}, // B031
		{"if true; then", 2, "", "bash: eval: line 2: syntax error: unexpected end of file\n"},
		{"echo a\necho )", 2, "a\n", "bash: eval: line 2: syntax error near unexpected token `)'\nbash: eval: line 2: `echo )'\n"},
		{"\n\nnosuch_x", 127, "", "bash: line 3: nosuch_x: command not found\n"}, // B034
		{"return 4", 2, "", "bash: line 1: return: can only `return' from a function or sourced script\n"},
		{"echo one\n\necho two \\\n  three\n", 0, "one\ntwo three\n", ""},
		{"printf '%s|' 'a b' \"c'd\" é\\ 漢", 0, "a b|c'd|é 漢|", ""},
		{"echo $0 $LINENO $# \"${BASH_SOURCE[0]}\" \"${FUNCNAME[0]}\"\necho $LINENO", 0, "bash 1 0  \n2\n", ""},
		{"shopt -s expand_aliases\nalias hi='echo hello'\nhi\nshopt -u expand_aliases", 0, "hello\n", ""},
		{"declare V=1; f() { echo $V; }; f; unset -f f", 0, "1\n", ""},
		{"trap 'echo ERR $LINENO' ERR\nfalse", 1, "ERR 2\n", ""},
		{"set -x; : a", 0, "", "++ : a\n"},
		{"set -x; trap 'echo bye' EXIT", 0, "bye\n", "++ trap 'echo bye' EXIT\n+ echo bye\n"},
		{"set -v\n: a", 0, "", ": a\n{ \\set +vx; } 2>/dev/null >&250\n"},
		{"set -e\ntrap 'echo \"failed $?\"' EXIT\n(exit 6)\necho no", 6, "failed 6\n", ""},
		{"x=$(cat); echo \"[$x]\"", 0, "[]\n", ""},                               // B032
		{"read x; echo $?", 0, "1\n", ""},                                        // B032
		{"echo 'timed out after 3s' >&2; exit 1", 1, "", "timed out after 3s\n"}, // B035
		{"cat <<< a; exec 3<<<b; cat <&3", 0, "a\nb\n", ""},
		{"false http://127.0.0.1:9/x?a=1&b=2; echo $b", 0, "2\n", ""},                                    // B028
		{"cat <<'E'\nprint(\"`id` $HOME \\\\ !x\")\nE", 0, "print(\"`id` $HOME \\\\ !x\")\n", ""},        // B029
		{"bash -ic 'sleep 300 >/dev/null 2>&1 & echo $! > pid' 2>/dev/null; kill $(cat pid)", 0, "", ""}, // B033
		{"\ntrap : NOSUCH", 1, "", "bash: line 2: trap: NOSUCH: invalid signal specification\n"},
		{"trap -p NOSUCH", 1, "", "bash: line 1: trap: invalid signal or option: -p NOSUCH\n"},
		{"trap : INT; trap --", 0, "trap -- ':' SIGINT\n", ""},
		{"", 0, "", ""},
		{"\n", 0, "", ""},
		{"#!/bin/sh\necho \\\n", 0, "\n", ""},
		{"sleep 100 & disown; exit 0", 0, "", ""},
	} {
		if c.script == "sleep 100 & disown; exit 0" {
			c.script = "sleep 100 >/dev/null 2>&1 & echo $! > pid; exit 0"
		}
		r := s.run(c.script)
		if r.code != c.code || r.out != c.out || r.err != c.err {
			t.Errorf("%q: code %d, stdout %q, stderr %q; want code %d, stdout %q, stderr %q", c.script, r.code, r.out, r.err, c.code, c.out, c.err)
		}
	}
	// What runs on in the background holds nobody up; end it.
	s.quiet("kill $(cat pid)", 0, "")
}

func TestStdinIsTheCommands(t *testing.T) {
	s := newSession(t)
	r := s.runStdin("read a; echo \"1 $a\"; cat", strings.NewReader("x\ny\nz\n")) // B032
	if r.out != "1 x\ny\nz\n" {
		t.Errorf("got %+v", r)
	}
}

func TestLargeScripts(t *testing.T) {
	s := newSession(t)
	s.quiet("x="+strings.Repeat("a", 300_000)+"; echo ${#x}", 0, "300000\n") // X5
	if !testing.Short() {
		s.quiet("x="+strings.Repeat("a", 16<<20-20)+"; echo ${#x}", 0, strconv.Itoa(16<<20-20)+"\n")
	}
	long := strings.Repeat("0123456789abcdef\n", 70_000/17)
	s.quiet("cat <<'E'\n"+long+"E", 0, long)                                 // B042, X4
	s.quiet("x=$(cat <<'E'\n"+long+"E\n); cat <<< \"$x\"", 0, long)          // B042, X4
	s.quiet("echo "+strings.Repeat("a ", 500_000)+" | wc -w", 0, "500000\n") // B027
}

func TestNULIsRefused(t *testing.T) {
	if _, _, err := Prepare(State{}, []byte("echo a\x00b"), nil); err == nil { // B027
		t.Error("a script with NUL was taken")
	}
	for _, env := range []string{"", "=x", "NOVALUE", "A=\x00"} {
		if _, _, err := Prepare(State{}, []byte("true"), []string{env}); err == nil {
			t.Errorf("the variable %q was taken", env)
		}
	}
}

func TestScriptIsNotInArgv(t *testing.T) {
	s := newSession(t)
	s.quiet("tr '\\0' ' ' </proc/$$/cmdline | grep -c secret_word_x", 1, "0\n")
}

func TestImagePathIsKept(t *testing.T) {
	s := newSession(t)
	bin := filepath.Join(s.workspace, "opt")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "tool"), []byte("#!/bin/sh\necho tool\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for i, kv := range s.st.Env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			s.st.Env[i] = "PATH=" + bin + ":" + v
		}
	}
	if err := os.WriteFile(filepath.Join(s.workspace, ".bashrc"), []byte("read x; PATH=/nowhere; echo rc\n"), 0o644); err != nil { // B032
		t.Fatal(err)
	}
	s.quiet("tool", 0, "tool\n") // B040
	s.quiet("tool", 0, "tool\n")
}

// The environment of the state serves programs without a shell too.
func TestEnvOfTheStateWithoutShell(t *testing.T) {
	s := newSession(t)
	s.quiet("export X=1 Y=$'a\\nb\"$`\\\\c\\x01\\xff' Z=; f() { cat <<E\nin f $1\nE\n}; export -f f; SHLVL=9", 0, "")
	cmd := exec.Command(s.bash, "-c", "echo \"$X$Z\"; f 1; printf %s \"$Y\" | od -An -tx1; echo $SHLVL")
	cmd.Env = s.st.Env
	out, err := cmd.CombinedOutput()
	if want := "1\nin f 1\n 61 0a 62 22 24 60 5c 63 01 ff\n1\n"; string(out) != want || err != nil { // B165, B041
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
	s.quiet("bash -c 'f 2'; printf %s \"$Y\" | od -An -tx1", 0, "in f 2\n 61 0a 62 22 24 60 5c 63 01 ff\n")
}

// A shell that could not read its script has not succeeded.
func TestNothingRanIsNotSuccess(t *testing.T) {
	s := newSession(t)
	inv, _, err := Prepare(s.st, []byte("true"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, missing := range []int{0, 1} {
		extra := make([]*os.File, StateFD-3+1)
		for i, b := range inv.Files {
			if i != missing {
				extra[FileFD0+i-3] = memfd(t, b, 0)
				defer extra[FileFD0+i-3].Close()
			}
		}
		cmd := &exec.Cmd{Path: s.bash, Args: inv.Argv, Env: inv.Env, Dir: s.workspace, ExtraFiles: extra}
		if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 126 || len(out) == 0 {
			t.Errorf("without file %d: %v, %q", missing, err, out)
		}
	}
}
