package skerry_test

import (
	"strings"
	"testing"

	"github.com/skerry-run/skerry"
)

func TestCleanText(t *testing.T) {
	for in, want := range map[string]string{
		"plain, 報告 é e\u0301 😀 ×…": "plain, 報告 é e\u0301 😀 ×…",
		"\x1b[2J\a\x7f\u009b2J":    "\ufffd[2J\ufffd\ufffd\ufffd2J",
		"a\tb\nc\rd":               "a\tb\ufffdc\ufffdd",
		"exe\u202efdp.":            "exe\ufffdfdp.",
		"pay\u200bpal \u2066x":     "pay\ufffdpal \ufffdx",
		"two\u2028lines":           "two\ufffdlines",
		"\xff\xfe":                 "\ufffd",
		"":                         "",
	} {
		if got := skerry.CleanText(in, 100, "\t"); got != want {
			t.Errorf("%q gave %q, want %q", in, got, want)
		}
	}
	for most, want := range map[int]string{0: "…", 1: "…", 3: "報…", 5: "報…", 6: "報告"} {
		if got := skerry.CleanText("報告", most, ""); got != want {
			t.Errorf("cut at %d: %q, want %q", most, got, want)
		}
	}
	if got := skerry.CleanText(strings.Repeat("\u200b", 1000), 300, ""); len(got) > 310 {
		t.Errorf("%d bytes", len(got))
	}
}
