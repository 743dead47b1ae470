//go:build linux

package initd

import (
	"sync"
	"time"

	"google.golang.org/grpc/mem"

	"github.com/skerry-run/skerry/internal/initproto"
)

const (
	// spoolMemory is how much of a stream is kept in memory before it gets a
	// file: most commands write less.
	spoolMemory = 64 << 10
	// spoolPatience is how long a reader without progress holds a program back.
	spoolPatience = 5 * time.Second
	// pacePatience is how long a write waits for readers to come near: a program
	// that writes more than they take is not slower than 25 MB/s for it.
	pacePatience = 10 * time.Millisecond
)

// spool keeps one stream of a command: its head and its tail, up to limit
// bytes, for readers by absolute offset. Small streams stay in memory, larger
// ones go to an unlinked file whose first part is the head and whose rest is
// a ring with the tail.
//
// What was written last stays in memory too while a reader that keeps up wants
// it, so that it needs no reading back.
//
// There is one writer. A reader that would lose bytes holds the writer back
// for as long as it makes progress; so does, for a while, one that is bound to
// come: a program may write much before who started it asks for its output.
type spool struct {
	head, tail int64                 // sizes of the two regions
	open       func() (store, error) // makes the file

	mu      sync.Mutex
	memory  []byte // the whole stream while there is no file
	file    store
	recent  recent
	intact  int64 // bytes of the head region without a hole, should a write fail
	end     int64 // bytes written so far
	claimed int64 // end once the write that is going on is done: what it overwrites is gone
	lost    int64 // everything before it and after the head is gone, however large the ring is
	failed  error // why something could not be kept
	readers map[*cursor]struct{}
	awaited bool          // a reader is bound to come, and has not yet
	changed chan struct{} // closed at every change, when somebody waits
	closed  bool          // nobody will write again
	dropped bool          // forgotten: readers get nothing more
}

// cursor is one reader's place.
type cursor struct {
	pos  int64
	slow bool // gave no sign of life; the writer does not wait for it
	idle bool // the same for a moment: the writer does not pace itself by it
}

func newSpool(limit int64, open func() (store, error)) *spool {
	head := limit * 2 / 5
	s := &spool{head: max(head, spoolMemory), tail: max(limit-head, spoolMemory), open: open, readers: map[*cursor]struct{}{}}
	s.intact = s.head
	return s
}

// size is the number of bytes written so far.
func (s *spool) size() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end
}

// oldest is the first offset after the head that can still be read, given that
// the writer may be overwriting up to claimed.
func (s *spool) oldest(claimed int64) int64 {
	return max(claimed-s.tail, s.lost)
}

// write appends data, which stays the caller's to free. It waits for readers
// that would lose bytes, never longer than spoolPatience without progress, and
// never fails: what can't be kept is counted by whoever reads.
func (s *spool) write(data mem.Buffer) {
	for from, end := 0, data.Len(); from < end; {
		to := min(end, from+int(min(s.tail, initproto.ChunkBytes)))
		part := data.Slice(from, to)
		s.writeSome(part)
		part.Free()
		from = to
	}
}

func (s *spool) writeSome(data mem.Buffer) {
	p := data.ReadOnlyData()
	s.mu.Lock()
	if s.dropped {
		s.end += int64(len(p))
		s.claimed, s.lost = s.end, s.end
		s.wakeLocked()
		s.mu.Unlock()
		return
	}
	claimed := s.end + int64(len(p))
	if s.file == nil && claimed > spoolMemory {
		s.makeFile()
	}
	s.pace()
	s.waitForFirst(claimed)
	s.waitForReaders(claimed)
	s.claimed = claimed
	file := s.file
	if file == nil { // small so far, or just dropped
		s.end = claimed
		if s.dropped {
			s.lost = claimed
		} else {
			s.memory = append(s.memory, p...)
		}
		s.wakeLocked()
		s.mu.Unlock()
		return
	}
	at := s.end
	s.mu.Unlock()
	err := s.writeFile(file, p, at) // the only writer, and readers check claimed afterwards
	s.mu.Lock()
	if err != nil && s.shrinkLocked(at) {
		s.failed, s.claimed = err, at
		s.mu.Unlock()
		s.write(data)
		return
	}
	s.end = claimed
	if err != nil || s.dropped {
		s.failed = err
		s.lost = claimed // a hole: what is there can't be told from what was
		s.intact = min(s.intact, at)
	} else {
		s.recent.add(at, data, s.readers)
	}
	s.wakeLocked()
	s.mu.Unlock()
}

