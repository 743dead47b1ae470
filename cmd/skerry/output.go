package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/skerry-run/skerry"
)

// output is where a program's streams go: exact bytes to a file or a pipe,
// harmless ones to a terminal.
type output struct {
	app            *app
	stdout, stderr io.Writer
	onScreen       bool // stdout is a terminal
	closers        []io.Closer
	gaps           int
	untold         int64 // bytes that are missing and were not told of yet
}

// maxGapNotes bounds how many gaps are told where they are. A host whose disk
// is full makes one after the other.
const maxGapNotes = 10

// newOutput gives the output of one command. raw passes everything to a
// terminal as it is.
func (a *app) newOutput(raw bool) *output {
	o := &output{app: a, stdout: a.stdout, stderr: a.words, onScreen: a.isTerminal(a.stdout)}
	if raw {
		return o
	}
	if o.onScreen {
		n := &neutral{w: a.stdout}
		o.stdout, o.closers = n, append(o.closers, n)
	}
	if a.words.terminal {
		n := &neutral{w: a.words}
		o.stderr, o.closers = n, append(o.closers, n)
	}
	return o
}

// write is a sink for skerry.RunSpec.Output.
func (o *output) write(c skerry.Chunk) error {
	if c.Omitted > 0 {
		o.gaps++
	}
	if c.Omitted > 0 && o.gaps > maxGapNotes {
		o.untold += c.Omitted
	} else if c.Omitted > 0 {
		o.app.words.note(fmt.Sprintf("%d bytes of %s are missing here: they were dropped before they could be read", c.Omitted, c.Stream))
	}
	w := o.stdout
	if c.Stream == skerry.Stderr {
		w = o.stderr
	}
	o.app.words.endStatus()
	_, err := w.Write(c.Data)
	if n := len(c.Data); c.Stream != skerry.Stderr && n > 0 && o.onScreen {
		o.app.words.printed(c.Data[n-1])
	}
	return err
}

// close writes what was held back, and tells of what is missing. A terminal
// that has gone is no error here.
func (o *output) close() {
	if o.untold > 0 {
		o.app.words.note(fmt.Sprintf("%d more bytes are missing, in %d other places", o.untold, o.gaps-maxGapNotes))
		o.untold = 0
	}
	for _, c := range o.closers {
		_ = c.Close()
	}
}

// printJSON writes one JSON value and a newline to stdout.
func (a *app) printJSON(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	_, err = a.stdout.Write(append(data, '\n'))
	return err
}
