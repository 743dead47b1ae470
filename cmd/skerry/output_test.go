package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/skerry-run/skerry"
)

// Gaps are told where they are, and a stream full of them does not bury what
// was read: all are counted.
func TestManyGapsAreAFewLines(t *testing.T) {
	for _, gaps := range []int{1, maxGapNotes, 1000} {
		var stdout, stderr bytes.Buffer
		a := &app{stdout: &stdout, words: newWords(&stderr, false), isTerminal: func(any) bool { return false }}
		o := a.newOutput(false)
		for range gaps {
			if err := o.write(skerry.Chunk{Stream: skerry.Stdout, Omitted: 7, Data: []byte("x")}); err != nil {
				t.Fatal(err)
			}
		}
		o.close()
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		want := gaps
		if gaps > maxGapNotes {
			want = maxGapNotes + 1
			if last := lines[len(lines)-1]; !strings.Contains(last, fmt.Sprintf("%d more bytes", 7*(gaps-maxGapNotes))) {
				t.Errorf("%d gaps: the last line is %q", gaps, last)
			}
		}
		if len(lines) != want || stdout.Len() != gaps {
			t.Errorf("%d gaps: %d lines, want %d; %d bytes of output", gaps, len(lines), want, stdout.Len())
		}
	}
}
