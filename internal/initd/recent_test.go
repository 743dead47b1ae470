//go:build linux

package initd

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/mem"
)

// unreadable is a disk that takes everything and gives nothing back.
type unreadable struct{ store }

func (unreadable) ReadAt([]byte, int64) (int, error) { return 0, errors.New("not from the disk") }

// writePart writes a part as a pump does, with a buffer that is used again as soon as
// nobody holds it.
func writePart(s *spool, from, n int64) {
	data := streamBuffer(from, n)
	s.write(data)
	data.Free()
}

// Readers that keep up are served from memory, and what they hold is not
// overwritten by what is written next.
func TestReadersThatKeepUpNeedNoDisk(t *testing.T) {
	const size, step = 16 << 20, 100_003
	s := newSpool(1<<20, func() (store, error) {
		f, err := unlinkedFile(t.TempDir())
		return unreadable{f}, err
	})
	first := int64(spoolMemory)
	writePart(s, 0, first) // in memory, as all that is small
	readers := []*cursor{s.attach(first), s.attach(first)}
	held := make([][]piece, len(readers))
	for at := first; at < size; at += step {
		writePart(s, at, step)
		for i, c := range readers {
			if (at/step+int64(i))%3 == 0 {
				continue // comes a part later, still near enough
			}
			for c.pos < s.end {
				p, _ := s.read(c)
				if p.omitted != 0 || p.data == nil {
					t.Fatalf("reader %d: %d bytes are gone at %d", i, p.omitted, p.offset)
				}
				held[i] = append(held[i], p)
			}
		}
		for i := range held {
			for len(held[i]) > 3 {
				check(t, held[i][0])
				held[i] = held[i][1:]
			}
		}
	}
	for i := range held {
		for _, p := range held[i] {
			check(t, p)
		}
	}
}

func check(t *testing.T, p piece) {
	t.Helper()
	if data := p.data.ReadOnlyData(); !bytes.Equal(data, streamPiece(p.offset, int64(len(data)))) {
		t.Fatalf("wrong bytes at %d", p.offset)
	}
	p.data.Free()
}

// freed counts what comes back to it: memory that is held for nobody never
// does.
type freed struct{ n int }

func (f *freed) Get(n int) *[]byte { b := make([]byte, n); return &b }
func (f *freed) Put(*[]byte)       { f.n++ }

func TestMemoryIsHeldOnlyForAReaderNearby(t *testing.T) {
	const part = 64 << 10
	var pool freed
	written := 0
	s := newSpool(8<<20, inTemp(t))
	write := func(times int) {
		for range times {
			data := mem.Copy(streamPiece(s.size(), part), &pool)
			s.write(data)
			data.Free()
			written++
		}
	}
	held := func(want int, when string) {
		t.Helper()
		if got := written - pool.n; got != want {
			t.Errorf("%d buffers are held %s, want %d", got, when, want)
		}
	}
	write(4)
	held(0, "without a reader")
	c := s.attach(s.size())
	write(2)
	held(2, "for a reader that is about to read")
	p, _ := s.read(c)
	p.data.Free()
	held(1, "when it has read one")
	write(5)
	held(recentParts, "for a reader that stalls")
	write(recentBytes / part)
	held(0, "when it is far behind")
	readAll(t, s, 0)
	for c.pos < s.end {
		p, _ := s.read(c)
		check(t, p)
	}
	write(1)
	held(1, "when it is there again")
	s.detach(c)
	held(0, "when it has gone")
	s.attach(s.size())
	write(1)
	s.drop()
	held(0, "when the spool is dropped")
}

// A program is not held back for longer than a moment by a reader that does
// nothing, and goes at the pace of one that reads.
func TestAWriterPacesItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const parts = 100
		s := newSpool(2*parts*pumpBytes, inTemp(t))
		fill := func() time.Duration {
			begin := time.Now()
			for range parts {
				s.write(mem.SliceBuffer(make([]byte, pumpBytes)))
			}
			return time.Since(begin)
		}
		if took := fill(); took != 0 {
			t.Errorf("without a reader the writer was held for %v", took)
		}
		stalled := s.attach(s.size())
		if took := fill(); took != pacePatience {
			t.Errorf("a reader that stalls held the writer for %v, want %v", took, pacePatience)
		}
		s.detach(stalled)

		s = newSpool(2*parts*pumpBytes, inTemp(t))
		const each = pacePatience / 5
		steady := s.attach(0)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for steady.pos < parts*pumpBytes {
				p, changed := s.read(steady)
				if p.data == nil {
					<-changed
					continue
				}
				p.data.Free()
				time.Sleep(each)
			}
		}()
		took := fill()
		<-done
		if least, most := (parts-recentParts-2)*each, parts*each; took < least || took > most {
			t.Errorf("with a steady reader it took %v, want %v to %v", took, least, most)
		}
	})
}
