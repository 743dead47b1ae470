package skerry_test

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/skerry-run/skerry"
)

func TestWhatAnErrorSays(t *testing.T) {
	inner := skerry.Errorf(skerry.NotFound, "open", "no %q: %w", "x", fs.ErrNotExist).WithHint("make %s", "it").WithOutcome(skerry.Refused)
	outer := &skerry.Error{Op: "run", Kind: skerry.Denied, Err: fmt.Errorf("input: %w", inner)}
	for _, c := range []struct {
		name    string
		err     error
		text    string
		kind    skerry.Kind
		hint    string
		outcome skerry.Outcome
	}{
		{"itself", inner, `open: no "x": file does not exist`, skerry.NotFound, "make it", skerry.Refused},
		{"wrapped", fmt.Errorf("at last: %w", inner), `at last: open: no "x": file does not exist`, skerry.NotFound, "make it", skerry.Refused},
		{"in another", outer, `run: input: open: no "x": file does not exist`, skerry.Denied, "make it", skerry.Refused},
		{"joined", errors.Join(errors.New("other"), inner), "other\n" + inner.Error(), skerry.NotFound, "make it", skerry.Refused},
		{"without kind", &skerry.Error{Err: errors.New("x")}, "x", skerry.Internal, "", skerry.Lost},
		{"foreign", errors.New("x"), "x", skerry.Internal, "", skerry.Lost},
		{"without cause", &skerry.Error{Op: "run", Kind: skerry.Busy}, "run: busy", skerry.Busy, "", skerry.Lost},
		{"without anything", &skerry.Error{}, "", skerry.Internal, "", skerry.Lost},
	} {
		if got := c.err.Error(); got != c.text {
			t.Errorf("%s: text %q, want %q", c.name, got, c.text)
		}
		if got := skerry.KindOf(c.err); got != c.kind {
			t.Errorf("%s: kind %s, want %s", c.name, got, c.kind)
		}
		if got := skerry.HintOf(c.err); got != c.hint {
			t.Errorf("%s: hint %q, want %q", c.name, got, c.hint)
		}
		if got := skerry.OutcomeOf(c.err); got != c.outcome {
			t.Errorf("%s: outcome %s, want %s", c.name, got, c.outcome)
		}
	}
	if !errors.Is(outer, fs.ErrNotExist) {
		t.Error("the cause can't be asked for")
	}
}

func TestNoErrorHasNoKind(t *testing.T) {
	if k := skerry.KindOf(nil); k != "" {
		t.Errorf("nil has kind %q", k)
	}
	if h := skerry.HintOf(nil); h != "" {
		t.Errorf("nil has hint %q", h)
	}
	if o := skerry.OutcomeOf(nil); o != skerry.Lost {
		t.Errorf("nil decides %q: what is not known is lost, never success", o)
	}
}

func TestOutcomesAreTheOnesThereAre(t *testing.T) {
	for _, o := range []skerry.Outcome{
		skerry.Exited, skerry.Signaled, skerry.Timeout, skerry.OOM, skerry.Cancelled, skerry.Evicted, skerry.Lost, skerry.StartFailed, skerry.Refused,
	} {
		if !o.Valid() {
			t.Errorf("%s is not valid", o)
		}
	}
	for _, o := range []skerry.Outcome{"", "success", "EXITED", "exited "} {
		if o.Valid() {
			t.Errorf("%q is valid", o)
		}
	}
}
