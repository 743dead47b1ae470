//go:build linux

package initd

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/mem"
)

// at gives the byte that the test streams have at offset i: any piece tells
// where it belongs.
func byteAt(i int64) byte {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(i/8)*0x9e3779b97f4a7c15)
	return b[i%8]
}

func streamPiece(from, n int64) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byteAt(from + int64(i))
	}
	return p
}

// streamBuffer is streamPiece in a buffer that is used again once nobody holds
// it.
func streamBuffer(from, n int64) mem.Buffer { return mem.Copy(streamPiece(from, n), buffers) }

// take reads like a follower, and keeps what it read.
func take(s *spool, c *cursor) (offset, omitted int64, data []byte, changed <-chan struct{}) {
	p, changed := s.read(c)
	if p.data != nil {
		data = bytes.Clone(p.data.ReadOnlyData())
		p.data.Free()
	}
	return p.offset, p.omitted, data, changed
}

func inTemp(t *testing.T) func() (store, error) {
	return func() (store, error) { return unlinkedFile(t.TempDir()) }
}

// readAll reads from pos to the end that the spool has now.
func readAll(t *testing.T, s *spool, pos int64) (omitted int64) {
	t.Helper()
	c := s.attach(pos)
	defer s.detach(c)
	for {
		at, gone, data, _ := take(s, c)
		if len(data) == 0 && gone == 0 {
			return omitted
		}
		omitted += gone
		if at != pos+gone {
			t.Fatalf("a piece at %d with %d omitted, the last ended at %d", at, gone, pos)
		}
		if !bytes.Equal(data, streamPiece(at, int64(len(data)))) {
			t.Fatalf("wrong bytes at %d", at)
		}
		pos = at + int64(len(data))
	}
}

func TestASpoolKeepsHeadAndTail(t *testing.T) {
	const limit = 500 << 10
	for _, size := range []int64{0, 1, spoolMemory, spoolMemory + 1, limit * 2 / 5, limit, limit + 1, 3*limit + 17} {
		for _, step := range []int64{1 << 10, 100_003} {
			s := newSpool(limit, inTemp(t))
			for at := int64(0); at < size; at += step {
				s.write(streamBuffer(at, min(step, size-at)))
			}
			for range 20 {
				from := int64(0)
				if size > 0 {
					from = rand.Int64N(size)
				}
				omitted := readAll(t, s, from)
				if from == 0 && omitted != max(0, size-limit) {
					t.Errorf("%d bytes in steps of %d: %d omitted, want %d", size, step, omitted, max(0, size-limit))
				}
			}
			readAll(t, s, 0)
			s.drop()
			if omitted := readAll(t, s, 0); omitted != size {
				t.Errorf("after drop %d of %d bytes are told as gone", omitted, size)
			}
		}
	}
}

// A reader that keeps up gets every byte, however small the spool is; others
// come, go and stall meanwhile.
func TestReadersOfASpoolThatIsWritten(t *testing.T) {
	const limit, size = 200 << 10, 20 << 20
	s := newSpool(limit, inTemp(t))
	var wg sync.WaitGroup
	done := make(chan struct{})
	keepUp := s.attach(0) // before the first byte, so that it counts from the start
	wg.Go(func() {
		defer close(done)
		for at := int64(0); at < size; {
			n := min(1+rand.Int64N(300<<10), size-at)
			s.write(streamBuffer(at, n))
			at += n
		}
		s.close()
	})
	wg.Go(func() {
		var pos int64
		for pos < size {
			at, omitted, data, changed := take(s, keepUp)
			if omitted != 0 {
				t.Errorf("a reader that keeps up lost %d bytes at %d", omitted, at)
			}
			if len(data) == 0 {
				<-changed
				continue
			}
			if !bytes.Equal(data, streamPiece(at, int64(len(data)))) {
				t.Errorf("wrong bytes at %d", at)
			}
			pos = at + int64(len(data))
		}
	})
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				from := s.size()
				readAll(t, s, rand.Int64N(from+1))
			}
		}
	})
	wg.Wait()
}

func TestAStalledReaderHoldsTheWriterForFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpool(200<<10, func() (store, error) { return nil, errors.New("no file") })
		stalled := s.attach(0)
		begin := time.Now()
		for at := int64(0); at < 2<<20; at += 64 << 10 {
			s.write(streamBuffer(at, 64<<10))
		}
		if took, want := time.Since(begin), pacePatience+spoolPatience; took != want {
			t.Errorf("the writer was held for %v, want %v", took, want)
		}
		at, omitted, _, _ := take(s, stalled)
		if omitted != 0 || at != 0 {
			t.Errorf("the head is %v, want it whole", at)
		}
		at, omitted, data, _ := take(s, stalled)
		if omitted == 0 || !bytes.Equal(data, streamPiece(at, int64(len(data)))) {
			t.Errorf("after the head: %d omitted, want a gap and right bytes", omitted)
		}
	})
}

