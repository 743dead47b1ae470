package initproto

import (
	"sync"

	"google.golang.org/grpc/mem"
)

// NewBufferPool gives the pool that both ends of the stream take their buffers
// from. gRPC's own has nothing between 32 KiB and 1 MiB and clears what it hands
// out, which for our chunks costs more than everything else.
func NewBufferPool() mem.BufferPool { return &bufferPool{} }

// poolSizes are a small message, an HTTP/2 frame, and a chunk with what
// surrounds it. Larger buffers are rare, and not kept.
var poolSizes = [...]int{4 << 10, 16 << 10, ChunkBytes + 4<<10}

// bufferPool gives buffers whose contents are those of the last use: gRPC
// writes a buffer before it reads it.
type bufferPool struct {
	pools [len(poolSizes)]sync.Pool
}

func (p *bufferPool) Get(length int) *[]byte {
	for i, size := range poolSizes {
		if length > size {
			continue
		}
		if b, ok := p.pools[i].Get().(*[]byte); ok {
			*b = (*b)[:length]
			return b
		}
		b := make([]byte, length, size)
		return &b
	}
	b := make([]byte, length)
	return &b
}

func (p *bufferPool) Put(b *[]byte) {
	for i, size := range poolSizes {
		if cap(*b) == size {
			p.pools[i].Put(b)
			return
		}
	}
}
