package skerry

import (
	"strings"
	"time"
	"unicode/utf8"
)

// Result is what came of a run or of a session's command: the same object in
// the CLI, over HTTP and in MCP.
type Result struct {
	ID             string           `json:"id"`
	Org            string           `json:"org"`
	Backend        string           `json:"backend"`
	Session        string           `json:"session,omitempty"`
	Language       string           `json:"language"`
	Outcome        Outcome          `json:"outcome"`
	ExitCode       *int             `json:"exit_code,omitempty"` // there exactly when Outcome is exited
	Signal         int              `json:"signal,omitempty"`
	Limit          Limit            `json:"limit,omitempty"` // there exactly when Outcome is timeout
	Reason         string           `json:"reason"`
	Hint           string           `json:"hint,omitempty"`
	Stdout         string           `json:"stdout"`
	Stderr         string           `json:"stderr"`
	StdoutEncoding string           `json:"stdout_encoding"` // utf-8, or utf-8-lossy where bytes were replaced
	StderrEncoding string           `json:"stderr_encoding"`
	Truncated      Truncation       `json:"truncated"`
	DurationMS     int64            `json:"duration_ms"` // the command's own time, at least 1 when it ran
	Phases         map[string]int64 `json:"phases"`      // milliseconds by phase, names end in _ms
	Usage          Usage            `json:"usage"`
	Files          []Artifact       `json:"files"`
	Cold           bool             `json:"cold"`
	Recreated      bool             `json:"recreated"`
	Warnings       []string         `json:"warnings"`
}

// Truncation counts what the inline output leaves out.
type Truncation struct {
	StdoutOmittedBytes int64 `json:"stdout_omitted_bytes"`
	StderrOmittedBytes int64 `json:"stderr_omitted_bytes"`
}

// Artifact is a file that a run left under output/.
type Artifact struct {
	Path   string `json:"path"` // relative to the workspace, for example output/plot.png
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	MIME   string `json:"mime"`
}

// Encodings of Result.Stdout and Result.Stderr.
const (
	EncodingUTF8  = "utf-8"
	EncodingLossy = "utf-8-lossy"
)

// setExit copies what the end of a command decides.
func (r *Result) setExit(e Exit) {
	r.Outcome, r.ExitCode, r.Signal, r.Limit, r.Reason, r.Usage = e.Outcome, e.ExitCode, e.Signal, e.Limit, e.Reason, e.Usage
	r.DurationMS = max(1, e.Duration.Milliseconds())
	r.Warnings = append(r.Warnings, e.Notices...)
}

// SetError makes r the result of err: the outcome that err decides, with cause
// and remedy.
func (r *Result) SetError(err error) {
	r.Outcome, r.ExitCode, r.Signal, r.Limit = OutcomeOf(err), nil, 0, ""
	r.Usage = Usage{CPUSeconds: -1, MemoryPeakBytes: -1, OOMEvents: -1}
	if r.Outcome == Refused || r.Outcome == StartFailed {
		r.Usage = Usage{} // nothing ran
	}
	r.Reason, r.Hint = err.Error(), HintOf(err)
}

func milliseconds(d time.Duration) int64 { return max(0, d.Milliseconds()) }

// Tail keeps the beginning and the end of a stream within a limit: 40 % for
// the head, 60 % for the tail. The zero value keeps nothing; use NewTail.
type Tail struct {
	limit, headLimit int
	head, ring       []byte
	start            int // of the oldest byte in ring once it is full
	total, lost      int64
}

// NewTail keeps at most limit bytes; limit below 1 means DefaultInlineOutputBytes.
func NewTail(limit int) *Tail {
	if limit < 1 {
		limit = int(DefaultInlineOutputBytes)
	}
	return &Tail{limit: limit, headLimit: limit * 2 / 5}
}

// Add takes a chunk. Bytes that the chunk reports as omitted count as omitted
// here too.
func (t *Tail) Add(c Chunk) {
	t.total += c.Omitted
	t.lost += c.Omitted
	t.Write(c.Data)
}

