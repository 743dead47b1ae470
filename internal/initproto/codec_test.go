package initproto

import (
	"bytes"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

func TestTheCodecKeepsMessagesOfEverySize(t *testing.T) {
	c := NewCodec(NewBufferPool())
	for range 2 { // the second time with used buffers
		for _, n := range []int{0, 1, 4 << 10, 16<<10 + 1, ChunkBytes, ChunkBytes + 8<<10, 2 << 20} {
			want := &OutputReply{Stream: 1, Offset: 7, Data: bytes.Repeat([]byte("x"), n)}
			wire, err := c.Marshal(want)
			if err != nil {
				t.Fatal(err)
			}
			got := &OutputReply{}
			if err := c.Unmarshal(wire, got); err != nil {
				t.Fatal(err)
			}
			wire.Free()
			if !proto.Equal(got, want) {
				t.Errorf("a message with %d bytes came back with %d", n, len(got.Data))
			}
		}
	}
	if _, err := c.Marshal("text"); err == nil {
		t.Error("a string was marshalled")
	}
	for _, rubbish := range []string{"\xff", "\x1a\xff\xff\xff\xff\x0f", "\x22\x05ab"} {
		if err := c.Unmarshal(mem.BufferSlice{mem.SliceBuffer(rubbish)}, &OutputReply{}); err == nil {
			t.Errorf("%q was taken for a message", rubbish)
		}
	}
}
