#!/bin/sh
# Formatting, sizes, vet and staticcheck, on every system the code builds for.
# The first argument is staticcheck with its version; the second, the folder of
# another module of the repository, to look at instead of the main one.
set -eu
if [ -n "${2:-}" ]; then
	cd "$2"
	go vet ./...
	exec go run "$1" ./...
fi
unformatted=$(git ls-files '*.go' | grep -v '\.pb\.go$' | xargs gofmt -l)
[ -z "$unformatted" ] || { echo "lint: gofmt would change:" $unformatted >&2; exit 1; }
large=$(git ls-files -z -- . ':!go.sum' | xargs -0 sh -c 'find "$@" -prune -size +1048576c 2>/dev/null || true' sh)
[ -z "$large" ] || { echo "lint: larger than 1 MiB, is it a built program?" $large >&2; exit 1; }
for os in linux darwin windows; do
	GOOS=$os go vet ./...
done
go run "$1" ./...
