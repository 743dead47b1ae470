package initproto

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-run/skerry"
)

// maxErrorText bounds the text of an error in either direction.
const maxErrorText = 4 << 10

var codeOf = map[skerry.Kind]codes.Code{
	skerry.Internal:    codes.Internal,
	skerry.Invalid:     codes.InvalidArgument,
	skerry.Denied:      codes.PermissionDenied,
	skerry.NotFound:    codes.NotFound,
	skerry.Conflict:    codes.AlreadyExists,
	skerry.Busy:        codes.ResourceExhausted,
	skerry.Unavailable: codes.FailedPrecondition, // not codes.Unavailable: that is the stream's own, and is retried
	skerry.Expired:     codes.OutOfRange,
}

// ToStatus makes the status error that carries err over the stream. A context
// error keeps its own code, one that is a status already stays as it is; nil is
// nil.
func ToStatus(err error) error {
	if _, ok := err.(interface{ GRPCStatus() *status.Status }); ok {
		return err
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, "cancelled")
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, "deadline exceeded")
	}
	detail := &ErrorDetail{Kind: string(skerry.KindOf(err)), Hint: clean(skerry.HintOf(err))}
	if o := skerry.OutcomeOf(err); o != skerry.Lost {
		detail.Outcome = string(o)
	}
	code, known := codeOf[skerry.KindOf(err)]
	if !known { // the zero value would be OK, and the error none
		code = codes.Internal
	}
	st := status.New(code, clean(err.Error()))
	if with, err := st.WithDetails(detail); err == nil {
		st = with
	}
	return st.Err()
}

// FromStatus gives the error that ToStatus was given, with op as its
// operation. What the sandbox sent is bounded and cleaned, and words that are
// not ours count as Internal. An error of the stream itself is Unavailable.
func FromStatus(op string, err error) error {
	if err == nil {
		return nil
	}
	st, ok := status.FromError(err)
	if !ok {
		return skerry.Errorf(skerry.Unavailable, op, "%w", err)
	}
	// Both ends name the operation, often with the same word.
	text := strings.TrimPrefix(clean(st.Message()), op+": ")
	for _, d := range st.Details() {
		detail, ok := d.(*ErrorDetail)
		if !ok {
			continue
		}
		e := skerry.Errorf(skerry.Kind(detail.Kind), op, "%s", text)
		if _, known := codeOf[e.Kind]; !known {
			e.Kind = skerry.Internal
		}
		e.Hint = clean(detail.Hint)
		if o := skerry.Outcome(detail.Outcome); o == skerry.StartFailed || o == skerry.Refused {
			e.Outcome = o
		}
		return e
	}
	switch st.Code() {
	case codes.Canceled:
		return skerry.Errorf(skerry.Unavailable, op, "%w", context.Canceled)
	case codes.DeadlineExceeded:
		return skerry.Errorf(skerry.Unavailable, op, "%w", context.DeadlineExceeded)
	case codes.Unauthenticated:
		return skerry.Errorf(skerry.Denied, op, "%s", text)
	case codes.Unavailable:
		return skerry.Errorf(skerry.Unavailable, op, "%s", text)
	}
	return skerry.Errorf(skerry.Internal, op, "%s: %s", strings.ToLower(st.Code().String()), text)
}

// clean makes text safe to show, on as many lines as it has.
func clean(s string) string { return skerry.CleanText(s, maxErrorText, "\t\n") }
