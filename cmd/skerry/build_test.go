//go:build linux

package main

import (
	"os"
	"os/exec"
	"testing"

	"github.com/skerry-run/skerry/internal/testbuild"
)

// binaries builds skerry and skerry-init and gives the folder they are in.
func binaries(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Skip("bubblewrap is not installed")
	}
	dir, err := os.MkdirTemp("", "skerry-cli-") // not t.TempDir: the users that sandboxes run as must reach it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := testbuild.Programs(dir, "skerry", "skerry-init"); err != nil {
		t.Fatal(err)
	}
	return dir
}
