//go:build linux

package sandboxfs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry"
)

// Bounds on a search.
const (
	maxGrepPattern = 10 << 10
	maxGrepText    = 4 << 10  // of one line, in a match
	maxGrepBytes   = 8 << 20  // paths and text of all matches
	grepWindow     = 64 << 10 // a longer line is searched as a stream
	binaryPeek     = 8 << 10
)

// errEnough ends a search that has found as much as it may.
var errEnough = errors.New("enough")

// Grep searches the lines of the regular files below a folder. Matches come in
// the order of their paths and lines.
func (f *FS) Grep(ctx context.Context, spec skerry.GrepSpec) (skerry.GrepResult, error) {
	const op = "grep"
	dir := spec.Dir
	if dir == "" {
		dir = "."
	}
	p, err := f.resolve(op, dir)
	if err != nil {
		return skerry.GrepResult{}, err
	}
	s := &search{ctx: ctx}
	if s.limit, err = limitOf(op, spec.Limit, defaultGrepLimit, maxGrepLimit); err != nil {
		return skerry.GrepResult{}, err
	}
	if s.re, err = grepPattern(op, spec); err != nil {
		return skerry.GrepResult{}, err
	}
	var pat *pattern
	if spec.Glob != "" {
		if pat, err = parsePattern(spec.Glob); err != nil {
			return skerry.GrepResult{}, skerry.Errorf(skerry.Invalid, op, "glob %q: %w", spec.Glob, err).WithHint(`write something like "**/*.py"`)
		}
	}
	d, err := f.openFolder(p)
	if err != nil {
		return skerry.GrepResult{}, failed(op, dir, p.root, err)
	}
	defer d.close()
	s.in = bufio.NewReaderSize(nil, grepWindow)
	err = f.walkPattern(ctx, d, pat, s.file)
	if err != nil && !errors.Is(err, errEnough) {
		return skerry.GrepResult{}, failed(op, dir, p.root, err)
	}
	slices.SortStableFunc(s.found.Matches, func(a, b skerry.GrepMatch) int { return strings.Compare(a.Path, b.Path) })
	return s.found, nil
}

func grepPattern(op string, spec skerry.GrepSpec) (*regexp.Regexp, error) {
	text := spec.Pattern
	switch {
	case text == "":
		return nil, skerry.Errorf(skerry.Invalid, op, "the pattern is empty")
	case len(text) > maxGrepPattern:
		return nil, skerry.Errorf(skerry.Invalid, op, "the pattern has %d bytes, at most %d", len(text), maxGrepPattern)
	case spec.Literal && strings.Contains(text, "\n"):
		return nil, skerry.Errorf(skerry.Invalid, op, "the text holds a line end, and lines are searched one by one").WithHint("search for one line of it")
	case spec.Literal:
		text = regexp.QuoteMeta(text)
	}
	if spec.IgnoreCase {
		text = "(?i:" + text + ")"
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, skerry.Errorf(skerry.Invalid, op, "pattern %q: %w", spec.Pattern, err).WithHint("it is an RE2 expression; search for plain text literally instead")
	}
	return re, nil
}

// search is one Grep under way.
type search struct {
	ctx   context.Context
	re    *regexp.Regexp
	limit int
	in    *bufio.Reader
	bytes int
	found skerry.GrepResult
}

// file searches one file. One that can't be read holds nothing that the
// sandbox's user could read either.
func (s *search) file(e entry) error {
	if e.st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil
	}
	file, _, err := e.in.openRegular(e.name)
	if err != nil {
		return s.ctx.Err()
	}
	defer file.Close()
	s.in.Reset(io.NewSectionReader(file, 0, 1<<62))
	start, _ := s.in.Peek(binaryPeek)
	if bytes.IndexByte(start, 0) >= 0 {
		return nil
	}
	for line := 1; ; line++ {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		matched, text, err := s.line()
		if err := s.ctx.Err(); err != nil {
			return err
		}
		if matched {
			if err := s.add(skerry.GrepMatch{Path: e.path, Line: line, Text: string(text)}); err != nil {
				return err
			}
		}
		if err != nil {
			return nil // the end of the file, or of what can be read of it
		}
	}
}

// line takes the next line and says whether it matches. text is its start and
// valid until the next read. The error says that there is no further line.
func (s *search) line() (matched bool, text []byte, err error) {
	line, err := s.in.ReadSlice('\n')
	switch {
	case err == bufio.ErrBufferFull:
		return s.longLine(bytes.Clone(line))
	case err != nil && len(line) == 0:
		return false, nil, err
	}
	line = trimEnd(line)
	return s.re.Match(line), line[:min(len(line), maxGrepText)], err
}

// longLine searches a line that is longer than the buffer without holding it;
// start is what was read of it.
func (s *search) longLine(start []byte) (matched bool, text []byte, err error) {
	rest := &longLine{ctx: s.ctx, in: s.in, pending: start}
	matched = s.re.MatchReader(bufio.NewReaderSize(rest, 4<<10))
	_, err = io.Copy(io.Discard, plainReader{rest})
	return matched, start[:maxGrepText], err
}

type plainReader struct{ io.Reader }

func (s *search) add(m skerry.GrepMatch) error {
	size := len(m.Path) + len(m.Text)
	if len(s.found.Matches) == s.limit || s.bytes+size > maxGrepBytes {
		s.found.Truncated = true
		return errEnough
	}
	s.bytes += size
	s.found.Matches = append(s.found.Matches, m)
	return nil
}

// longLine reads up to the end of a line, without LF or CRLF, a buffer at a
// time. The end of the file after it shows in the next line.
type longLine struct {
	ctx      context.Context
	in       *bufio.Reader
	pending  []byte // valid until the next read of in
	heldCR   bool   // a CR stands between what was given and pending, unless an LF follows
	complete bool
}

func (l *longLine) Read(p []byte) (int, error) {
	for len(l.pending) == 0 {
		if l.complete {
			return 0, io.EOF
		}
		if err := l.ctx.Err(); err != nil {
			return 0, err
		}
		l.fill()
	}
	if l.heldCR {
		l.heldCR = false
		p[0] = '\r'
		return 1, nil
	}
	given := l.pending
	if !l.complete && given[len(given)-1] == '\r' {
		given = given[:len(given)-1]
		if len(given) == 0 {
			l.pending, l.heldCR = nil, true
			return 0, nil
		}
	}
	n := copy(p, given)
	l.pending = l.pending[n:]
	return n, nil
}

func (l *longLine) fill() {
	chunk, err := l.in.ReadSlice('\n')
	l.complete = err != bufio.ErrBufferFull
	switch {
	case bytes.Equal(chunk, []byte("\n")):
		l.heldCR = false // it was the first half of a CRLF
		chunk = nil
	case l.heldCR && len(chunk) == 0:
		// The file ends in a bare CR, which belongs to the line.
		l.heldCR, chunk = false, []byte("\r")
	default:
		chunk = trimEnd(chunk)
	}
	l.pending = chunk
}

// trimEnd takes LF or CRLF off a line.
func trimEnd(line []byte) []byte {
	line, ok := bytes.CutSuffix(line, []byte("\n"))
	if ok {
		line = bytes.TrimSuffix(line, []byte("\r"))
	}
	return line
}
