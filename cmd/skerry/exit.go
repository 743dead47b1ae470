package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"

	"github.com/skerry-run/skerry"
)

// Exit codes of our own. A program's own code is passed on as it is.
const (
	exitTimeout   = 124
	exitOurs      = 125 // everything that is Skerry's or the cluster's doing
	exitSignal    = 128 // plus the signal's number
	exitCancelled = 130
	exitOOM       = 137
)

const exitCodesHelp = `
Exit codes:
  the program's own, else
  124  timeout: a time limit ended it
  125  Skerry's doing: usage, refused, start_failed, evicted, lost
  130  cancelled
  137  oom: out of memory
  128+n  signal n ended it
  --json tells which it was, where a program's own code looks the same
`

// exitCode ends a command whose outcome has been told already.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// codeFor maps how a command ended to an exit code, in this one place.
func codeFor(r skerry.Result) int {
	switch r.Outcome {
	case skerry.Exited:
		if r.ExitCode != nil {
			return *r.ExitCode
		}
	case skerry.Signaled:
		if r.Signal > 0 && r.Signal < 128 {
			return exitSignal + r.Signal
		}
	case skerry.Timeout:
		return exitTimeout
	case skerry.OOM:
		return exitOOM
	case skerry.Cancelled:
		return exitCancelled
	}
	return exitOurs
}

// exitWith gives the error that ends a command with the code, nil for 0.
func exitWith(code int) error {
	if code == 0 {
		return nil
	}
	return exitCode(code)
}

// outcomeOfFailure is the outcome of an error that came before anything was
// asked of a backend: refused, unless the error says what it decides.
func outcomeOfFailure(err error) skerry.Outcome {
	if o := skerry.OutcomeOf(err); o != skerry.Lost {
		return o
	}
	switch skerry.KindOf(err) {
	case skerry.Invalid, skerry.Denied, skerry.NotFound, skerry.Conflict, skerry.Expired, skerry.Busy:
		return skerry.Refused
	}
	if _, ours := errors.AsType[*skerry.Error](err); !ours {
		return skerry.Refused // a flag or a file of the caller's
	}
	return skerry.Lost
}

func isBrokenPipe(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe)
}

// isSystemError says whether err is about a file or a call of the operating
// system, which no page of help would explain.
func isSystemError(err error) bool {
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return true
	}
	_, ok := errors.AsType[syscall.Errno](err)
	return ok
}
