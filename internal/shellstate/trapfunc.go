package shellstate

import "strings"

// trapMark is in the text of our trap function and in no other.
const trapMark = "__skerry_trap_of_the_session"

// trapFunction is a trap that keeps the capture where a script sets, resets or
// lists the EXIT trap. Subshells have no capture: there it is the builtin.
//
// A function can't reset ERR, DEBUG and RETURN for its caller (the shell
// restores them when it returns), so for these three it sets traps that remove
// themselves when they first run. For the same reason a plain `trap -p` shows
// them only in a subshell, as in $(trap -p ERR). DEBUG is set by the very last
// command, or it would run for the rest of this function. Errors are worded
// here, because the builtin's would name the prelude's file.
func trapFunction(nonce string) string {
	return strings.NewReplacer(
		"@BARE@", quote(bareTrap(nonce)),
		"@LISTED@", quote("trap -- '"+bareTrap(nonce)+"' EXIT"),
		"@AHEAD@", quote(ahead(nonce)),
	).Replace(`trap () {
{ builtin local - && builtin set +efuvx; } 2>/dev/null
builtin local ` + trapMark + ` __skerry_a __skerry_s __skerry_r=0 __skerry_o __skerry_d
case ${1-} in
'' | -[!-]*)
  if [[ $# -eq 0 || $1 != '' && $1 != - ]]; then
    __skerry_o=$(builtin trap "$@" 2>/dev/null) || {
      __skerry_r=$?
      builtin printf 'bash: line %s: trap: invalid signal or option: %s\n' "${BASH_LINENO[0]}" "$*" >&2
    }
    __skerry_s=@LISTED@; __skerry_o=${__skerry_o/"$__skerry_s"}
    __skerry_s=@AHEAD@; __skerry_o=${__skerry_o/"$__skerry_s"}
    __skerry_o=${__skerry_o#$'\n'}
    [[ $__skerry_o ]] && builtin printf '%s\n' "$__skerry_o"
    builtin return "$__skerry_r"
  fi ;;
--)
  builtin shift
  [[ $# -gt 0 ]] || { trap; builtin return; } ;;
esac
if [[ $# -lt 2 || $1 && $1 != *[!0-9]* ]]; then
  __skerry_a=-
else
  __skerry_a=$1; builtin shift
fi
for __skerry_s; do
  case $__skerry_s in
  0 | [Ee][Xx][Ii][Tt] | [Ss][Ii][Gg][Ee][Xx][Ii][Tt])
    if [[ $BASHPID != "$$" ]]; then builtin trap -- "$__skerry_a" EXIT
    elif [[ $__skerry_a == - || $__skerry_a == '' ]]; then builtin trap -- @BARE@ EXIT
    else builtin trap -- @AHEAD@"$__skerry_a" EXIT
    fi ;;
  [Dd][Ee][Bb][Uu][Gg]) __skerry_d=1 ;;
  [Ee][Rr][Rr])
    if [[ $__skerry_a == - ]]; then builtin trap -- 'builtin trap - ERR' ERR
    else builtin trap -- "$__skerry_a" ERR
    fi ;;
  [Rr][Ee][Tt][Uu][Rr][Nn])
    if [[ $__skerry_a == - ]]; then builtin trap -- 'builtin trap - RETURN' RETURN
    else builtin trap -- "builtin trap -- ${__skerry_a@Q} RETURN" RETURN
    fi ;;
  *)
    builtin trap -- "$__skerry_a" "$__skerry_s" 2>/dev/null || {
      __skerry_r=$?
      builtin printf 'bash: line %s: trap: %s: invalid signal specification\n' "${BASH_LINENO[0]}" "$__skerry_s" >&2
    } ;;
  esac
done
[[ $__skerry_d ]] || builtin return "$__skerry_r"
[[ $__skerry_a != - ]] || __skerry_a='builtin trap - DEBUG'
builtin trap -- "$__skerry_a" DEBUG
}
`)
}
