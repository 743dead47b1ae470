//go:build linux

package cluster

import (
	"fmt"
	"io"
	"time"
)

// A progress tells what is being done and how long it took so far.
type progress struct {
	out     io.Writer
	started time.Time
}

func newProgress(out io.Writer) progress {
	if out == nil {
		out = io.Discard
	}
	return progress{out: out, started: time.Now()}
}

func (p progress) printf(format string, args ...any) {
	fmt.Fprintf(p.out, "%5.1fs  %s\n", time.Since(p.started).Seconds(), fmt.Sprintf(format, args...))
}