// A program that writes more than is kept before anybody has asked for it waits
// for who is bound to ask, and loses nothing; when nobody does it goes on.
func TestTheFirstReaderIsWaitedFor(t *testing.T) {
	const kept, written = 200 << 10, 2 << 20
	synctest.Test(t, func(t *testing.T) {
		s := newSpool(kept, inTemp(t))
		s.await()
		go func() {
			for at := int64(0); at < written; at += 64 << 10 {
				s.write(streamBuffer(at, 64<<10))
			}
			s.close()
		}()
		synctest.Wait()
		if size := s.size(); size > kept {
			t.Fatalf("%d bytes were written with nobody to read them, where %d are kept", size, kept)
		}
		reader := s.attach(0)
		for at := int64(0); at < written; {
			from, omitted, data, changed := take(s, reader)
			if omitted != 0 {
				t.Fatalf("%d bytes were lost at %d", omitted, at)
			}
			if len(data) == 0 {
				<-changed
				continue
			}
			if !bytes.Equal(data, streamPiece(from, int64(len(data)))) {
				t.Fatalf("wrong bytes at %d", at)
			}
			at = from + int64(len(data))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := newSpool(kept, inTemp(t))
		s.await()
		begin := time.Now()
		for at := int64(0); at < written; at += 64 << 10 {
			s.write(streamBuffer(at, 64<<10))
		}
		if took := time.Since(begin); took != spoolPatience {
			t.Errorf("the writer was held for %v, want %v", took, spoolPatience)
		}
	})
}

// fullStore is a disk on which there is no more room after limit bytes.
type fullStore struct {
	store
	limit int64
}

func (f fullStore) WriteAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > f.limit {
		return 0, errors.New("no space left")
	}
	return f.store.WriteAt(p, off)
}

// A disk that is full loses output, and says so; what is kept is right.
func TestAFullDiskLosesOutputAndSaysSo(t *testing.T) {
	const size = 2 << 20
	for _, room := range []int64{0, 100 << 10, 300 << 10, 700 << 10} {
		s := newSpool(1<<20, func() (store, error) {
			f, err := unlinkedFile(t.TempDir())
			return fullStore{f, room}, err
		})
		for at := int64(0); at < size; at += 10_000 {
			s.write(streamBuffer(at, min(10_000, size-at)))
		}
		if omitted := readAll(t, s, 0); omitted == 0 || omitted > size {
			t.Errorf("room for %d: %d of %d bytes are told as gone", room, omitted, size)
		}
	}
}

// A disk that becomes full makes what is kept smaller; a reader that keeps up
// loses nothing.
func TestAReaderThatKeepsUpOutlivesAFullDisk(t *testing.T) {
	const size = 4 << 20
	for _, room := range []int64{0, 150 << 10, 300 << 10, 700 << 10} {
		s := newSpool(1<<20, func() (store, error) {
			f, err := unlinkedFile(t.TempDir())
			return fullStore{f, room}, err
		})
		c := s.attach(0)
		go func() {
			for at := int64(0); at < size; at += 10_000 {
				s.write(streamBuffer(at, min(10_000, size-at)))
			}
			s.close()
		}()
		for pos := int64(0); pos < size; {
			at, omitted, data, changed := take(s, c)
			if omitted != 0 {
				t.Fatalf("room for %d: %d bytes are gone before %d", room, omitted, at)
			}
			if len(data) == 0 {
				<-changed
				continue
			}
			if !bytes.Equal(data, streamPiece(at, int64(len(data)))) {
				t.Fatalf("room for %d: wrong bytes at %d", room, at)
			}
			pos = at + int64(len(data))
		}
		if omitted := readAll(t, s, 0); omitted == 0 || omitted > size-room+10_000 {
			t.Errorf("room for %d: a late reader is told that %d of %d bytes are gone", room, omitted, size)
		}
		s.drop()
	}
}

func TestForgottenIDsAreRemembered(t *testing.T) {
	var past tombstones
	id := func(i int) string { return string(binary.BigEndian.AppendUint32([]byte("id"), uint32(i))) }
	for i := range maxForgotten + 10 {
		past.add(id(i))
	}
	if past.has(id(9)) || !past.has(id(10)) || !past.has(id(maxForgotten+9)) || past.has("other") {
		t.Error("the youngest ids are not the ones that are remembered")
	}
	if len(past.ids) != maxForgotten {
		t.Errorf("%d ids are remembered, want %d", len(past.ids), maxForgotten)
	}
}
