//go:build linux

package main

import (
	"fmt"
	"os"
	"slices"

	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// architectures are those that sandboxes run on.
var architectures = []string{"amd64", "arm64"}

func fileName(goarch string) string { return "standard_" + goarch + ".bpf" }

// main writes the programs to the current folder.
func main() {
	for _, goarch := range architectures {
		program, err := Compile(standardProfile(goarch), goarch)
		if err == nil {
			err = os.WriteFile(fileName(goarch), program, 0o644)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "seccompgen:", err)
			os.Exit(1)
		}
	}
}

// standardProfile is the engines' default as it applies to goarch, to a process
// without capabilities and to any kernel that user namespaces work on. The
// library itself answers only for the machine that it runs on.
func standardProfile(goarch string) *specs.LinuxSeccomp {
	all := seccomp.DefaultProfile()
	out := &specs.LinuxSeccomp{DefaultAction: all.DefaultAction, DefaultErrnoRet: all.DefaultErrnoRet}
	for _, call := range all.Syscalls {
		if f := call.Includes; f != nil && (len(f.Caps) > 0 || len(f.Arches) > 0 && !slices.Contains(f.Arches, goarch)) {
			continue
		}
		if f := call.Excludes; f != nil && (slices.Contains(f.Arches, goarch) || f.MinKernel != nil) {
			continue
		}
		out.Syscalls = append(out.Syscalls, call.LinuxSyscall)
	}
	return out
}
