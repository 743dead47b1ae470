//go:build linux

package initd

import (
	"os/exec"
	"testing"
)

func BenchmarkArgvTrue(b *testing.B) {
	box := newBox(b, Config{Session: true})
	for b.Loop() {
		wantExit(b, box.run(argv("true")), 0)
	}
}

func BenchmarkScriptTrue(b *testing.B) {
	box := newBox(b, Config{Session: true})
	for b.Loop() {
		wantExit(b, box.run(script("true")), 0)
	}
}

func BenchmarkOutput(b *testing.B) {
	const total = 500 << 20
	box := newBox(b, Config{})
	b.SetBytes(total)
	for b.Loop() {
		r := argv("head", "-c", "524288000", "/dev/zero")
		box.start(r)
		if n, exit := box.drain(r.Id); n != total || exit.Outcome != "exited" {
			b.Fatalf("%d bytes, %v", n, exit)
		}
	}
}

// BenchmarkBareTrue is what the others are compared with.
func BenchmarkBareTrue(b *testing.B) {
	for b.Loop() {
		if err := exec.Command("true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}
