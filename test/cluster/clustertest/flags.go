//go:build linux

package clustertest

import "flag"

// parse reads the flags of the test binary, which testing does only later.
func parse() {
	if !flag.Parsed() {
		flag.Parse()
	}
}
