//go:build linux

package initd

import (
	"testing"

	pb "github.com/skerry-run/skerry/internal/initproto"
)

// script makes a request for the session's shell.
func script(text string) *pb.StartRequest {
	return &pb.StartRequest{Id: newID(), Script: []byte(text), GraceMs: 300}
}

// wantOut runs a script and checks its code and its output.
func wantOut(t *testing.T, b *box, text string, code int32, stdout string) result {
	t.Helper()
	r := b.run(script(text))
	if r.exit.Outcome != "exited" || r.exit.ExitCode != code || r.stdout != stdout {
		t.Fatalf("%q gave %v, want %d with %q", text, r, code, stdout)
	}
	return r
}

func TestTheStateOfTheShellPersistsInASession(t *testing.T) {
	b := newBox(t, Config{Session: true})
	wantOut(t, b, "mkdir -p d; cd d; export A='x y'; f() { echo \"f:$1\"; }; umask 027; shopt -s nullglob", 0, "")
	wantOut(t, b, "pwd; echo \"$A\"; f 1; umask; echo *.none", 0, "/workspace/d\nx y\nf:1\n0027\n\n")
	wantOut(t, b, "cd / && false", 1, "") // B025
	wantOut(t, b, "pwd", 0, "/\n")
	wantOut(t, b, "exit 9", 9, "") // B019
	wantOut(t, b, "exec true", 0, "")
	wantOut(t, b, "set -euo pipefail; true", 0, "") // B020, B021
	wantOut(t, b, "false; echo $NOPE ok", 0, "ok\n")
	r := b.run(argv("sh", "-c", "pwd; echo \"$A\""))
	if r.stdout != "/\nx y\n" {
		t.Errorf("a program by argv gave %v, want the session's folder and variables", r)
	}
	// B017, B030, B031
	wantOut(t, b, "cat > /workspace/h <<'EOF'\nhi\nEOF", 0, "")
	wantOut(t, b, "cat /workspace/h", 0, "hi\n")
	if r := b.run(script("echo \"abc")); r.exit.ExitCode != 2 {
		t.Errorf("an open quote gave %v, want 2", r)
	}
	wantOut(t, b, "echo alive", 0, "alive\n")
}
