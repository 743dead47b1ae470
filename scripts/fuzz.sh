#!/bin/sh
# Runs every fuzz target for the time given, one after another.
set -eu
git grep -hoE '^func Fuzz[A-Za-z0-9_]+' -- '*_test.go' >/dev/null || { echo "fuzz: there is no fuzz target" >&2; exit 1; }
git grep -lE '^func Fuzz' -- '*_test.go' | while read -r file; do
	for target in $(grep -oE '^func Fuzz[A-Za-z0-9_]+' "$file" | cut -d' ' -f2); do
		echo "fuzz: $target in $(dirname "$file") for $1" >&2
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$1" -fuzzminimizetime 100x "./$(dirname "$file")"
	done
done
