package main

import (
	"bytes"
	"os"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/config"
)

// holeBytes is the size of the zeros that are worth a hole, and where one may
// begin: a block of most file systems.
const holeBytes = 4096

var zeros [holeBytes]byte

// sparseWriter fills a new file from its start. Where it is given nothing but
// zeros it leaves a hole, as the file in the sandbox may have had one: a few
// bytes of a sandbox's disk must not become any number of the caller's. The
// file has its length after finish.
type sparseWriter struct {
	file *os.File
	at   int64
	room *room // nil is no bound
}

// room is how much of a copy may still come.
type room struct {
	data, limit int64 // bytes that are not in holes: what is left, and of how many
	length      int64 // of all files, holes included
}

func newRoom(limit int64) *room { return &room{data: limit, limit: limit, length: maxTreeBytes} }

func (r *room) take(data, length int64) error {
	if r == nil {
		return nil
	}
	if r.data -= data; r.data < 0 {
		return skerry.Errorf(skerry.Invalid, "", "more than %s of data came", config.FormatBytes(r.limit)).
			WithHint("raise the bound with --max-size")
	}
	if r.length -= length; r.length < 0 {
		return skerry.Errorf(skerry.Invalid, "", "more than %s came, holes included", config.FormatBytes(maxTreeBytes)).
			WithHint("pack it in the session first, and copy the archive")
	}
	return nil
}

func (s *sparseWriter) Write(p []byte) (n int, err error) {
	for n < len(p) {
		k := s.block(p[n:])
		data := !isZero(p[n : n+k])
		for data && n+k < len(p) { // as much at once as lies between two holes
			next := min(holeBytes, len(p)-n-k)
			if isZero(p[n+k : n+k+next]) {
				break
			}
			k += next
		}
		if err := s.put(p[n:n+k], data); err != nil {
			return n, err
		}
		n += k
	}
	return n, nil
}

// block gives how many of p's bytes belong to the block that s.at is in.
func (s *sparseWriter) block(p []byte) int {
	return min(len(p), int(holeBytes-s.at%holeBytes))
}

func (s *sparseWriter) put(p []byte, data bool) error {
	size := int64(len(p))
	if !data {
		s.at += size
		return s.room.take(0, size)
	}
	if err := s.room.take(size, size); err != nil {
		return err
	}
	if _, err := s.file.WriteAt(p, s.at); err != nil {
		return err
	}
	s.at += size
	return nil
}

// finish gives the file its length, which a hole at its end did not.
func (s *sparseWriter) finish() error { return s.file.Truncate(s.at) }

func isZero(p []byte) bool { return bytes.Equal(p, zeros[:len(p)]) }
