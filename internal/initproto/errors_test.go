package initproto

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/skerry-run/skerry"
)

func TestErrorsKeepKindHintAndOutcome(t *testing.T) {
	for kind := range codeOf {
		in := skerry.Errorf(kind, "start", "no %s", "python3").WithHint("install it").WithOutcome(skerry.StartFailed)
		out := FromStatus("start command", ToStatus(in))
		if skerry.KindOf(out) != kind || skerry.HintOf(out) != "install it" || skerry.OutcomeOf(out) != skerry.StartFailed {
			t.Errorf("kind %s came back as %s, hint %q, outcome %s", kind, skerry.KindOf(out), skerry.HintOf(out), skerry.OutcomeOf(out))
		}
	}
}

func TestAHostileStatusIsBoundedAndCleaned(t *testing.T) {
	st, err := status.New(codes.OK+99, strings.Repeat("x", 1<<20)+"\x1b]52;c;evil\a").WithDetails(
		&ErrorDetail{Kind: "success", Outcome: "exited", Hint: "\x1b[2J"})
	if err != nil {
		t.Fatal(err)
	}
	out := FromStatus("start command", st.Err())
	if skerry.KindOf(out) != skerry.Internal {
		t.Errorf("an unknown kind became %s, want internal", skerry.KindOf(out))
	}
	if skerry.OutcomeOf(out) != skerry.Lost {
		t.Errorf("a forged outcome became %s, want lost", skerry.OutcomeOf(out))
	}
	if len(out.Error()) > maxErrorText+100 || strings.ContainsAny(out.Error()+skerry.HintOf(out), "\x1b\a") {
		t.Errorf("text is not bounded and cleaned: %d bytes", len(out.Error()))
	}
}

func TestNoErrorBecomesSuccess(t *testing.T) {
	for _, err := range []error{
		skerry.Errorf("", "x", "no kind"), skerry.Errorf("success", "x", "a kind of nobody"), errors.New("foreign"), &skerry.Error{},
	} {
		if got := FromStatus("x", ToStatus(err)); skerry.KindOf(got) != skerry.Internal {
			t.Errorf("%v came back as %v", err, got)
		}
	}
	if err := ToStatus(nil); err != nil {
		t.Errorf("nil became %v", err)
	}
	in := status.Error(codes.Unauthenticated, "prove it first")
	if ToStatus(in) != in {
		t.Error("a status did not stay as it is")
	}
}

func TestAnErrorOfTheStreamIsUnavailable(t *testing.T) {
	if k := skerry.KindOf(FromStatus("x", errors.New("broken pipe"))); k != skerry.Unavailable {
		t.Errorf("kind %s, want unavailable", k)
	}
}
