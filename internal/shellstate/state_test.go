//go:build linux

package shellstate

import (
	"strings"
	"testing"
)

func TestStatePersists(t *testing.T) {
	s := newSession(t)
	s.quiet("mkdir -p d && cd d && export A='x y' && B=no && f() { echo \"f:$1\"; } && shopt -s expand_aliases && alias hi='echo hello'; umask 027", 0, "")
	s.quiet("pwd; echo \"$A|${B-unset}\"; f 1; hi; umask; shopt extglob; set -o | grep -c 'on$'", 0,
		lines(s.workspace+"/d", "x y|unset", "f:1", "hello", "0027", "extglob        \toff", "3"))
	s.quiet("declare -F; set | grep -i skerry; for fd in 200 201 202; do [[ -e /proc/self/fd/$fd ]] && echo $fd; done; true", 0, "declare -f f\n")
	s.want("declare -F; declare -p BASH_EXECUTION_STRING; set | grep -i skerry", 1, "declare -f f\n")
	s.quiet("cd ..; cd - >/dev/null; pwd", 0, s.workspace+"/d\n")
	s.quiet("cd ..", 0, "")
	s.quiet("cd - ", 0, s.workspace+"/d\n")
	s.quiet("unset A; unset -f f; unalias hi", 0, "")
	r := s.run("echo ${A-unset}; f; hi")
	if r.code != 127 || r.out != "unset\n" || !strings.Contains(r.err, "bash: line 1: f: command not found") {
		t.Errorf("after unset: %+v", r)
	}
}

func TestStatuses(t *testing.T) {
	s := newSession(t)
	for _, c := range []struct {
		script string
		code   int
		out    string
	}{
		{"exit 9", 9, ""},                  // B019
		{"false || exit 3", 3, ""},         // B019
		{"exec true", 0, ""},               // B019
		{"exec false", 1, ""},              // B019
		{"return 4", 2, ""},                // B019
		{"set -euo pipefail; true", 0, ""}, // B020
		{"echo ok", 0, "ok\n"},             // B020
		{"set -e; false; echo no", 1, ""},  // B021
		{"set -euo pipefail; false | true; echo no", 1, ""},
		{"echo alive", 0, "alive\n"}, // B021
		{"set -u; echo $NOPE; echo no", 127, ""},
		{"(exit 9)", 9, ""},
		{"false", 1, ""},
		{"no_such_cmd_x 1", 127, ""}, // B034
		{"echo \"abc", 2, ""},        // B031
		{"if true; then", 2, ""},
		{"echo )", 2, ""},
		{"kill -TERM $$", -15, ""},
		{"kill -9 $$", -9, ""},
		{"exit 124", 124, ""}, {"exit 137", 137, ""}, {"exit 143", 143, ""}, // B036
		{"# list\necho a", 0, "a\n"}, // B026
		{"echo a # c", 0, "a\n"},
		{"echo '${}'", 0, "${}\n"}, // B027
		{"echo a\\", 0, "a\\\n"},
		{"trap 'echo bye' EXIT; echo hi", 0, "hi\nbye\n"},
		{"trap 'exit 7' EXIT; true", 7, ""}, // X6
		{"trap 'echo $?' EXIT; exit 5", 5, "5\n"},
		{"trap 'echo $?' EXIT; true", 0, "0\n"},
		{"set -e; trap 'echo bye' EXIT; false", 1, "bye\n"},
		{"set -u; trap 'echo bye' EXIT; echo $NOPE", 127, "bye\n"},
		{"trap 'echo bye' 0; trap - EXIT; echo hi", 0, "hi\n"},
		{"trap 'echo term; exit 3' TERM; kill -TERM $$; sleep 1", 3, "term\n"},
		{"trap 'echo E' ERR; false", 1, "E\n"},
		{"trap 'echo E' ERR; trap - ERR; false", 1, ""},
		{"(trap 'echo sub' EXIT; true); echo main", 0, "sub\nmain\n"},
		{"trap 'echo a' EXIT; trap -p EXIT", 0, "trap -- 'echo a' EXIT\na\n"},
		{"trap 'echo \"it'\\''s\"' EXIT; x=$(trap -p EXIT); echo \"$x\"; trap - EXIT", 0, "trap -- 'echo \"it'\\''s\"' EXIT\n"},
		{"trap", 0, ""},
		{"bash -ic 'echo hi' 2>/dev/null", 0, "hi\n"}, // B033
	} {
		s.want(c.script, c.code, c.out)
	}
}
