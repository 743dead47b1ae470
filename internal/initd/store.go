//go:build linux

package initd

import (
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// store is where a spool keeps a large stream.
type store interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
}

// fallbackTail is the ring of a stream for which no file could be had.
const fallbackTail = 256 << 10

// memoryStore stands in for a file of a fixed size.
type memoryStore struct {
	mu   sync.Mutex
	data []byte
}

func newMemoryStore(start []byte, size int64) *memoryStore {
	m := &memoryStore{data: make([]byte, size)}
	copy(m.data, start)
	return m
}

func (m *memoryStore) ReadAt(p []byte, off int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if off < 0 || off+int64(len(p)) > int64(len(m.data)) {
		return 0, io.EOF
	}
	return copy(p, m.data[off:]), nil
}

func (m *memoryStore) WriteAt(p []byte, off int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if off < 0 || off+int64(len(p)) > int64(len(m.data)) {
		return 0, io.ErrShortWrite
	}
	return copy(m.data[off:], p), nil
}

func (m *memoryStore) Close() error { return nil }

// unlinkedFile makes a file without a name below dir.
func unlinkedFile(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err == nil {
		return os.NewFile(uintptr(fd), "spool"), nil
	}
	// Not every file system can make a file without a name.
	f, err := os.CreateTemp(dir, ".skerry-spool-*")
	if err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, fmt.Errorf("spool: %w", err)
	}
	return f, nil
}
