//go:build linux

package initd

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"github.com/skerry-run/skerry"

	"github.com/skerry-run/skerry/internal/keep"
)

// prepared is everything that a command needs before it starts: the request
// for the keeper, the program's ends of pipes, and ours.
type prepared struct {
	req    keep.Request
	theirs []*os.File // beside req.FDs; closed once the program has them

	out     [2]*spool
	pumps   []*pump
	stdin   *stdin
	tty     *os.File
	state   *capture
	notices []string
}

// give adds a file that the program gets at descriptor n.
func (p *prepared) give(f *os.File, n ...int) {
	for _, n := range n {
		p.theirs = append(p.theirs, f)
		p.req.FDs = append(p.req.FDs, n)
	}
}

func (p *prepared) closeTheirs() { closeFiles(p.theirs) }

// closeOurs undoes what prepare made when the program did not start.
func (p *prepared) closeOurs() {
	for _, pump := range p.pumps {
		pump.from.Close()
	}
	p.stdin.programEnded()
	p.state.discard()
}

// prepare makes the request and the pipes. On error nothing is left open.
func (s *Server) prepare(c *command, spec skerry.CommandSpec) (_ *prepared, err error) {
	p := &prepared{} // not the result: an error makes that nil before it is undone
	defer func() {
		if err != nil {
			p.closeTheirs()
			p.closeOurs()
		}
	}()
	if err := s.prepareProgram(p, spec); err != nil {
		return nil, err
	}
	p.out[0] = newSpool(s.config.SpoolBytes, s.spoolFile)
	p.out[1] = newSpool(s.config.SpoolBytes, s.spoolFile)
	if !spec.Background {
		p.out[0].await()
		p.out[1].await()
	}
	if spec.TTY != nil {
		err = p.prepareTerminal(*spec.TTY)
	} else {
		err = p.preparePipes(spec)
	}
	if err != nil {
		return nil, startFailed(skerry.Busy, "%w", err).WithHint("the sandbox is out of open files or memory; end something in it")
	}
	return p, nil
}

// preparePipes makes the streams of a program without a terminal.
func (p *prepared) preparePipes(spec skerry.CommandSpec) error {
	r, w, err := outputPipe()
	if err != nil {
		return err
	}
	p.pumps = append(p.pumps, newPump(r, p.out[0], false))
	p.give(w, 1)
	if spec.Merge {
		p.give(w, 2)
		p.out[1].close()
	} else {
		r, w, err := outputPipe()
		if err != nil {
			return err
		}
		p.pumps = append(p.pumps, newPump(r, p.out[1], false))
		p.give(w, 2)
	}
	if spec.Stdin == skerry.StdinNone {
		null, err := os.Open(os.DevNull)
		if err != nil {
			return err
		}
		p.give(null, 0)
		return nil
	}
	theirs, ours, err := inputPipe()
	if err != nil {
		return err
	}
	p.give(theirs, 0)
	p.stdin = newStdin(ours, false)
	return nil
}

// writeStartFiles writes the files that a command starts with.
func (s *Server) writeStartFiles(ctx context.Context, files []skerry.StartFile) error {
	for _, f := range files {
		_, err := s.files.Write(ctx, f.Path, bytes.NewReader(f.Data), skerry.WriteOptions{Mode: f.Mode})
		if err != nil {
			return &skerry.Error{
				Op: startOp, Kind: skerry.KindOf(err), Err: fmt.Errorf("file %q: %w", f.Path, err),
				Hint: skerry.HintOf(err), Outcome: skerry.StartFailed,
			}
		}
	}
	return nil
}
