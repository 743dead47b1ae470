package initproto

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// NewCodec gives the codec of both ends of the stream: protobuf as gRPC has it,
// with buffers of pool.
func NewCodec(pool mem.BufferPool) encoding.CodecV2 { return codec{pool} }

type codec struct{ pool mem.BufferPool }

func (codec) Name() string { return "proto" }

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if p, ok := v.(*OutputPiece); ok {
		return p.marshal(), nil
	}
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("marshal: a %T is no message", v)
	}
	buf := c.pool.Get(proto.Size(m))
	data, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend((*buf)[:0], m)
	if err != nil {
		c.pool.Put(buf)
		return nil, err
	}
	*buf = data
	return mem.BufferSlice{mem.NewBuffer(buf, c.pool)}, nil
}

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("unmarshal: a %T is no message", v)
	}
	buf := data.MaterializeToBuffer(c.pool)
	defer buf.Free()
	return proto.Unmarshal(buf.ReadOnlyData(), m)
}
