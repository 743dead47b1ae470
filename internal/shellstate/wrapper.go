package shellstate

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// boot is all of the wrapper that stands in argv: the prelude, then the state's
// text, the finish and the script, each evaluated at top level. Not inside the
// sourced prelude, because messages name the file that is being sourced. Of a
// restored function the shell would find `eval` first, so after the text it is
// called through builtin.
const boot = `. /proc/self/fd/201;eval "${__skerry[1]}";builtin eval "${__skerry[2]}";builtin eval "${__skerry[0]}"`

// forget removes the variable that held the script. It is a DEBUG trap: the
// first time it runs, before the eval of boot, the variable is still needed;
// the second time is before the script's first command.
const forget = `((__skerry[1]++==0)) || { \builtin unset __skerry; \builtin trap - DEBUG; }`

// prelude is what is sourced first: it takes script and text in, closes the
// files, so that no child inherits them, and arms the capture.
func prelude(nonce string, held [][2]string, text, traps bool) []byte {
	var b bytes.Buffer
	b.WriteString("exec 201<&-\nmapfile -d '' __skerry </proc/self/fd/200\nexec 200<&-\n")
	if text {
		b.WriteString("mapfile -d '' -O 1 __skerry </proc/self/fd/202\nexec 202<&-\n")
	}
	fmt.Fprintf(&b, "__skerry[2]=%s\n", quote(finish(held)))
	fmt.Fprintf(&b, "trap -- %s EXIT\n", quote(bareTrap(nonce)))
	if traps {
		b.WriteString(trapFunction(nonce))
	}
	return b.Bytes()
}

// finish comes after the state's own text, so everything goes through builtin,
// which is never restored as a function, and is quoted against aliases.
func finish(held [][2]string) string {
	s := "\\builtin unset BASH_EXECUTION_STRING\n__skerry[1]=0\n"
	posix := ""
	for _, v := range held {
		// A locale that the image lacks is told by bash when it starts. The
		// user was told when it was set, not with every command.
		line := "\\builtin export " + v[0] + "=" + quote(v[1]) + " 2>/dev/null\n"
		if v[0] == "POSIXLY_CORRECT" {
			posix = line
			continue
		}
		s += line
	}
	// POSIXLY_CORRECT is the last of all: it puts the shell in posix mode.
	return s + posix + "\\builtin trap -- " + quote(forget) + " DEBUG\n"
}

// capture is what writes the frame, the body twice. It may be entered in any
// mode a script can leave the shell in, so the first commands are such that
// nothing can stand in for them: assignments, and then, in posix mode, special
// builtins, which the shell finds before functions. Output of user code that
// still fires here (a DEBUG trap) lands before the frame, in the state file.
// It holds no single quote, so that it reads the same inside quoted text.
func capture(nonce string) string {
	const body = `\builtin pwd
\builtin printf "\0%s\0%s\0" "${__skerry[1]}" "${__skerry[2]}"
\builtin umask
\builtin printf "\0"
\builtin alias -p
\builtin printf "\0"
\builtin declare -f
\builtin printf "\0"
\builtin declare -f trap
\builtin printf "\0"
\builtin export -p
\builtin printf "\0"
`
	return `__skerry=("$?" "$BASHOPTS" "${POSIXLY_CORRECT+${POSIXLY_CORRECT@a}:$POSIXLY_CORRECT}")
POSIXLY_CORRECT=
\set +aefuvxET +o pipefail
\trap - DEBUG ERR RETURN
\trap "" XFSZ
\unset -f builtin
\unset POSIXLY_CORRECT
\builtin printf "\0skerry-begin %s\0" ` + nonce + "\n" + body + body + `\builtin printf "skerry-end %s\0" ` + nonce + "\n"
}

const captureTo = " 2>/dev/null >&250"

// bareTrap is the EXIT trap of a script that sets none. Under set -v bash
// echoes each line of a trap before it runs it, so that ends in the first.
func bareTrap(nonce string) string {
	return "{ \\set +vx; }" + captureTo + "\n{\n" + capture(nonce) + "}" + captureTo
}

// ahead is what stands before a script's own EXIT trap: the same in a
// subshell, so that the trap finds the shell as the script left it, with the
// same $?. An empty loop takes a status of 0 on without a trace, and as the
// left side of && a failing subshell does not end the trap under set -e.
func ahead(nonce string) string {
	return "(\n" + capture(nonce) + `\builtin exit "${__skerry[0]}"` + "\n)" + captureTo + " && for _ in; do \\:; done\n"
}

var trapWord = regexp.MustCompile(`\b(trap|source|eval)\b|(^|[\s;&|({])\\?\.[\s]`)

// mayTrap says whether shell text could set a trap, directly or through text
// it reads from elsewhere. Only then is the trap function defined, so that
// sessions without traps find no function that they did not define.
func mayTrap(texts ...[]byte) bool {
	for _, t := range texts {
		if trapWord.Match(t) {
			return true
		}
	}
	return false
}

// quote makes s one word of shell text.
func quote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
