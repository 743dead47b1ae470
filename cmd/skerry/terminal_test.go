package main

import (
	"bytes"
	"testing"
)

// B057: what a program prints does not act on the terminal, and a sequence
// that was cut swallows nothing.
func TestNeutral(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"text", "hällo\twörld\r\n漢\U0001F600", "hällo\twörld\r\n漢\U0001F600"},
		{"colour", "\x1b[1;31mred\x1b[0m", "\x1b[1;31mred\x1b[0m"},
		{"colour left on", "\x1b[31mred", "\x1b[31mred\x1b[0m"},
		{"true colour", "\x1b[38:2:1:2:3mx\x1b[m", "\x1b[38:2:1:2:3mx\x1b[m"},
		{"clipboard", "\x1b]52;c;ZXZpbA==\a", "^[]52;c;ZXZpbA==^G"},
		{"clear", "\x1b[2J", "^[[2J"},
		{"title, never ended", "\x1b]0;title", "^[]0;title"},
		{"cut colour", "\x1b[31", "^[[31"},
		{"escape at the end", "x\x1b", "x^["},
		{"private mode", "\x1b[?1049h", "^[[?1049h"},
		{"endless colour", "\x1b[" + string(bytes.Repeat([]byte("1;"), 100)) + "m", "^[[" + string(bytes.Repeat([]byte("1;"), 100)) + "m"},
		{"nul, backspace, delete", "a\x00\b\x7f", "a^@^H^?"},
		{"C1 as UTF-8", "\u009b2J", "<9b>2J"},
		{"C1 as a byte", "\x9b2J", "\uFFFD2J"},
		{"half a rune", "x\xe6\xbc", "x\uFFFD\uFFFD"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for size := 1; size <= len(c.in); size++ {
				var out bytes.Buffer
				n := &neutral{w: &out}
				for p := []byte(c.in); len(p) > 0; {
					k := min(size, len(p))
					if written, err := n.Write(p[:k]); err != nil || written != k {
						t.Fatalf("write gave %d, %v", written, err)
					}
					p = p[k:]
				}
				if err := n.Close(); err != nil {
					t.Fatal(err)
				}
				if out.String() != c.want {
					t.Errorf("in pieces of %d: got %q, want %q", size, out.String(), c.want)
				}
			}
		})
	}
}

func FuzzNeutral(f *testing.F) {
	f.Add([]byte("\x1b[31mred\x1b[0m\x1b]52;c;x\a"), 3)
	f.Add([]byte("\xe6\xbc\xa2\x9b\x1b["), 1)
	f.Fuzz(func(t *testing.T, p []byte, cut int) {
		whole, pieces := &bytes.Buffer{}, &bytes.Buffer{}
		n := &neutral{w: whole}
		n.Write(p)
		n.Close()
		n = &neutral{w: pieces}
		if cut > 0 && cut < len(p) {
			n.Write(p[:cut])
			n.Write(p[cut:])
		} else {
			n.Write(p)
		}
		n.Close()
		if !bytes.Equal(whole.Bytes(), pieces.Bytes()) {
			t.Errorf("%q cut at %d: %q and %q", p, cut, whole, pieces)
		}
		rest := whole.Bytes()
		for len(rest) > 0 {
			if rest[0] == 0x1b {
				length, ok := colourLength(rest)
				if !ok || length == 0 {
					t.Fatalf("%q let an escape through: %q", p, whole)
				}
				rest = rest[length:]
				continue
			}
			if c := rest[0]; c < 0x20 && c != '\n' && c != '\t' && c != '\r' || c == 0x7f {
				t.Fatalf("%q let %q through", p, c)
			}
			rest = rest[1:]
		}
	})
}
