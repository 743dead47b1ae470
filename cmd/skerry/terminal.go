package main

import (
	"bytes"
	"fmt"
	"io"
	"unicode/utf8"
)

// neutral writes a program's output to a terminal so that it can't act on it.
//
// What passes: text, tab, line feed, carriage return, and colours (SGR, ESC [
// digits ; : m). Any other control character is written as what it is, ESC as
// ^[, so an escape sequence becomes readable text: nothing is swallowed, also
// not after a sequence that was cut. Bytes that are not UTF-8 become U+FFFD,
// runes that are split between two writes do not. Colours are reset at the end.
type neutral struct {
	w       io.Writer
	pending []byte // the start of a rune or of a colour
	colour  bool   // one was passed and not reset
}

// maxColour bounds a colour's sequence; longer is no colour.
const maxColour = 64

func (n *neutral) Write(p []byte) (int, error) {
	data := append(n.pending, p...)
	out := bytes.NewBuffer(make([]byte, 0, len(data)))
	rest := n.convert(out, data, false)
	n.pending = append([]byte(nil), rest...)
	if _, err := n.w.Write(out.Bytes()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close writes what was held back, and resets colours. It does not close the
// terminal.
func (n *neutral) Close() error {
	var out bytes.Buffer
	n.convert(&out, n.pending, true)
	n.pending = nil
	if n.colour {
		out.WriteString("\x1b[0m")
		n.colour = false
	}
	if out.Len() == 0 {
		return nil
	}
	_, err := n.w.Write(out.Bytes())
	return err
}

// convert writes the harmless form of p and gives what can't be decided yet;
// at the end everything is decided.
func (n *neutral) convert(out *bytes.Buffer, p []byte, end bool) (rest []byte) {
	for len(p) > 0 {
		if p[0] == 0x1b {
			length, whole := colourLength(p)
			if !whole && !end {
				return p
			}
			if whole && length > 0 {
				n.colour = !isReset(p[:length])
				out.Write(p[:length])
				p = p[length:]
				continue
			}
		}
		if !utf8.FullRune(p) && !end {
			return p
		}
		r, size := utf8.DecodeRune(p)
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			out.WriteByte(byte(r))
		case r < 0x20:
			out.WriteByte('^')
			out.WriteByte(byte(r) + '@')
		case r == 0x7f:
			out.WriteString("^?")
		case r >= 0x80 && r < 0xa0: // C1: the same as ESC and a letter
			fmt.Fprintf(out, "<%02x>", r)
		default:
			out.WriteRune(r)
		}
		p = p[size:]
	}
	return nil
}

// colourLength gives the length of the colour that p starts with, 0 when it
// starts with none; whole is false while that can't be told yet.
func colourLength(p []byte) (length int, whole bool) {
	if len(p) < 2 {
		return 0, false
	}
	if p[1] != '[' {
		return 0, true
	}
	for i := 2; i < len(p); i++ {
		switch c := p[i]; {
		case c == 'm':
			return i + 1, true
		case (c < '0' || c > '9') && c != ';' && c != ':' || i >= maxColour:
			return 0, true
		}
	}
	return 0, false
}

func isReset(colour []byte) bool {
	return bytes.Equal(colour, []byte("\x1b[m")) || bytes.Equal(colour, []byte("\x1b[0m"))
}
