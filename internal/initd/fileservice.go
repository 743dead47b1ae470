//go:build linux

package initd

import (
	"bufio"
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/skerry-run/skerry"
	pb "github.com/skerry-run/skerry/internal/initproto"
	"github.com/skerry-run/skerry/internal/sandboxfs"
)

// maxReplyBytes bounds a reply that lists things, with room for its frame.
const maxReplyBytes = pb.MaxMessageBytes - 64<<10

// fileService answers the calls about files. Its errors are statuses already.
type fileService struct{ fs *sandboxfs.FS }

func (s fileService) ReadFile(r *pb.ReadFileRequest, stream grpc.ServerStreamingServer[pb.FileChunk]) error {
	send := func(data []byte) error { return stream.Send(&pb.FileChunk{Data: data}) }
	info, err := s.fs.ReadInfo(stream.Context(), string(r.Path), r.Offset, r.Length, pieces(send), func(info skerry.FileInfo) error {
		return stream.Send(&pb.FileChunk{Info: fileMessage(info)})
	})
	if err != nil {
		return pb.ToStatus(err)
	}
	return pb.ToStatus(stream.Send(&pb.FileChunk{Info: fileMessage(info)}))
}

func (s fileService) WriteFile(stream grpc.ClientStreamingServer[pb.WriteFileRequest, pb.FileInfo]) error {
	first, body, err := receive("write file", stream, (*pb.WriteFileRequest).GetPath)
	if err != nil {
		return pb.ToStatus(err)
	}
	info, err := s.fs.Write(stream.Context(), string(first.Path), body, skerry.WriteOptions{Mode: first.Mode, Create: first.Create})
	if err != nil {
		return pb.ToStatus(err)
	}
	return pb.ToStatus(stream.SendAndClose(fileMessage(info)))
}

func (s fileService) ListFiles(ctx context.Context, r *pb.ListFilesRequest) (*pb.ListFilesReply, error) {
	list, err := s.fs.List(ctx, string(r.Path), skerry.ListOptions{Recursive: r.Recursive, Limit: int(r.Limit)})
	if err != nil {
		return nil, pb.ToStatus(err)
	}
	reply := &pb.ListFilesReply{Files: make([]*pb.FileInfo, len(list))}
	for i, info := range list {
		reply.Files[i] = fileMessage(info)
	}
	if size := proto.Size(reply); size > maxReplyBytes {
		return nil, pb.ToStatus(skerry.Errorf(skerry.Busy, "list files", "the list has %d bytes, at most %d", size, maxReplyBytes).
			WithHint("list a folder below it, or search with Glob"))
	}
	return reply, nil
}

func (s fileService) StatFile(ctx context.Context, r *pb.PathRequest) (*pb.FileInfo, error) {
	info, err := s.fs.Stat(ctx, string(r.Path))
	if err != nil {
		return nil, pb.ToStatus(err)
	}
	return fileMessage(info), nil
}

func (s fileService) MoveFile(ctx context.Context, r *pb.MoveRequest) (*pb.Empty, error) {
	return done(s.fs.Move(ctx, string(r.From), string(r.To)))
}

func (s fileService) RemoveFile(ctx context.Context, r *pb.RemoveRequest) (*pb.Empty, error) {
	return done(s.fs.Remove(ctx, string(r.Path), r.Recursive))
}

func (s fileService) MakeDirectory(ctx context.Context, r *pb.PathRequest) (*pb.Empty, error) {
	return done(s.fs.Mkdir(ctx, string(r.Path)))
}

func done(err error) (*pb.Empty, error) {
	if err != nil {
		return nil, pb.ToStatus(err)
	}
	return &pb.Empty{}, nil
}

func (s fileService) Glob(ctx context.Context, r *pb.GlobRequest) (*pb.GlobReply, error) {
	found, err := s.fs.Glob(ctx, string(r.Dir), r.Pattern, int(r.Limit))
	if err != nil {
		return nil, pb.ToStatus(err)
	}
	reply, size := &pb.GlobReply{Truncated: found.Truncated}, 0
	for _, p := range found.Paths {
		const frame = 8 // tag and length of one field
		if size += len(p) + frame; size > maxReplyBytes {
			reply.Truncated = true
			break
		}
		reply.Paths = append(reply.Paths, []byte(p))
	}
	return reply, nil
}

func (s fileService) Grep(ctx context.Context, r *pb.GrepRequest) (*pb.GrepReply, error) {
	found, err := s.fs.Grep(ctx, skerry.GrepSpec{
		Pattern: r.Pattern, Literal: r.Literal, IgnoreCase: r.IgnoreCase, Dir: string(r.Dir), Glob: r.Glob, Limit: int(r.Limit),
	})
	if err != nil {
		return nil, pb.ToStatus(err)
	}
	reply := &pb.GrepReply{Truncated: found.Truncated}
	for _, m := range found.Matches {
		reply.Matches = append(reply.Matches, &pb.GrepMatch{Path: []byte(m.Path), Line: int32(m.Line), Text: []byte(m.Text)})
	}
	return reply, nil
}