// Write takes bytes; it never fails.
func (t *Tail) Write(p []byte) (int, error) {
	n := len(p)
	t.total += int64(n)
	if room := t.headLimit - len(t.head); room > 0 {
		k := min(room, len(p))
		t.head = append(t.head, p[:k]...)
		p = p[k:]
	}
	room := t.limit - t.headLimit
	if len(p) > room {
		p = p[len(p)-room:]
	}
	if k := min(room-len(t.ring), len(p)); k > 0 {
		t.ring = append(t.ring, p[:k]...)
		p = p[k:]
	}
	for len(p) > 0 {
		k := copy(t.ring[t.start:], p)
		t.start = (t.start + k) % len(t.ring)
		p = p[k:]
	}
	return n, nil
}

// Text gives what was kept as valid UTF-8 without control characters that
// break a consumer (C0 other than tab, LF and CR become U+FFFD), its encoding,
// and how many bytes of the stream it leaves out. It is cut on rune boundaries
// and never longer than the limit.
func (t *Tail) Text() (text, encoding string, omitted int64) {
	tail := append(append(make([]byte, 0, len(t.ring)), t.ring[t.start:]...), t.ring[:t.start]...)
	head := t.head
	if whole := int64(len(head)+len(tail)) == t.total; whole {
		head, tail = append(append([]byte(nil), head...), tail...), nil
	} else {
		head, tail = trimPartialEnd(head), trimPartialStart(tail)
	}
	if textLen(head)+textLen(tail) > t.limit { // U+FFFD has three bytes and may stand for one
		if len(tail) == 0 {
			tail = head
		}
		head, tail = keepStart(head, t.headLimit), keepEnd(tail, t.limit-t.headLimit)
	}
	var b strings.Builder
	lossy := appendText(&b, head)
	lossy = appendText(&b, tail) || lossy
	omitted = t.total - int64(len(head)+len(tail))
	if lossy {
		return b.String(), EncodingLossy, omitted
	}
	return b.String(), EncodingUTF8, omitted
}

// Total is the length of the stream so far.
func (t *Tail) Total() int64 { return t.total }

// keepStart gives as much of the start of p as makes at most limit bytes of
// text.
func keepStart(p []byte, limit int) []byte {
	i := 0
	for i < len(p) {
		r, n := utf8.DecodeRune(p[i:])
		if limit -= runeLen(r, n); limit < 0 {
			break
		}
		i += n
	}
	return p[:i]
}

// keepEnd gives as much of the end of p as makes at most limit bytes of text.
func keepEnd(p []byte, limit int) []byte {
	i := len(p)
	for i > 0 {
		r, n := utf8.DecodeLastRune(p[:i])
		if limit -= runeLen(r, n); limit < 0 {
			break
		}
		i -= n
	}
	return p[i:]
}

// textLen is how many bytes of text p becomes.
func textLen(p []byte) (total int) {
	for len(p) > 0 {
		r, n := utf8.DecodeRune(p)
		total += runeLen(r, n)
		p = p[n:]
	}
	return total
}

// runeLen is how many bytes of text a rune of n bytes becomes.
func runeLen(r rune, n int) int {
	if isReplaced(r, n) {
		return utf8.RuneLen(utf8.RuneError)
	}
	return n
}

// isReplaced says whether U+FFFD takes the place of a rune of n bytes.
func isReplaced(r rune, n int) bool {
	return r == utf8.RuneError && n == 1 || r < 0x20 && r != '\t' && r != '\n' && r != '\r'
}

// trimPartialEnd drops a rune that was cut at the end of p.
func trimPartialEnd(p []byte) []byte {
	for i := 1; i <= min(utf8.UTFMax-1, len(p)); i++ {
		if c := p[len(p)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(p[len(p)-i:]) {
				return p[:len(p)-i]
			}
			break
		}
	}
	return p
}

// trimPartialStart drops the rest of a rune that was cut at the start of p.
func trimPartialStart(p []byte) []byte {
	n := 0
	for n < len(p) && !utf8.RuneStart(p[n]) {
		n++
	}
	if n >= utf8.UTFMax { // no rune has as many: it is not text
		return p
	}
	return p[n:]
}

func appendText(b *strings.Builder, p []byte) (lossy bool) {
	b.Grow(len(p))
	for len(p) > 0 {
		r, n := utf8.DecodeRune(p)
		if isReplaced(r, n) {
			b.WriteRune(utf8.RuneError)
			lossy = true
		} else {
			b.Write(p[:n])
		}
		p = p[n:]
	}
	return lossy
}
