//go:build linux

// Package seccompbpf has the system call filter of sandboxes: the profile that
// container engines use by default, for a process without capabilities,
// compiled to the program that Linux loads. It is compiled when the project is
// built, not when a sandbox starts.
package seccompbpf

import (
	"embed"
	"fmt"
	"runtime"
)

//go:generate go run ../seccompgen

//go:embed standard_*.bpf
var programs embed.FS

// Standard gives the program in the form that bwrap --seccomp reads: an array
// of struct sock_filter, little-endian as the machines that it is for.
func Standard() ([]byte, error) {
	p, err := programs.ReadFile("standard_" + runtime.GOARCH + ".bpf")
	if err != nil {
		return nil, fmt.Errorf("there is no system call filter for %s", runtime.GOARCH)
	}
	return p, nil
}