// makeFile moves the stream from memory to a file. It is called with mu held,
// and lets go of it meanwhile: readers see the memory until then.
func (s *spool) makeFile() {
	memory := s.memory
	s.mu.Unlock()
	file, err := s.open()
	if err == nil {
		if _, err = file.WriteAt(memory, 0); err != nil {
			file.Close()
		}
	}
	s.mu.Lock()
	if s.dropped {
		if err == nil {
			file.Close()
		}
		return
	}
	s.file, s.memory = file, nil
	if err != nil {
		s.failed = err
		// Nothing beyond the memory was written yet, so the regions may still
		// change.
		s.head, s.tail, s.intact = spoolMemory, fallbackTail, spoolMemory
		s.file = newMemoryStore(memory, s.head+s.tail)
	}
}

// shrinkLocked makes both regions smaller after the write at offset at has
// failed, so that they fit in what the disk has given already. That works until
// the ring is used a second time: up to then each byte lies at its own offset.
func (s *spool) shrinkLocked(at int64) bool {
	if s.dropped || at >= s.head+s.tail || at < 2*spoolMemory || s.lost > 0 || s.intact < s.head {
		return false
	}
	s.head = min(s.head, at*2/5)
	s.tail, s.intact = at-s.head, s.head
	return true
}

// writeFile puts p, which starts at offset at of the stream, into its regions.
func (s *spool) writeFile(file store, p []byte, at int64) error {
	for len(p) > 0 {
		pos, n := s.place(at, int64(len(p)))
		if _, err := file.WriteAt(p[:n], pos); err != nil {
			return err
		}
		p, at = p[n:], at+n
	}
	return nil
}

// place says where the byte at offset at lies in the file, and how many of n
// follow it there.
func (s *spool) place(at, n int64) (pos, run int64) {
	if at < s.head {
		return at, min(n, s.head-at)
	}
	in := (at - s.head) % s.tail
	return s.head + in, min(n, s.tail-in)
}

// await says that a reader is bound to come.
func (s *spool) await() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.awaited = true
}

// waitForFirst holds the writer back while the reader that is bound to come
// would lose bytes, once and for spoolPatience at most. Called with mu held.
func (s *spool) waitForFirst(claimed int64) {
	if !s.awaited || claimed-s.tail <= s.head {
		return
	}
	deadline := time.NewTimer(spoolPatience)
	defer deadline.Stop()
	for s.awaited && !s.dropped {
		changed := s.changedLocked()
		s.mu.Unlock()
		late := false
		select {
		case <-changed:
		case <-deadline.C:
			late = true
		}
		s.mu.Lock()
		if late {
			s.awaited = false
		}
	}
}

// waitForReaders holds the writer back while a reader would lose bytes, is
// attached, and makes progress. Called with mu held.
func (s *spool) waitForReaders(claimed int64) {
	var stalled *cursor
	var at int64
	var deadline *time.Timer
	for !s.dropped {
		behind := s.findReader(func(c *cursor) bool {
			return !c.slow && max(c.pos, s.head) < claimed-s.tail && c.pos < s.end
		})
		if behind == nil {
			return
		}
		if deadline == nil {
			deadline = time.NewTimer(spoolPatience)
			defer deadline.Stop()
		}
		if behind != stalled || behind.pos != at {
			stalled, at = behind, behind.pos
			deadline.Reset(spoolPatience)
		}
		changed := s.changedLocked()
		s.mu.Unlock()
		late := false
		select {
		case <-changed:
		case <-deadline.C:
			late = true
		}
		s.mu.Lock()
		if late && behind.pos == at {
			behind.slow = true
		}
	}
}

// pace lets readers come near again before more is written: what they read from
// memory costs half of what they read back. A reader that stays behind costs
// the writer pacePatience for a write at most, and one that does nothing only
// once. Called with mu held.
func (s *spool) pace() {
	var first *cursor
	var from int64
	var deadline *time.Timer
	for !s.dropped {
		behind := s.findReader(func(c *cursor) bool {
			return !c.slow && !c.idle && c.pos < s.recent.far(s.end)
		})
		if behind == nil {
			return
		}
		if first == nil {
			first, from = behind, behind.pos
			deadline = time.NewTimer(pacePatience)
			defer deadline.Stop()
		}
		changed := s.changedLocked()
		s.mu.Unlock()
		late := false
		select {
		case <-changed:
		case <-deadline.C:
			late = true
		}
		s.mu.Lock()
		if late {
			first.idle = first.pos == from
			return
		}
	}
}

