#!/bin/sh
# A real Python program, with an input file and an artifact, in a real sandbox.
set -eu
cd "$(dirname "$0")/.."
out=$(mktemp -d)

# show prints a command as one would type it, and runs it.
show() {
	printf '\n$'
	for word; do
		case $word in
		*[!A-Za-z0-9_./=-]*) printf " '%s'" "$word" ;;
		*) printf ' %s' "$word" ;;
		esac
	done
	printf '\n'
	"$@"
}
PATH="$PWD/bin:$PATH"

show skerry run -f examples/plot/temperatures.csv -o "$out" examples/plot/plot.py
show ls -l "$out"
show skerry run -l bash -c ': </dev/tcp/1.1.1.1/443' || echo "(exit $?: the network is denied)"
show skerry run --timeout 1s -l bash -c 'echo begun; sleep 60' || echo "(exit $?: the limit)"
show skerry session create demo
trap 'skerry session rm demo >/dev/null 2>&1' EXIT
show skerry session exec demo -- 'mkdir -p work && cd work && export GREETING="hello from a session"'
# The sandbox expands these, not this shell.
# shellcheck disable=SC2016
show skerry session exec demo -- 'pwd; echo "$GREETING"'
show skerry session rm demo
trap - EXIT
printf '\nThe plot is %s/plot.png\n' "$out"
