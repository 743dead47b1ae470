//go:build linux

package shellstate

import (
	"os/exec"
	"testing"
)

// BenchmarkShell compares a script through the wrapper, state kept, with bare
// bash; the tests' own pipes and files are in both.
func BenchmarkShell(b *testing.B) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		b.Skip("no bash")
	}
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command(bash, "-c", "true").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("kept", func(b *testing.B) {
		s := newSession(b)
		s.run("export A=1; f() { echo hi; }; alias x=y")
		for b.Loop() {
			if r := s.run("true"); r.captured != nil {
				b.Fatal(r)
			}
		}
	})
}