func (s *spool) findReader(like func(*cursor) bool) *cursor {
	for c := range s.readers {
		if like(c) {
			return c
		}
	}
	return nil
}

// changedLocked gives a channel that the next change closes.
func (s *spool) changedLocked() <-chan struct{} {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

func (s *spool) wakeLocked() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// attach registers a reader at offset pos; detach ends it.
func (s *spool) attach(pos int64) *cursor {
	c := &cursor{pos: pos}
	s.mu.Lock()
	s.readers[c] = struct{}{}
	if s.awaited {
		s.awaited = false
		s.wakeLocked()
	}
	s.mu.Unlock()
	return c
}

func (s *spool) detach(c *cursor) {
	s.mu.Lock()
	delete(s.readers, c)
	s.recent.passed(s.readers)
	s.wakeLocked()
	s.mu.Unlock()
}

// piece is what read found: data at offset, after omitted bytes that are gone.
// Whoever has it frees data, which is nil when there is none.
type piece struct {
	offset, omitted int64
	data            mem.Buffer
}

// read gives what follows the cursor's place, at most a chunk, without waiting.
// An empty piece means that there is nothing yet, and changed tells when to
// look again.
func (s *spool) read(c *cursor) (p piece, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if c.pos >= s.end {
			return piece{offset: c.pos}, s.changedLocked()
		}
		data, next := s.recent.at(c.pos)
		if data != nil {
			p = piece{offset: c.pos, data: data}
			s.moveLocked(c, c.pos+int64(data.Len()))
			return p, nil
		}
		at, run := s.available(c.pos)
		run = min(run, initproto.ChunkBytes)
		if next > at {
			run = min(run, next-at)
		}
		omitted := at - c.pos
		if run <= 0 { // all that is left is gone
			p = piece{offset: s.end, omitted: s.end - c.pos}
			s.moveLocked(c, s.end)
			return p, nil
		}
		if s.file == nil {
			data = mem.Copy(s.memory[at:at+run], buffers)
		} else {
			pos, n := s.place(at, run)
			run = n
			file := s.file
			s.mu.Unlock()
			buf := buffers.Get(int(run))
			_, err := file.ReadAt(*buf, pos)
			data = mem.NewBuffer(buf, buffers)
			s.mu.Lock()
			if at >= s.intact && at < s.oldest(s.claimed) {
				data.Free()
				continue // the writer passed us while we read: the bytes may be newer ones
			}
			if err != nil {
				data.Free()
				s.failed = err
				s.lost = s.end // unreadable is gone
				s.intact = min(s.intact, at)
				continue
			}
		}
		p = piece{offset: at, omitted: omitted, data: data}
		s.moveLocked(c, at+run)
		return p, nil
	}
}

// available gives the first offset from pos on that can be read, and how many
// bytes follow it.
func (s *spool) available(pos int64) (at, run int64) {
	if s.file == nil {
		if n := int64(len(s.memory)); pos < n {
			return pos, n - pos
		}
		return s.end, 0
	}
	if pos < s.intact {
		return pos, min(s.intact, s.end) - pos
	}
	at = max(pos, s.oldest(s.claimed))
	return at, s.end - at
}

func (s *spool) moveLocked(c *cursor, pos int64) {
	c.pos, c.slow, c.idle = pos, false, false
	s.recent.passed(s.readers)
	s.wakeLocked()
}

// close tells readers that nobody will write again.
func (s *spool) close() {
	s.mu.Lock()
	s.closed = true
	s.wakeLocked()
	s.mu.Unlock()
}

// drop frees what is kept. Readers are told that it is gone.
func (s *spool) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropped, s.memory = true, nil
	s.lost, s.intact = s.end, 0
	s.recent.clear()
	if s.file != nil {
		s.file.Close()
		s.file = nil
	}
	s.wakeLocked()
}

// keeps tells what the spool holds: bytes of memory, and of its file.
func (s *spool) keeps() (memory, file int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil {
		file = min(s.end, s.head+s.tail)
	}
	return int64(len(s.memory)), file
}
