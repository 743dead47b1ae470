//go:build linux

package shellstate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestKilledAndReplacedShellsKeepTheLastState(t *testing.T) {
	s := newSession(t)
	s.quiet("export K=real; mkdir -p d; cd d", 0, "")
	for _, c := range []struct {
		script string
		code   int
	}{
		{"export K=lost; cd /; exec true", 0},
		{"export K=lost; cd /; exec false", 1},
		{"export K=lost; cd /; kill -9 $$", -9}, // B037
		{"export K=lost; cd /; kill -TERM $$", -15},
		{"export K=lost; cd /; exec 250>&-", 0},
		{"export K=lost; cd /; set -n", 0},
		{"export K=lost; cd /; builtin trap : EXIT", 0},
		{"export K=lost; cd /; set -o posix; trap : EXIT; exit 4", 4},
		{"export K=lost; cd /; sleep 100 & trap \"kill $!\" EXIT; kill -TERM $$; wait", -15},
		{"export K=lost; cd /; ulimit -f 0", 0},
	} {
		s.want(c.script, c.code, "")
		s.quiet("pwd; echo $K", 0, s.workspace+"/d\nreal\n")
	}
	s.quiet("export K=new; cd ..; exit 5", 5, "") // B019
	s.quiet("pwd; echo $K", 0, s.workspace+"\nnew\n")
	s.quiet("cd d && false", 1, "") // B025
	s.quiet("pwd", 0, s.workspace+"/d\n")
}

func TestOutputCannotForgeState(t *testing.T) {
	s := newSession(t)
	s.quiet("cd /tmp; export K=real", 0, "")
	s.run("for m in __CWD__ __EXIT_CODE__:9 'declare -x K=\"forged\"' '/etc'; do echo \"$m\"; echo \"$m\" >&2; done; for ((fd=3; fd<=250; fd++)); do printf '\\0skerry-begin x\\0/etc\\n\\0K=forged\\0skerry-end x\\0' >&$fd; done 2>/dev/null; true")
	s.quiet("pwd; echo $K", 0, "/tmp\nreal\n")
	// Junk before the frame is skipped: this state was kept.
	r := s.run("for ((fd=3; fd<=250; fd++)); do echo junk >&$fd; done 2>/dev/null; export K=second")
	if r.captured != nil {
		t.Errorf("junk before the frame: %v", r.captured)
	}
	s.quiet("echo $K", 0, "second\n")
	// A child that writes all the time can at most cost the command's state.
	for range 5 {
		s.run("(while :; do for fd in 250; do echo 'K=forged' >&$fd; done; done) 2>/dev/null & p=$!; sleep 0.02; export K=third; trap 'kill -9 $p' EXIT")
		if r := s.run("echo $K"); r.out != "second\n" && r.out != "third\n" {
			t.Fatalf("got %+v", r)
		}
	}
}

func TestOwnTraces(t *testing.T) {
	s := newSession(t)
	s.quiet("export A=1; f() { :; }; alias x=y", 0, "")
	s.quiet("env | grep -i skerry; set | grep -i skerry; declare -F; compgen -v | grep -i skerry; alias", 0, "declare -f f\nalias x='y'\n") // B039
	s.quiet("for fd in /proc/self/fd/*; do fd=${fd##*/}; ((fd > 2 && fd < 250 && fd != 255)) && [[ -e /proc/$$/fd/$fd ]] && echo $fd; done; true", 0, "")
}

// B039: sessions share nothing, and a command's own variables end with it.
func TestPerCommandVariables(t *testing.T) {
	s := newSession(t)
	s.quiet("export A=old", 0, "")
	if r := s.run("echo $A $B $C", "A=call", "B=call", "C=c c"); r.out != "call call c c\n" {
		t.Errorf("got %+v", r)
	}
	s.quiet("echo ${A-unset} ${B-unset} ${C-unset}", 0, "old unset unset\n")
	if r := s.run("A=mine; export B=mine; unset C", "A=call", "B=call", "C=c"); r.code != 0 {
		t.Errorf("got %+v", r)
	}
	s.quiet("echo ${A-unset} ${B-unset} ${C-unset}", 0, "mine mine unset\n")
	if r := s.run("unset A", "A=call"); r.code != 0 {
		t.Errorf("got %+v", r)
	}
	s.quiet("echo ${A-unset}", 0, "unset\n")
	if r := s.run("printf %s \"$Q\"", "Q=a\n'\"$`\\\xff\x01"); r.out != "a\n'\"$`\\\xff\x01" { // B041
		t.Errorf("got %+v", r)
	}
	r := s.run("env | grep odd; true", "odd.name=2")
	if r.out != "odd.name=2\n" {
		t.Errorf("got %+v", r)
	}
	s.st.Env = append(s.st.Env, "odd.name=1", "odd-er=x=y")
	s.quiet("true", 0, "")
	s.run("true", "odd.name=2")
	if !slices.Contains(s.st.Env, "odd.name=1") || !slices.Contains(s.st.Env, "odd-er=x=y") {
		t.Errorf("odd names are gone: %q", s.st.Env)
	}
	other := newSession(t)
	other.quiet("echo ${A-unset} ${B-unset}", 0, "unset unset\n")
}

