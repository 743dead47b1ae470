//go:build linux

package initd

import "testing"

func TestAProgramRunsAndItsOutputAndExitArrive(t *testing.T) {
	b := newBox(t, Config{})
	r := b.run(sh("echo out; echo err >&2; exit 3"))
	wantExit(t, r, 3)
	if r.stdout != "out\n" || r.stderr != "err\n" {
		t.Errorf("got %v", r)
	}
}
