package attach

import (
	"encoding/binary"
	"io"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers what outputCodec stands on
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	pb "github.com/skerry-run/skerry/internal/initproto"
)

// outputCodec is gRPC's codec for protobuf, but it reads pieces of output into
// the buffer of the message that is given, which is used again and again: one
// copy and no garbage instead of two copies and a new slice for each piece. The
// bytes on the wire are the same.
type outputCodec struct{ encoding.CodecV2 }

func newOutputCodec() outputCodec { return outputCodec{encoding.GetCodecV2("proto")} }

func (c outputCodec) Unmarshal(data mem.BufferSlice, v any) error {
	if reply, ok := v.(*pb.OutputReply); ok && decodePiece(data, reply) {
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}

// The fields of OutputReply, with their wire types, as they stand before a
// value.
const (
	tagStream  = 1<<3 | uint64(protowire.VarintType)
	tagOffset  = 2<<3 | uint64(protowire.VarintType)
	tagData    = 3<<3 | uint64(protowire.BytesType)
	tagOmitted = 4<<3 | uint64(protowire.VarintType)
)

// decodePiece decodes a message that holds a piece of output. It says false,
// having decided nothing, for any other, and for one that is malformed.
func decodePiece(data mem.BufferSlice, reply *pb.OutputReply) bool {
	r := data.Reader()
	defer r.Close()
	buf := reply.Data[:0]
	reply.Stream, reply.Offset, reply.Omitted, reply.Exit = 0, 0, 0, nil
	for r.Remaining() > 0 {
		tag, err := binary.ReadUvarint(r)
		if err != nil {
			return false
		}
		n, err := binary.ReadUvarint(r) // the value, or the length of the data
		if err != nil {
			return false
		}
		switch tag {
		case tagStream:
			reply.Stream = uint32(n)
		case tagOffset:
			reply.Offset = int64(n)
		case tagOmitted:
			reply.Omitted = int64(n)
		case tagData:
			if n > uint64(r.Remaining()) {
				return false
			}
			if uint64(cap(buf)) < n {
				buf = make([]byte, n)
			}
			buf = buf[:n]
			if _, err := io.ReadFull(r, buf); err != nil && n > 0 {
				return false
			}
		default:
			return false
		}
	}
	reply.Data = buf
	return true
}
