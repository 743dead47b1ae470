//go:build linux

package parts

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestLongBuildIsNeverSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		p := newProgress(&log)
		slow, other := p.job("slow"), p.job("other")
		slow.begin(goTool{version: "go1.26"})
		time.Sleep(heartbeat + time.Second)
		slow.heard("example.com/a")
		slow.heard("example.com/b")
		other.wait()
		time.Sleep(2*heartbeat + time.Second)
		other.end()
		slow.heard("go: downloading example.com/c v1.0.0")
		time.Sleep(heartbeat)
		slow.built()
		slow.end()
		time.Sleep(heartbeat)
		p.stop()

		got := strings.Split(strings.TrimSuffix(log.String(), "\n"), "\n")
		want := []string{
			"parts: slow: build it with go1.26 for ",
			"parts: still at it: slow (15 s)",
			"parts: other: another process is building it, wait for that",
			"parts: still at it: slow (30 s, 2 packages, example.com/b), other (wait for another process, 14 s)",
			"parts: still at it: slow (45 s, 2 packages, example.com/b), other (wait for another process, 29 s)",
			"parts: still at it: slow (60 s, 2 packages, downloading example.com/c v1.0.0)",
			"parts: slow: built in 62 s",
		}
		if len(got) != len(want) {
			t.Fatalf("the log has %d lines, want %d:\n%s", len(got), len(want), log.String())
		}
		for i := range want {
			if !strings.HasPrefix(got[i], want[i]) {
				t.Errorf("line %d: %q, want %q", i, got[i], want[i])
			}
		}
	})
}

// What the go command writes comes in pieces that are not lines.
func TestOutputIsSortedLineByLine(t *testing.T) {
	var o output
	o.job = newProgress(nil).job("any")
	for _, piece := range []string{"example.com/", "a\n# example.com/b\nb.go:1:1: un", "defined: x\n", "go: downloading example.com/c v1\n", "no end"} {
		if n, err := o.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatalf("write %q: %d, %v", piece, n, err)
		}
	}
	got := strings.Join(o.complaints(), "|")
	if want := "# example.com/b|b.go:1:1: undefined: x|no end"; got != want {
		t.Errorf("complaints: %q, want %q", got, want)
	}
	if o.job.packages != 1 || o.job.last != "downloading example.com/c v1" {
		t.Errorf("progress: %d packages, last %q", o.job.packages, o.job.last)
	}
}

func TestEndlessOutputIsBounded(t *testing.T) {
	var o output
	o.job = newProgress(nil).job("any")
	for range 1000 {
		o.Write([]byte(strings.Repeat("long line ", 1000)))
	}
	for range 1000 {
		o.Write([]byte(" \na complaint\n"))
	}
	if len(o.part) > complaintBytes || len(o.complaints()) != complaintLines {
		t.Errorf("kept %d bytes and %d lines, want at most %d and %d", len(o.part), len(o.lines), complaintBytes, complaintLines)
	}
}

// A build may end before the heartbeat has begun.
func TestStopRightAfterTheBegin(t *testing.T) {
	for range 1000 {
		p := newProgress(nil)
		p.job("short").begin(goTool{version: "go1.26"})
		p.stop()
	}
}
