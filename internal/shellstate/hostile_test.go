//go:build linux

package shellstate

import (
	"strings"
	"testing"
)

// Whatever a script does to its shell, what it kept before is there for the
// next one, nothing of ours is heard, and no option leaks.
func TestHostileScripts(t *testing.T) {
	for _, c := range []struct {
		script string
		code   int
		out    string
	}{
		{"set -euxo pipefail 2>/dev/null", 0, ""},
		{"set -e; false", 1, ""},
		{"set -u; exec 2>/dev/null; echo $NOPE", 127, ""},
		{"trap 'echo bye' EXIT; exit 3", 3, "bye\n"},
		{"set -e; trap 'echo bye' EXIT; false", 1, "bye\n"},
		{"exec 2>/dev/null; set -u; trap 'echo bye' EXIT; echo $NOPE", 127, "bye\n"},
		{"trap 'exit 7' EXIT", 7, ""},
		{"trap 'echo bye; kill -0 $$' EXIT; (exit 4)", 4, "bye\n"},
		{"set -euf -o pipefail -o noclobber; trap 'echo bye' EXIT; trap : ERR INT TERM RETURN", 0, "bye\n"},
		{"trap 'echo dbg' DEBUG", 0, ""},
		{"trap ': dbg' DEBUG; trap 'echo bye' EXIT; true", 0, "bye\n"},
		{"trap 'echo ret' RETURN; f9() { :; }; f9; unset -f f9", 0, ""},
		{"true; builtin() { echo no; }; true", 0, ""},
		{"true; trap() { echo mine; }; exit() { echo x; }; cd() { echo cd; }; printf() { echo p; }; unset() { echo u; }; set() { echo s; }; declare() { echo d; }; export() { echo e; }; command() { echo c; }; eval() { echo ev; }; builtin() { echo b; }; shopt() { :; }; umask() { echo m; }; local() { echo l; }; return() { echo r; }; test() { echo t; }; alias() { echo a; }; pwd() { echo /etc; }", 0, ""},
		{"IFS=abcdeprx/0123456789; true", 0, ""},
		{"export IFS=x; true", 0, ""},
		{"PATH=; true", 0, ""},
		{"set -f", 0, ""},
		{"set -o posix", 0, ""},
		{"export POSIXLY_CORRECT=1", 0, ""},
		{"set -C", 0, ""},
		{"set -a; X1=1", 0, ""},
		{"set -T -E; trap ': $BASH_COMMAND' DEBUG ERR; false", 1, ""},
		{"set -k -h -B +B -P -m", 0, ""},
		{"set -v 2>/dev/null; exec 2>/dev/null", 0, ""},
		{"shopt -s nullglob failglob extglob dotglob nocaseglob", 0, ""},
		{"shopt -s extdebug", 0, ""},
		{"shopt -s expand_aliases; alias builtin='echo x' set='echo y' printf='echo z' trap='echo t'", 0, ""},
		{"shopt -u interactive_comments sourcepath; shopt -s xpg_echo lastpipe inherit_errexit localvar_inherit assoc_expand_once", 0, ""},
		{"GLOBIGNORE='*'", 0, ""},
		{"export TIMEFORMAT='%R' PS4='$(echo ps4 >&2)' PROMPT_COMMAND='echo pc'", 0, ""},
		{"export BASH_ENV=/nonexistent/rc ENV=/nonexistent/rc", 0, ""},
		{"export SHELLOPTS BASHOPTS; set -e", 0, ""},
		{"export BASH_XTRACEFD=7 2>/dev/null", 0, ""},
		{"unset HOME", 0, ""},
		{"export LC_ALL=xx_YY.SJIS 2>/dev/null", 0, ""},
		{"export LC_ALL=C", 0, ""},
		{"ulimit -n 20", 0, ""},
		{"readonly K=1 HOME; declare -r Z=2; readonly -f g", 0, ""},
		{"unset __skerry; __skerry=5; OPTIND=7", 0, ""},
		{"shift 2; set -- a b c", 0, ""},
		{"f() { local L=9; exit 3; }; f", 3, ""},
		{"f() { local -; set -x; exit 3; } 2>/dev/null; exec 2>/dev/null; f", 3, ""},
		{"exec >/dev/null", 0, ""},
		{"exec >&- 2>&- <&-", 0, ""},
		{"for ((fd=3; fd<200; fd++)); do eval \"exec $fd>&-\"; done", 0, ""},
		{"eval 'trap \"echo bye\" EXIT'; exit 2", 2, "bye\n"},
		{"echo 'trap \"echo bye\" EXIT' > lib; . ./lib; exit 2", 2, "bye\n"},
		{"(exit 3) & wait $!", 3, ""},
		{"exit 300", 44, ""},
		{"trap '' TERM; kill -TERM $$", 0, ""},
		{"compgen -A function | grep -v '^g$'; true", 0, ""},
		{"unset PWD OLDPWD", 0, ""},
		{"export RANDOM SRANDOM SECONDS EPOCHSECONDS EPOCHREALTIME LINENO BASHPID BASH_COMMAND SHLVL _", 0, ""},
		{"export POSIX_PEDANTIC=1", 0, ""},
		{"export BASH_COMPAT=99 2>/dev/null", 0, ""},
		{"export FUNCNEST=1 BASH_ARGV0=x EXECIGNORE='*'", 0, ""},
		{"PWD=/nowhere OLDPWD=x", 0, ""},
		{"unset BASH_VERSION BASH LINENO RANDOM _", 0, ""},
		{"set -- \"${@:1}\"; trap -- 'echo bye' exit", 0, "bye\n"},
	} {
		t.Run(strings.NewReplacer("/", "", " ", "_").Replace(c.script[:min(len(c.script), 40)]), func(t *testing.T) {
			s := newSession(t)
			s.quiet("mkdir d; cd d; export K=1; g() { echo g; }", 0, "")
			r := s.want(c.script, c.code, c.out)
			if r.captured != nil {
				t.Errorf("%q: no state: %v", c.script, r.captured)
			}
			if r.err != "" {
				t.Errorf("%q: stderr %q", c.script, r.err)
			}
			s.want("/bin/echo $K \"${__skerry-}${N-}\"; g; command -p pwd -P >&2; case $- in *[efuvxaC]*) /bin/echo leak $-; esac", 0, "1 \ng\n")
			if st := s.st; st.Dir != s.workspace+"/d" {
				t.Errorf("%q: directory %q", c.script, st.Dir)
			}
			for _, kv := range s.st.Env {
				if strings.HasPrefix(kv, "__skerry") {
					t.Errorf("%q: environment has %q", c.script, kv)
				}
			}
		})
	}
}
