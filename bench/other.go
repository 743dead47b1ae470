//go:build !linux

// Command bench measures the local backend, which needs Linux.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "bench: the local backend needs Linux")
	os.Exit(1)
}
