//go:build linux

// Package proof has the tests that a cluster must pass before any other test
// believes what it says: what should be refused is refused, what should work
// works, and each is seen both ways.
package proof

import (
	"testing"

	"github.com/skerry-run/skerry/test/cluster/clustertest"
)

func TestMain(m *testing.M) { clustertest.Main(m, "proof") }