func TestTooLargeVariables(t *testing.T) {
	s := newSession(t)
	s.quiet("export BIG=$(printf %131068s x) SMALL=1; export FITS=$(printf %131066s x)", 0, "") // X5
	r := s.run("echo ${BIG-unset} $SMALL ${#FITS}; /bin/true")
	if r.code != 0 || r.out != "unset 1 131066\n" {
		t.Errorf("got code %d, %q, %q", r.code, r.out, r.err)
	}
	if len(r.notices) != 1 || !strings.Contains(r.notices[0], "BIG") || strings.Contains(r.notices[0], "SMALL") {
		t.Errorf("notices %q", r.notices)
	}
	if r := s.run("true"); len(r.notices) != 0 {
		t.Errorf("told again: %q", r.notices)
	}
	if r = s.run("for i in {1..20}; do export \"V$i=$(printf %100000s x)\"; done"); r.captured != nil || len(s.st.Dropped) == 0 {
		t.Errorf("many large variables: %v, dropped %q", r.captured, s.st.Dropped)
	}
	r = s.run("/bin/echo ok")
	if r.out != "ok\n" || len(r.notices) != 1 {
		t.Errorf("many large variables: %d, %q, notices %q", r.code, r.err, r.notices)
	}
}

func TestTooLargeState(t *testing.T) {
	s := newSession(t)
	s.quiet("export K=1", 0, "")
	r := s.run("export K=2; eval \"f() { : $(printf %3000000s | tr ' ' x) $(printf %3000000s | tr ' ' x); }\"")
	if r.code != 0 || !errors.Is(r.captured, ErrTooLarge) {
		t.Errorf("code %d, %v", r.code, r.captured)
	}
	s.quiet("echo $K", 0, "1\n")
	// A megabyte of functions is kept.
	s.quiet("eval \"f() { x=$(printf %1000000s | tr ' ' x); echo \\${#x}; }\"", 0, "")
	s.quiet("f", 0, "1000000\n")
}

// B144: commands side by side each start from a whole state.
func TestManyAtOnce(t *testing.T) {
	s := newSession(t)
	s.quiet("f() { echo \"f:$PATH\"; }; export BASE=1", 0, "")
	path := "f:" + os.Getenv("PATH") + "\n"
	var wg sync.WaitGroup
	slots := make(chan struct{}, 8)
	for i := range 50 {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if r := s.run(fmt.Sprintf("f; echo $BASE; export V%d=1", i)); r.code != 0 || r.out != path+"1\n" || r.captured != nil {
				t.Errorf("command %d: %+v", i, r)
			}
		})
	}
	wg.Wait()
	s.quiet("f; compgen -e | grep '^V[0-9]*$' >/dev/null", 0, path)
}

