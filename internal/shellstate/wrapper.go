package shellstate

import (
	"bytes"
	"fmt"
	"strings"
)

// boot is all of the wrapper that stands in argv: the prelude, then the state's
// text, the finish and the script, each evaluated at top level. Not inside the
// sourced prelude, because messages name the file that is being sourced. Of a
// restored function the shell would find `eval` first, so after the text it is
// called through builtin. A shell that can't read the prelude must not end
// with 0: nothing ran. The last word gives nothing; its index, evaluated after
// the word with the script, takes the text out of the variable, so that no
// subshell carries a copy.
const boot = `. /proc/self/fd/201||exit 126;eval "${__skerry[1]}";builtin eval "${__skerry[2]}";builtin eval -- "${__skerry[0]}" ${__skerry[__skerry[0]=__skerry[2]=9]}`

// forget removes the variable that held the script. It is a DEBUG trap: the
// first time it runs, before the eval of boot, the variable is still needed;
// the second time is before the script's first command. (A subshell that is the
// first command still sees its name.)
const forget = `((__skerry[1]++==0)) || { \builtin unset __skerry; \builtin trap - DEBUG; }`

// refuse ends a shell that could not take the script in.
const refuse = "{ echo 'bash: the script could not be read, nothing ran: a session needs bash 4.4 or later and /proc' >&2; exit 126; }"

// prelude is what is sourced first: it takes script and text in, closes the
// files, so that no child inherits them, and arms the capture.
func prelude(nonce string, held [][2]string, text, traps bool) []byte {
	var b bytes.Buffer
	b.WriteString("exec 201<&-\nmapfile -d '' __skerry </proc/self/fd/200 || " + refuse + "\nexec 200<&-\n")
	if text {
		b.WriteString("mapfile -d '' -O 1 __skerry </proc/self/fd/202 || " + refuse + "\nexec 202<&-\n")
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
		if strings.HasPrefix(v[0], "POSIX") {
			posix += line
			continue
		}
		s += line
	}
	// The last of all are those that put the shell in posix mode.
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
\builtin export -n ` + strings.Join(shellOwn, " ") + "\n" + leaveFunctions + `\builtin printf "\0skerry-begin %s\0" ` + nonce + "\n" + body + body + `\builtin printf "skerry-end %s\0" ` + nonce + "\n"
}

// leaveFunctions takes away the local variables of the functions in which a
// script ended, so that the frame holds the session's: `main() { local PATH=…;
// exit; }`. A global is told by an attribute that only it gets; what hides it
// is unset from inside one more function, which brings out the next one.
var leaveFunctions = func() string {
	var names strings.Builder
	for _, c := range "_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" {
		fmt.Fprintf(&names, ` "${!%c@}"`, c)
	}
	return `\builtin test "${#FUNCNAME[@]}" -gt 0 && {
__skerry_g () {
\builtin declare -gt "$1"
__skerry[3]=0
while [[ ${!1@a} != *t* && $((__skerry[3]++)) -lt 100 ]] && \builtin declare -p "$1" >/dev/null; do \builtin unset -v "$1" || \builtin return; done
}
for __skerry_n in` + names.String() + `; do [[ $__skerry_n == __skerry* ]] || __skerry_g "$__skerry_n"; done
\builtin unset -f __skerry_g
}
`
}()

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

// mayTrap says whether shell text could set a trap, directly or through text
// it reads from elsewhere. Only then is the trap function defined, so that
// sessions without traps find no function that they did not define. A word
// too many costs nothing but that; a script that hides the word from us, and
// sets an EXIT trap, keeps the state that was there before it.
func mayTrap(texts ...[]byte) bool {
	for _, t := range texts {
		for _, word := range []string{"trap", "source", "eval", "."} {
			if hasWord(t, word) {
				return true
			}
		}
	}
	return false
}

// hasWord says whether word stands in text with nothing before or behind it
// that would make it part of a longer one; a dot must have blanks behind it.
func hasWord(text []byte, word string) bool {
	for from := 0; ; {
		i := bytes.Index(text[from:], []byte(word))
		if i < 0 {
			return false
		}
		i += from
		from = i + len(word)
		before := i == 0 || !isWordByte(text[i-1])
		behind := from == len(text) || !isWordByte(text[from])
		if word == "." {
			before = i == 0 || strings.IndexByte(" \t\n;&|({!\\`'\"", text[i-1]) >= 0
			behind = from < len(text) && (text[from] == ' ' || text[from] == '\t')
		}
		if before && behind {
			return true
		}
	}
}

func isWordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// quote makes s one word of shell text.
func quote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
