package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/skerry-run/skerry"
)

// jsonResultAnnotation marks commands whose --json is a skerry.Result, also
// for an error.
const jsonResultAnnotation = "skerry_json_result"

func wantsResult(cmd *cobra.Command) bool {
	if cmd == nil || cmd.Annotations[jsonResultAnnotation] == "" {
		return false
	}
	f := cmd.Flags().Lookup("json")
	return f != nil && f.Value.String() == "true"
}

func emptyResult() skerry.Result {
	return skerry.Result{
		Org: skerry.DefaultOrg, StdoutEncoding: skerry.EncodingUTF8, StderrEncoding: skerry.EncodingUTF8,
		Phases: map[string]int64{}, Files: []skerry.Artifact{}, Warnings: []string{},
	}
}

// finish tells how a command ended and gives the error that carries its exit
// code. broken says that stdout has gone: then there is nobody to tell.
func (a *app) finish(ctx context.Context, r skerry.Result, asJSON, broken bool) error {
	code := codeFor(r)
	if broken {
		return exitWith(exitCancelled)
	}
	if asJSON {
		if r.Hint == "" {
			r.Hint = hintFor(r)
		}
		if err := a.printJSON(r); err != nil && !isBrokenPipe(err) {
			return err
		}
		return exitWith(code)
	}
	for _, w := range r.Warnings {
		a.words.note(w)
	}
	if r.Recreated {
		a.words.note("the session had been lost and was made anew before this command")
	}
	if r.Outcome != skerry.Exited {
		hint := r.Hint
		if hint == "" {
			hint = hintFor(r)
		}
		a.words.fail(outcomeLine(r), hint)
	}
	return exitWith(code)
}

// outcomeLine says in one line how a command ended that did not exit.
func outcomeLine(r skerry.Result) string {
	what := string(r.Outcome)
	switch r.Outcome {
	case skerry.OOM:
		what = "out of memory"
	case skerry.StartFailed:
		what = "could not start"
	case skerry.Signaled:
		what = fmt.Sprintf("ended by signal %d (%s)", r.Signal, signalName(r.Signal))
	case skerry.Lost:
		what = "lost: how the program ended is not known"
	}
	if r.Reason == "" {
		return what
	}
	return what + ": " + r.Reason
}

// Signals by which Linux tells of a limit.
const (
	signalFileSize   = 25 // SIGXFSZ
	signalSystemCall = 31 // SIGSYS
)

func hintFor(r skerry.Result) string {
	switch r.Outcome {
	case skerry.Timeout:
		if r.Session != "" && r.Limit == skerry.TTLLimit {
			return "make the session with a longer --ttl, or prolong it in time with skerry session extend"
		}
		return "raise it with --timeout"
	case skerry.OOM:
		if r.Session != "" {
			return "make a session with more: skerry session create --memory"
		}
		return "raise it with --memory"
	case skerry.Evicted:
		return "write less, or raise the limit with --workspace"
	case skerry.Signaled:
		switch r.Signal {
		case signalFileSize:
			return "write smaller files, or raise the limit with --workspace"
		case signalSystemCall:
			return "sandboxes deny some system calls, see docs/security.md; else the program sent the signal itself"
		}
		return "the signal came from the program itself or from somebody who sent one, not from a limit"
	case skerry.StartFailed, skerry.Lost:
		return "see skerry doctor"
	}
	return ""
}
