package skerry

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"maps"
	"slices"
)

// Digest identifies what s asks for: it is the same for specs that ask for the
// same once defaults are filled in, and differs for all others. The ID, which
// only names it, and Missing, which is for people, decide nothing.
func (s CommandSpec) Digest() [sha256.Size]byte {
	s = s.OrDefaults()
	d := newDigester()
	d.number(len(s.Argv))
	for _, a := range s.Argv {
		d.text(a)
	}
	d.text(s.Script)
	d.text(s.Dir)
	d.env(s.Env)
	d.text(string(s.Stdin))
	tty := TerminalSize{} // which no terminal has, once defaults are filled in
	if s.TTY != nil {
		tty = *s.TTY
	}
	fmt.Fprintf(d, "%d,%d,%t,%t,%d,%d;", tty.Cols, tty.Rows, s.Merge, s.Background, s.Timeout, s.Grace)
	d.number(len(s.Files))
	for _, f := range s.Files {
		d.text(f.Path)
		d.number(int(f.Mode))
		d.number(len(f.Data))
		d.Write(f.Data)
	}
	return d.sum()
}

// digester hashes a sequence of values, each in a form that ends where it says
// it does: two sequences never run together.
type digester struct{ hash.Hash }

func newDigester() digester { return digester{sha256.New()} }

func (d digester) number(n int) { fmt.Fprintf(d, "%d;", n) }

func (d digester) text(s string) {
	d.number(len(s))
	_, _ = io.WriteString(d, s) // a hash takes everything
}

func (d digester) env(env map[string]string) {
	d.number(len(env))
	for _, k := range slices.Sorted(maps.Keys(env)) {
		d.text(k)
		d.text(env[k])
	}
}

func (d digester) sum() (sum [sha256.Size]byte) {
	d.Sum(sum[:0])
	return sum
}
