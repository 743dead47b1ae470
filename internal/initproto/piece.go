package initproto

import (
	"encoding/binary"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// OutputPiece is an OutputReply with a piece of output, for sending only: its
// data go from where they are into the stream, without a copy into a message.
// Data is nil when there is none; it stays the sender's to free.
type OutputPiece struct {
	Stream  uint32
	Offset  int64
	Data    mem.Buffer
	Omitted int64
}

// The numbers of OutputReply's fields.
const (
	fieldStream  protowire.Number = 1
	fieldOffset  protowire.Number = 2
	fieldData    protowire.Number = 3
	fieldOmitted protowire.Number = 4
)

// marshal gives p as it stands on the wire. The data are last, whatever their
// number: protobuf takes fields in any order.
func (p *OutputPiece) marshal() mem.BufferSlice {
	const most = 4*binary.MaxVarintLen64 + 4 // the values, and a tag for each
	head := make([]byte, 0, most)
	number := func(field protowire.Number, n uint64) {
		if n != 0 {
			head = protowire.AppendVarint(protowire.AppendTag(head, field, protowire.VarintType), n)
		}
	}
	number(fieldStream, uint64(p.Stream))
	number(fieldOffset, uint64(p.Offset))
	number(fieldOmitted, uint64(p.Omitted))
	if p.Data == nil || p.Data.Len() == 0 {
		return mem.BufferSlice{mem.SliceBuffer(head)}
	}
	head = protowire.AppendVarint(protowire.AppendTag(head, fieldData, protowire.BytesType), uint64(p.Data.Len()))
	p.Data.Ref()
	return mem.BufferSlice{mem.SliceBuffer(head), p.Data}
}
