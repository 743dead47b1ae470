package initproto

import (
	"strings"
	"testing"
	"unicode/utf8"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/skerry-run/skerry"
)

// FuzzFromStatus feeds what a hostile init could put in the trailer of a call.
func FuzzFromStatus(f *testing.F) {
	seed := func(err error) {
		b, e := proto.Marshal(status.Convert(err).Proto())
		if e != nil {
			f.Fatal(e)
		}
		f.Add(b)
	}
	for kind := range codeOf {
		seed(ToStatus(skerry.Errorf(kind, "start", "no %q", "x").WithHint("install it").WithOutcome(skerry.StartFailed)))
	}
	seed(status.Error(codes.Canceled, "cancelled"))
	seed(status.Error(99, "\x1b[2J"+strings.Repeat("語", 3000)))
	with, err := status.New(codes.Internal, "x").WithDetails(&ErrorDetail{Kind: "\x00", Outcome: "exited", Hint: "\u202e"}, &Exit{Outcome: "exited"})
	if err != nil {
		f.Fatal(err)
	}
	seed(with.Err())
	f.Fuzz(func(t *testing.T, b []byte) {
		var st spb.Status
		if proto.Unmarshal(b, &st) != nil || st.Code == int32(codes.OK) {
			return // gRPC gives no error then
		}
		err := FromStatus("do", status.FromProto(&st).Err())
		if err == nil {
			t.Fatal("an error became none")
		}
		if _, known := codeOf[skerry.KindOf(err)]; !known {
			t.Fatalf("kind %q", skerry.KindOf(err))
		}
		if o := skerry.OutcomeOf(err); o != skerry.Lost && o != skerry.StartFailed && o != skerry.Refused {
			t.Fatalf("outcome %q", o)
		}
		for _, text := range []string{err.Error(), skerry.HintOf(err)} {
			if len(text) > 3*maxErrorText || !utf8.ValidString(text) {
				t.Fatalf("%d bytes of text, valid %v", len(text), utf8.ValidString(text))
			}
			if i := strings.IndexFunc(text, func(r rune) bool {
				return r < 0x20 && r != '\t' && r != '\n' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e
			}); i >= 0 {
				t.Fatalf("a control character at %d of %q", i, text)
			}
		}
		// What was understood once is understood the same way again.
		again := FromStatus("do", ToStatus(err))
		if skerry.KindOf(again) != skerry.KindOf(err) || skerry.OutcomeOf(again) != skerry.OutcomeOf(err) {
			t.Fatalf("%v (%s) became %v (%s)", err, skerry.KindOf(err), again, skerry.KindOf(again))
		}
	})
}
