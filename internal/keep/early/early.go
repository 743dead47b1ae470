//go:build linux

// Package early is imported for its effect: a process that was started as a
// keeper is one before the packages that a keeper does not need have been
// initialised. gRPC and protobuf alone take longer than all the rest of its
// start.
//
// A Go program initialises its packages in the order of their paths, each after
// those that it imports. So this one comes before google.golang.org/..., if
// nothing that it imports comes later. Only how long a start takes depends on
// that.
package early

import (
	"os"

	"github.com/skerry-run/skerry/internal/keep"
)

func init() {
	if len(os.Args) > 1 && os.Args[1] == keep.Command {
		os.Exit(keep.Main(os.Args[2:]))
	}
}
