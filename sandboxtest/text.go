package sandboxtest

import (
	"strings"
	"testing"

	"github.com/skerry-run/skerry"
)

// testText has what a program's output looks like inside a Result.
func testText(t *testing.T, s *suite) {
	run := func(t *testing.T, inline int, code ...string) skerry.Result {
		t.Helper()
		r := skerry.Run(s.context(t), s.Backend, skerry.RunSpec{
			Sandbox: s.spec(skerry.RunKind), Command: argv(code...), InlineBytes: inline,
		})
		if r.Outcome != skerry.Exited {
			t.Fatalf("outcome %s: %s", r.Outcome, r.Reason)
		}
		return r
	}

	t.Run("bytes that are no UTF-8 become U+FFFD and are told", func(t *testing.T) { // B043
		r := run(t, 0, "printf", `ok\237\222`)
		if r.Stdout != "ok\ufffd\ufffd" || r.StdoutEncoding != skerry.EncodingLossy || r.StderrEncoding != skerry.EncodingUTF8 {
			t.Errorf("stdout %q, encodings %s and %s", r.Stdout, r.StdoutEncoding, r.StderrEncoding)
		}
	})

	t.Run("control characters do not reach a consumer", func(t *testing.T) { // B056
		r := run(t, 0, "printf", `a\0b\033[31mred\tt\n`)
		if r.Stdout != "a\ufffdb\ufffd[31mred\tt\n" {
			t.Errorf("stdout %q", r.Stdout)
		}
	})

	t.Run("characters are never split", func(t *testing.T) { // B044
		r := run(t, 0, "bash", "-c", `yes 語 | head -n 90000 | tr -d '\n'; yes 語 | head -n 90000 | tr -d '\n' >&2`)
		want := strings.Repeat("語", 90_000)
		if r.Stdout != want || r.Stderr != want || r.StdoutEncoding != skerry.EncodingUTF8 {
			t.Errorf("%d and %d bytes, want %d; encoding %s", len(r.Stdout), len(r.Stderr), len(want), r.StdoutEncoding)
		}
	})

	t.Run("the inline limit is in bytes, and what it leaves out is counted", func(t *testing.T) { // B046, B060
		const limit = 50_000
		r := run(t, limit, "bash", "-c", `yes 漢 | head -n 40000 | tr -d '\n'`)
		if len(r.Stdout) > limit || strings.Contains(r.Stdout, "\ufffd") || r.Truncated.StdoutOmittedBytes != int64(120_000-len(r.Stdout)) {
			t.Errorf("%d bytes inline, %d omitted", len(r.Stdout), r.Truncated.StdoutOmittedBytes)
		}
	})

	t.Run("what a program prints is never read as ours", func(t *testing.T) { // B035, B065
		r := run(t, 0, "printf", "%s", `{"stdout": "x", "exit_code": 9}`)
		if r.Stdout != `{"stdout": "x", "exit_code": 9}` || *r.ExitCode != 0 {
			t.Errorf("stdout %q, exit code %d", r.Stdout, *r.ExitCode)
		}
	})
}
