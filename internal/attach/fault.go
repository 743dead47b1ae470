package attach

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-run/skerry"
	pb "github.com/skerry-run/skerry/internal/initproto"
)

// Reasons of the Lost outcome, as they begin the text of the error.
const (
	reasonHostile     = "sandbox_hostile"
	reasonUnreachable = "unreachable"
)

// violationError is an answer that no init of ours would give.
type violationError struct{ text string }

func (e *violationError) Error() string { return e.text }

// violation makes the error for an answer of the init that can't be right.
func violation(op, format string, args ...any) *skerry.Error {
	e := skerry.Errorf(skerry.Internal, op, "the init broke the protocol: %w", &violationError{fmt.Sprintf(format, args...)})
	return e.WithOutcome(skerry.Lost).WithHint("delete the sandbox: what it says can't be trusted")
}

func isViolation(err error) bool {
	_, ok := errors.AsType[*violationError](err)
	return ok
}

// ownError carries an error that is not the stream's, the caller's for
// example, through a retry unchanged.
type ownError struct{ err error }

func (e *ownError) Error() string { return e.err.Error() }
func (e *ownError) Unwrap() error { return e.err }

// fromInit says whether err is the init's own word on a call, rather than the
// end of the stream.
func fromInit(err error) bool {
	st, ok := status.FromError(err)
	if !ok {
		return false
	}
	for _, d := range st.Details() {
		if _, ok := d.(*pb.ErrorDetail); ok {
			return true
		}
	}
	switch st.Code() {
	case codes.Unauthenticated, codes.Unimplemented, codes.InvalidArgument, codes.PermissionDenied,
		codes.NotFound, codes.AlreadyExists, codes.FailedPrecondition, codes.OutOfRange:
		return true
	}
	return false
}

// garbled says whether err is of a stream that still stands but carried what
// gRPC could not make sense of, a message above the limit for example.
func garbled(err error) bool {
	switch status.Code(err) {
	case codes.Internal, codes.ResourceExhausted, codes.Unknown, codes.DataLoss:
		return true
	}
	return false
}

// deadlineSlack is how much earlier than our own clock the init's, or gRPC's,
// may say that a call's deadline has passed.
const deadlineSlack = time.Second

// pastDeadline says whether err is the passing of ctx's deadline, seen by another
// clock first. The stream is fine then.
func pastDeadline(ctx context.Context, err error) bool {
	deadline, ok := ctx.Deadline()
	return ok && status.Code(err) == codes.DeadlineExceeded && time.Until(deadline) < deadlineSlack
}

// contextError is the error of a call whose own context ended.
func contextError(ctx context.Context, op string) error {
	return skerry.Errorf(skerry.Unavailable, op, "%w", context.Cause(ctx))
}

// clean makes text of the init's safe to show on one line.
func clean(s string, most int) string { return skerry.CleanText(s, most, "\t") }
