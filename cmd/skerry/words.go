package main

import (
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/skerry-run/skerry"
)

// words is stderr: our own lines, and what a program writes there. Our lines
// always begin at the start of a line.
type words struct {
	mu       sync.Mutex
	w        io.Writer
	terminal bool
	midLine  bool // the last byte was not a newline
	status   bool // a progress line stands there and has to go first
}

func newWords(w io.Writer, terminal bool) *words { return &words{w: w, terminal: terminal} }

// Write passes bytes on as they are.
func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clearStatus()
	n, err := w.w.Write(p)
	if n > 0 {
		w.midLine = p[n-1] != '\n'
	}
	return n, err
}

// printed notes the last byte of what went to stdout, where that is the same
// terminal.
func (w *words) printed(last byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.midLine = last != '\n'
}

// fail tells an error and its likely fix.
func (w *words) fail(message, hint string) {
	w.say("error", message)
	if hint != "" {
		w.say("hint", hint)
	}
}

// note tells what the caller should know.
func (w *words) note(message string) { w.say("note", message) }

func (w *words) say(kind, message string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clearStatus()
	if w.midLine {
		fmt.Fprintln(w.w)
		w.midLine = false
	}
	fmt.Fprintf(w.w, "skerry: %s: %s\n", kind, oneLine(message))
}

// setStatus shows a line that the next output replaces; only on a terminal.
func (w *words) setStatus(message string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.terminal || w.midLine {
		return
	}
	fmt.Fprintf(w.w, "\r\x1b[Kskerry: %s", oneLine(message))
	w.status = true
}

func (w *words) endStatus() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clearStatus()
}

func (w *words) clearStatus() {
	if w.status {
		io.WriteString(w.w, "\r\x1b[K")
		w.status = false
	}
}

// oneLine makes a message safe to print: causes may hold text that came out of
// a sandbox.
func oneLine(s string) string {
	const most = 4096
	return skerry.CleanText(strings.NewReplacer("\n", " ", "\r", " ", "\t", " ").Replace(s), most, "")
}
