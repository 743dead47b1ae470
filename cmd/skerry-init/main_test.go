//go:build linux

package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestUnknownArgumentsGiveUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"nonsense"}, {"--help"}} {
		var stderr bytes.Buffer
		if code := run(args, &stderr); code != exitUsage || !strings.HasPrefix(stderr.String(), "usage:") {
			t.Errorf("%q gave %d and %q", args, code, stderr.String())
		}
	}
}

func TestServeRefusesToBeStartedByHand(t *testing.T) {
	var stderr bytes.Buffer
	if code := run([]string{"connect"}, &stderr); code != exitUsage || !strings.Contains(stderr.String(), "skerry-init: error:") {
		t.Errorf("connect without a name gave %d and %q", code, stderr.String())
	}
}

// A keeper is started for every command; what it does not need would take most
// of that time.
func TestAKeeperInitialisesNothingThatItDoesNotNeed(t *testing.T) {
	cmd := exec.Command(os.Args[0], "keep", "0", "0", "0") // this test is the program, too
	cmd.Env = []string{"GODEBUG=inittrace=1"}
	out, _ := cmd.CombinedOutput() // it ends at once: descriptor 3 is no line to an init
	if !strings.Contains(string(out), "init github.com/skerry-run/skerry/internal/keep ") {
		t.Fatalf("it has initialised no keeper:\n%s", out)
	}
	for _, heavy := range []string{"google.golang.org/grpc ", "google.golang.org/protobuf/internal/impl ", "github.com/skerry-run/skerry/internal/initproto ", "net ", "github.com/skerry-run/skerry/internal/keep/early "} {
		if strings.Contains(string(out), "init "+heavy) {
			t.Errorf("it has initialised %s", heavy)
		}
	}
}