func (s fileService) TarIn(stream grpc.ClientStreamingServer[pb.TarInRequest, pb.TarReply]) error {
	first, body, err := receive("unpack tar", stream, (*pb.TarInRequest).GetDir)
	if err != nil {
		return pb.ToStatus(err)
	}
	result, err := s.fs.TarIn(stream.Context(), string(first.Dir), body)
	if err != nil {
		return pb.ToStatus(err)
	}
	return pb.ToStatus(stream.SendAndClose(tarMessage(result)))
}

func (s fileService) TarOut(r *pb.PathRequest, stream grpc.ServerStreamingServer[pb.TarOutReply]) error {
	send := func(data []byte) error { return stream.Send(&pb.TarOutReply{Data: data}) }
	// An archive of small files is many small writes.
	out := bufio.NewWriterSize(pieces(send), pb.ChunkBytes)
	result, err := s.fs.TarOut(stream.Context(), string(r.Path), out)
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return pb.ToStatus(err)
	}
	return pb.ToStatus(stream.Send(&pb.TarOutReply{Done: tarMessage(result)}))
}

// pieces is a writer that sends what it is given in messages of the size that
// the protocol allows. What it is called with keeps nothing.
type pieces func(data []byte) error

func (send pieces) Write(p []byte) (int, error) {
	sent := 0
	for len(p) > 0 {
		n := min(len(p), pb.ChunkBytes)
		if err := send(p[:n]); err != nil {
			return sent, err
		}
		p, sent = p[n:], sent+n
	}
	return sent, nil
}

// incoming reads the data of a stream of messages. It ends only with a message
// that commits: a stream that just stops was cut.
type incoming struct {
	ctx       context.Context
	op        string
	data      []byte
	committed bool
	err       error
	next      func() (data []byte, commit bool, err error)
}

func (in *incoming) Read(p []byte) (int, error) {
	for len(in.data) == 0 {
		if in.err != nil {
			return 0, in.err
		}
		if in.committed {
			return 0, io.EOF
		}
		in.data, in.committed, in.err = in.next()
		switch {
		case errors.Is(in.err, io.EOF):
			in.err = skerry.Errorf(skerry.Invalid, in.op, "the stream ended before it was committed").WithHint("nothing was changed; send it again")
		case in.err != nil && in.ctx.Err() != nil:
			in.err = in.ctx.Err()
		}
	}
	if len(in.data) > pb.ChunkBytes {
		in.err = skerry.Errorf(skerry.Invalid, in.op, "%d bytes in one message, at most %d", len(in.data), pb.ChunkBytes)
		in.data = nil
		return 0, in.err
	}
	n := copy(p, in.data)
	in.data = in.data[n:]
	return n, nil
}

// dataMessage is a message of a stream that brings data.
type dataMessage interface {
	GetData() []byte
	GetCommit() bool
}

// receive takes the first message of a stream and gives what reads the data of
// all. name gives the path that only the first message may have.
func receive[M dataMessage](op string, stream interface {
	Context() context.Context
	Recv() (M, error)
}, name func(M) []byte) (first M, body *incoming, err error) {
	first, err = stream.Recv()
	if errors.Is(err, io.EOF) {
		err = skerry.Errorf(skerry.Invalid, op, "the stream was empty")
	}
	if err != nil {
		return first, nil, err
	}
	body = &incoming{ctx: stream.Context(), op: op, data: first.GetData(), committed: first.GetCommit()}
	body.next = func() ([]byte, bool, error) {
		m, err := stream.Recv()
		if err != nil {
			return nil, false, err
		}
		if len(name(m)) > 0 {
			return nil, false, skerry.Errorf(skerry.Invalid, op, "only the first message names the path")
		}
		return m.GetData(), m.GetCommit(), nil
	}
	return first, body, nil
}

func fileMessage(i skerry.FileInfo) *pb.FileInfo {
	return &pb.FileInfo{
		Path: []byte(i.Path), Type: string(i.Type), Size: i.Size, Mode: i.Mode,
		ModifiedUnixNs: i.Modified.UnixNano(), Target: []byte(i.Target), Sha256: i.SHA256,
	}
}

func tarMessage(r skerry.TarResult) *pb.TarReply {
	return &pb.TarReply{Files: r.Files, Bytes: r.Bytes, Skipped: r.Skipped}
}
