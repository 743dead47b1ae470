//go:build linux

package initd

import (
	"errors"
	"sync"
	"testing"
)

// A program may end at any moment of its pump's reads: all that it had written
// is in the spool when the pump has drained, and draining ends although a child
// keeps the pipe open.
func TestPumpDrainsAtAnyMoment(t *testing.T) {
	const (
		programs = 8 // at once, so that each is interrupted somewhere
		moments  = 500
	)
	var wg sync.WaitGroup
	for range programs {
		wg.Go(func() {
			for range moments {
				endOneProgram(t)
			}
		})
	}
	wg.Wait()
}

func endOneProgram(t *testing.T) {
	r, w, err := outputPipe()
	if err != nil {
		t.Error(err)
		return
	}
	written := make([]byte, 3*4096)
	s := newSpool(0, func() (store, error) { return nil, errors.New("nothing is large here") })
	p := newPump(r, s, false)
	go p.run()
	if _, err := w.Write(written); err != nil {
		t.Error(err)
	}
	p.ended()
	<-p.drained
	if n := s.size(); n != int64(len(written)) {
		t.Errorf("%d bytes are in the spool, %d were written", n, len(written))
	}
	w.Close()
	<-p.done
}
