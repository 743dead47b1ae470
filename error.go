package skerry

import (
	"errors"
	"fmt"
	"strings"
)

// Kind says what a caller can do about an error. Each surface maps it in one
// place: HTTP status, MCP text, exit code.
type Kind string

const (
	Internal    Kind = "internal"    // a defect of ours, or an answer that makes no sense
	Invalid     Kind = "invalid"     // the request can never work as it is
	Denied      Kind = "denied"      // policy, permission or an enforcement that is missing
	NotFound    Kind = "not_found"   // there is no such thing
	Conflict    Kind = "conflict"    // the name or id is taken by something else
	Busy        Kind = "busy"        // a limit or queue is full; the same call may work later
	Unavailable Kind = "unavailable" // the backend or the sandbox can't be reached
	Expired     Kind = "expired"     // it existed and is past its time
)

// Error is the one error type of Skerry: the operation, what a caller can do
// about it, the cause, and for people a remedy.
type Error struct {
	Op   string // what was tried, for example "create sandbox"
	Kind Kind   // the zero value counts as Internal
	Err  error  // the cause; never nil in an error of ours
	Hint string // the likely fix, one sentence; may be empty

	// Outcome is set when the error decides how a command ended without user
	// code having started: Refused or StartFailed. It is Lost when user code
	// may have run and its end can't be learnt. Empty otherwise.
	Outcome Outcome

	// Ended is how the command of a run had ended that is Expired, where the
	// backend remembers it; else nil.
	Ended *Exit
}

// Error gives "op: cause".
func (e *Error) Error() string {
	if e.Err == nil { // not one of ours, but printing an error must not end a program
		return strings.TrimPrefix(e.Op+": "+string(e.Kind), ": ")
	}
	if e.Op == "" {
		return e.Err.Error()
	}
	return e.Op + ": " + e.Err.Error()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an Error whose cause is the formatted text; %w works as in
// fmt.Errorf.
func Errorf(kind Kind, op, format string, args ...any) *Error {
	return &Error{Op: op, Kind: kind, Err: fmt.Errorf(format, args...)}
}

// WithHint adds the remedy and gives e back.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// WithOutcome adds the outcome that the error decides and gives e back.
func (e *Error) WithOutcome(o Outcome) *Error {
	e.Outcome = o
	return e
}

// KindOf gives the kind of the first Error in err's chain, Internal when there
// is none, and "" for nil.
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok && e.Kind != "" {
		return e.Kind
	}
	return Internal
}

// HintOf gives the first remedy in err's chain, or "".
func HintOf(err error) string {
	for err != nil {
		e, ok := errors.AsType[*Error](err)
		if !ok {
			return ""
		}
		if e.Hint != "" {
			return e.Hint
		}
		err = e.Err
	}
	return ""
}

// OutcomeOf gives the outcome that err decides for a command, and Lost for any
// other error: unknown is never success.
func OutcomeOf(err error) Outcome {
	for err != nil {
		e, ok := errors.AsType[*Error](err)
		if !ok {
			break
		}
		if e.Outcome != "" {
			return e.Outcome
		}
		err = e.Err
	}
	return Lost
}

// EndedOf gives how a run had ended, when err says that it is over and
// remembers it; else nil.
func EndedOf(err error) *Exit {
	for err != nil {
		e, ok := errors.AsType[*Error](err)
		if !ok {
			return nil
		}
		if e.Ended != nil {
			return e.Ended
		}
		err = e.Err
	}
	return nil
}
