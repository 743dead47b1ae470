package attach

import (
	"bytes"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	pb "github.com/skerry-run/skerry/internal/initproto"
)

// Whatever the init sends, our decoder and protobuf's agree on what it says,
// wherever the frames are cut.
func FuzzOutputCodec(f *testing.F) {
	for _, m := range []*pb.OutputReply{
		{}, {Stream: 1, Offset: 5, Data: []byte("hello")}, {Stream: 2, Offset: 1 << 40, Omitted: 7},
		{Stream: 1, Offset: -1, Omitted: -1, Data: bytes.Repeat([]byte{'x'}, 300)},
		{Exit: &pb.Exit{Outcome: "exited", HasExitCode: true}},
		{Stream: 1, Data: []byte("x"), Exit: &pb.Exit{}},
	} {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, uint(len(data)/2))
		f.Add(append(data, data...), uint(1))
	}
	f.Add([]byte{0x1a, 0xff, 0xff, 0xff, 0xff, 0x0f}, uint(2)) // data longer than the message
	f.Add([]byte{0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01}, uint(3))
	codec := newOutputCodec()
	reused := new(pb.OutputReply)
	f.Fuzz(func(t *testing.T, data []byte, cut uint) {
		want := new(pb.OutputReply)
		wantErr := proto.Unmarshal(data, want)
		at := int(cut % uint(len(data)+1))
		frames := mem.BufferSlice{mem.SliceBuffer(data[:at]), mem.SliceBuffer(data[at:])}
		err := codec.Unmarshal(frames, reused)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("error %v, protobuf's %v", err, wantErr)
		}
		if err != nil {
			return
		}
		if reused.Stream != want.Stream || reused.Offset != want.Offset || reused.Omitted != want.Omitted ||
			!bytes.Equal(reused.Data, want.Data) || !proto.Equal(reused.Exit, want.Exit) {
			t.Fatalf("decoded %v, want %v", reused, want)
		}
	})
}
