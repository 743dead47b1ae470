//go:build linux

package seccompbpf

import (
	"runtime"

	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// Standard compiles the profile that container engines use by default, for a
// process without capabilities on this machine's kernel and architecture.
func Standard() ([]byte, error) {
	none := &specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{}}}
	profile, err := seccomp.GetDefaultProfile(none)
	if err != nil {
		return nil, err
	}
	return Compile(profile, runtime.GOARCH)
}