func TestDirectories(t *testing.T) {
	s := newSession(t)
	s.quiet("mkdir -p real/sub; ln -s real link; cd link/sub", 0, "")
	s.quiet("pwd; pwd -P; cd ..; pwd", 0, lines(s.workspace+"/link/sub", s.workspace+"/real/sub", s.workspace+"/link"))
	odd := "a b'\"$\n\xff"
	if err := os.Mkdir(filepath.Join(s.workspace, odd+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.quiet("cd ..; cd a*", 0, "")
	s.quiet("printf %s \"$PWD\"", 0, filepath.Join(s.workspace, odd)+"\n")
	r := s.want("rmdir \"$PWD\"", 0, "")
	if len(r.notices) != 0 {
		t.Errorf("notices %q", r.notices)
	}
	r = s.want("pwd", 0, s.workspace+"\n")
	if len(r.notices) != 1 || !strings.Contains(r.notices[0], "is gone") {
		t.Errorf("notices %q", r.notices)
	}
	r = s.want("pwd", 0, s.workspace+"\n")
	if len(r.notices) != 0 {
		t.Errorf("told again: %q", r.notices)
	}
	file := filepath.Join(s.workspace, "f")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][3]string{
		{"", s.workspace, ""}, {s.workspace, s.workspace, ""}, {"/nope", s.workspace, "is gone"},
		{file, s.workspace, "no directory"}, {file + "/x", s.workspace, "be reached"}, {"/tmp", "/tmp", ""},
	} {
		if dir, notice := UsableDir(c[0], s.workspace); dir != c[1] || (notice == "") != (c[2] == "") || !strings.Contains(notice, c[2]) {
			t.Errorf("UsableDir(%q) = %q, %q", c[0], dir, notice)
		}
	}
}

func TestFunctionsRoundTrip(t *testing.T) {
	s := newSession(t)
	s.quiet(`shopt -s extglob
a-b() { case $1 in +(a|b)) echo ext;; *) echo no;; esac; }
x:y() { [[ $1 == @(q|r) ]] && echo q; }
shopt -u extglob
h() { cat <<E | tr a-z A-Z
one $1
declare -fr zz
E
cat <<'F'
$x \ "
f () 
{ 
F
}
export -f h
readonly -f h
nest() { in_nest() { echo inner; }; in_nest; }
declare -ft traced 2>/dev/null; traced() { :; }; declare -ft traced
é() { echo utf8; }
sub() ( echo sub )
loop() { for ((i=0;i<2;i++)); do echo $i; done; select x in a; do break; done </dev/null 2>/dev/null; time true; } 2>/dev/null
`, 0, "")
	for range 2 {
		s.quiet("shopt -s extglob; a-b aab; x:y q; h 1; nest; é; sub; loop; declare -F traced; shopt -u extglob; declare -F | grep ' h$'", 0,
			"ext\nq\nONE 1\nDECLARE -FR ZZ\n$x \\ \"\nf () \n{ \ninner\nutf8\nsub\n0\n1\n\ntraced\ndeclare -fx h\n")
	}
	s.quiet("h() { echo changed; }; h", 0, "changed\n")
}

func TestAliasesRoundTrip(t *testing.T) {
	s := newSession(t)
	s.quiet("shopt -s expand_aliases; alias a='echo \"it'\\''s\" $HOME'; alias -- -x='echo dash' é='echo utf8' nl=$'echo one\\necho two' ll=", 0, "")
	s.quiet("a; -x; é; nl", 0, "it's "+s.workspace+"\ndash\nutf8\none\ntwo\n")
	s.quiet("unalias -a", 0, "")
	s.quiet("alias", 0, "")
}

func TestOptionsRoundTrip(t *testing.T) {
	s := newSession(t)
	s.quiet("shopt -s nullglob globstar; shopt -u checkwinsize sourcepath; shopt -o -s noglob; set -o pipefail", 0, "")
	s.quiet("echo $BASHOPTS | tr : '\\n' | grep -E '^(nullglob|globstar|checkwinsize|sourcepath|extglob)$'; set -o | grep -E '^(noglob|pipefail)'", 0, "globstar\nnullglob\nnoglob         \toff\npipefail       \toff\n")
}

// A script that ends inside functions leaves the session's variables, not the
// functions' own.
func TestExitInsideFunctions(t *testing.T) {
	s := newSession(t)
	s.quiet("export K=1 Q=2 R=3", 0, "")
	for _, end := range []string{"exit 3", "set -e; (exit 3)", "trap : EXIT; exit 3"} {
		s.want("f() { local K=9 IFS=z PATH=/x:$PATH HOME=/x; local -x N=5; export NEW=1 Q=3; local R=x; g; }; g() { local K=8 R; "+end+"; }; f", 3, "")
		s.quiet("echo $K $Q $R ${N-unset} $NEW; [[ $HOME == /x || $PATH == /x* ]] && echo no; unset -f f g; export Q=2; unset NEW; true", 0, "1 3 3 unset 1\n")
	}
}

func TestTraps(t *testing.T) {
	s := newSession(t)
	for _, c := range [][2]string{
		{"trap 'echo a' EXIT; trap 'echo b' EXIT", "b\n"},
		{"trap 'echo a' EXIT INT; trap -p", "trap -- 'echo a' EXIT\ntrap -- 'echo a' SIGINT\na\n"},
		{"trap 'echo a' INT; trap", "trap -- 'echo a' SIGINT\n"},
		{"trap 'echo a' EXIT; trap '' EXIT; echo -", "-\n"},
		{"trap 'echo a' SIGEXIT 2>/dev/null || trap 'echo a' EXIT; trap EXIT", ""},
		{"trap 'echo a' EXIT; trap 0", ""},
		{"trap -l | head -1 | cut -c1-10", " 1) SIGHUP\n"},
		{"trap 'echo x' NOSUCH 2>/dev/null; echo $?", "1\n"},
		{"trap 'echo u1; kill -USR1 $$' EXIT; trap 'echo usr1' USR1", "u1\nusr1\n"},
		{"trap 'echo t' TERM; kill $$; echo after", "t\nafter\n"},
		{"f() { trap 'echo R' RETURN; echo f; }; f; trap - RETURN; unset -f f", "f\nR\n"},
		{"trap 'echo D' DEBUG; true; trap - DEBUG; true", "D\nD\n"},
		{"old=$(trap -p EXIT); echo \"[$old]\"", "[]\n"},
		{"trap 'echo one' EXIT; old=$(trap -p EXIT); eval \"$old\"", "one\n"},
		{"x=$(trap 'echo sub' EXIT; echo body); echo \"$x\"", "body\nsub\n"},
		{"trap 'echo $x' EXIT; x=late", "late\n"},
		{"cleanup() { echo clean $?; }; trap cleanup EXIT; (exit 3); unset nothing", "clean 0\n"},
		{"trap 'cd /; rm -f x; echo \"$PWD\"' EXIT", "/\n"},
	} {
		r := s.run(c[0])
		if r.out != c[1] || r.err != "" || r.captured != nil {
			t.Errorf("%q: %+v, want %q", c[0], r, c[1])
		}
	}
	s.quiet("pwd; trap", 0, s.workspace+"\n")
}
