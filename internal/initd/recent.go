//go:build linux

package initd

import "google.golang.org/grpc/mem"

const (
	// recentParts bounds what one spool holds for its readers: each part may
	// keep a buffer of a whole chunk.
	recentParts = 4
	recentBytes = recentParts * pumpBytes
	// recentLeast is what a part has at least. Less is cheaply read back, and
	// would keep a large buffer for it.
	recentLeast = 32 << 10
)

// recent is what was last written to a spool and is wanted by a reader that
// keeps up. It holds nothing for one that doesn't. The zero value is empty.
type recent struct {
	parts []part // in order, not always without gaps
}

type part struct {
	from int64 // offset of data in the stream
	data mem.Buffer
}

func (p part) end() int64 { return p.from + int64(p.data.Len()) }

// add keeps data, which was written at offset from, when one of readers is near.
func (r *recent) add(from int64, data mem.Buffer, readers map[*cursor]struct{}) {
	if data.Len() < recentLeast {
		return
	}
	wanted := false
	for c := range readers {
		wanted = wanted || c.pos >= from-recentBytes
	}
	if !wanted {
		r.clear()
		return
	}
	if len(r.parts) == recentParts {
		r.forget(1)
	}
	data.Ref()
	r.parts = append(r.parts, part{from, data})
}

// at gives what is kept from pos on, to be freed by the caller, or else nil and
// the next offset at which something is kept, 0 when there is none.
func (r *recent) at(pos int64) (data mem.Buffer, next int64) {
	for _, p := range r.parts {
		if pos < p.from {
			return nil, p.from
		}
		if pos < p.end() {
			return p.data.Slice(int(pos-p.from), p.data.Len()), 0
		}
	}
	return nil, 0
}

// far is the offset before which a reader of a spool with end bytes would find
// nothing here once another part is added.
func (r *recent) far(end int64) int64 {
	if len(r.parts) == recentParts {
		return r.parts[0].end()
	}
	return end - recentBytes
}

// passed lets go of what all readers have.
func (r *recent) passed(readers map[*cursor]struct{}) {
	n := 0
	for n < len(r.parts) && passedBy(readers, r.parts[n].end()) {
		n++
	}
	r.forget(n)
}

func passedBy(readers map[*cursor]struct{}, end int64) bool {
	for c := range readers {
		if c.pos < end {
			return false
		}
	}
	return true
}

func (r *recent) clear() { r.forget(len(r.parts)) }

// forget lets go of the n oldest parts.
func (r *recent) forget(n int) {
	for _, p := range r.parts[:n] {
		p.data.Free()
	}
	rest := copy(r.parts, r.parts[n:])
	clear(r.parts[rest:])
	r.parts = r.parts[:rest]
}
