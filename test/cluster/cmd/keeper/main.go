//go:build linux

// Command keeper is the first process of a cluster's namespaces. Package
// cluster builds it and starts it; it is not for use by hand.
package main

import (
	"os"

	"github.com/skerry-run/skerry/test/cluster/keeper"
)

func main() { keeper.Main(os.Args[1:]) }
