// Package testbuild builds the project's own programs, for tests that run them.
package testbuild

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Programs builds programs, as they are shipped, into the folder dir; names are
// those of folders below cmd. Every user may run them.
func Programs(dir string, names ...string) error {
	args := []string{"build", "-trimpath", "-ldflags=-s -w", "-o", dir + string(filepath.Separator)}
	for _, n := range names {
		args = append(args, "github.com/skerry-run/skerry/cmd/"+n)
	}
	build := exec.Command("go", args...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %v: %w\n%s", names, err, out)
	}
	for _, n := range names {
		if err := os.Chmod(filepath.Join(dir, n), 0o755); err != nil {
			return err
		}
	}
	return nil
}
