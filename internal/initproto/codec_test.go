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

func TestAPieceIsSentAsTheMessageItStandsFor(t *testing.T) {
	c := NewCodec(NewBufferPool())
	for _, want := range []*OutputReply{
		{Stream: 1, Data: []byte("x")},
		{Stream: 2, Offset: 1<<62 + 1, Omitted: 1 << 40, Data: bytes.Repeat([]byte("abc"), ChunkBytes/3)},
		{Stream: 1, Offset: 5, Omitted: 5},
		{},
	} {
		piece := &OutputPiece{Stream: want.Stream, Offset: want.Offset, Omitted: want.Omitted}
		if want.Data != nil {
			piece.Data = mem.Copy(want.Data, NewBufferPool())
		}
		wire, err := c.Marshal(piece)
		if err != nil {
			t.Fatal(err)
		}
		if piece.Data != nil {
			piece.Data.Free() // the sender's; the stream has its own
		}
		if wire.Len() != proto.Size(want) {
			t.Errorf("%d bytes on the wire, want %d", wire.Len(), proto.Size(want))
		}
		got := &OutputReply{}
		if err := c.Unmarshal(wire, got); err != nil {
			t.Fatal(err)
		}
		wire.Free()
		if !proto.Equal(got, want) {
			t.Errorf("came as stream %d, offset %d, omitted %d, %d bytes", got.Stream, got.Offset, got.Omitted, len(got.Data))
		}
	}
}
