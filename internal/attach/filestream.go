package attach

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"time"

	"google.golang.org/grpc"

	"github.com/skerry-run/skerry"
	pb "github.com/skerry-run/skerry/internal/initproto"
)

// Read copies a range of a file to w. After a break it goes on where it was,
// unless the file has changed meanwhile, which is a Conflict.
func (f files) Read(ctx context.Context, name string, offset, length int64, w io.Writer) (skerry.FileInfo, error) {
	const op = "read file"
	if err := checkPath(op, name); err != nil {
		return skerry.FileInfo{}, err
	}
	if offset < 0 {
		return skerry.FileInfo{}, skerry.Errorf(skerry.Invalid, op, "the offset %d is negative", offset)
	}
	r := &fileRead{files: f, name: name, offset: offset, length: max(length, -1), w: w, hash: sha256.New()}
	err := f.sandbox.retry(ctx, op, r.attempt)
	return r.info, err
}

// fileRead is one call of Read, across streams.
type fileRead struct {
	files          files
	name           string
	offset, length int64 // as asked; length -1 is to the end
	w              io.Writer

	got    int64
	hash   hash.Hash
	opened bool
	info   skerry.FileInfo // of the first message, at last of the last
}

func (r *fileRead) attempt(ctx context.Context, l *link) error {
	const op = "read file"
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	request := &pb.ReadFileRequest{Path: []byte(r.name), Offset: r.offset + r.got, Length: -1}
	if r.length >= 0 {
		request.Length = r.length - r.got
	}
	stream, err := l.client.ReadFile(ctx, request, grpc.MaxCallRecvMsgSize(pb.ChunkBytes+2*messageSlack))
	if err != nil {
		return err
	}
	chunk, err := stream.Recv()
	if err != nil {
		return endOf(op, err)
	}
	if err := r.open(op, chunk); err != nil {
		return err
	}
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return violation(op, "the file ended without its last message")
		}
		if err != nil {
			return err
		}
		if chunk.Info != nil {
			if err := r.finish(op, chunk); err != nil {
				return err
			}
			defer time.AfterFunc(endGrace, cancel).Stop()
			return ended(op, stream.RecvMsg(chunk))
		}
		if err := r.data(op, chunk.Data); err != nil {
			return err
		}
	}
}

// open takes the first message of a stream.
func (r *fileRead) open(op string, chunk *pb.FileChunk) error {
	info, err := r.files.infoOf(op, chunk.Info, r.name)
	if err != nil {
		return err
	}
	if r.opened && (info.Size != r.info.Size || !info.Modified.Equal(r.info.Modified)) {
		return skerry.Errorf(skerry.Conflict, op, "the stream broke and the file changed before it could be read further").WithHint("read it again from the start")
	}
	r.opened, r.info = true, info
	if len(chunk.Data) > 0 {
		return r.data(op, chunk.Data)
	}
	return nil
}

func (r *fileRead) data(op string, p []byte) error {
	n := int64(len(p))
	switch {
	case n == 0:
		return violation(op, "a piece of a file with nothing in it")
	case n > pb.ChunkBytes:
		return violation(op, "a piece of %d bytes, at most %d", n, pb.ChunkBytes)
	case r.length >= 0 && r.got+n > r.length:
		return violation(op, "more than the %d bytes that were asked for", r.length)
	case r.offset+r.got+n > r.info.Size: // a file that grows meanwhile is read up to the size it had
		return violation(op, "more than the %d bytes that the file has", r.info.Size)
	}
	r.hash.Write(p)
	if _, err := r.w.Write(p); err != nil {
		return &ownError{err}
	}
	r.got += n
	r.files.sandbox.budget.delivered(len(p))
	return nil
}

// finish takes the last message. The digest is our own, of what was written
// to w; the init's must agree where it gives one.
func (r *fileRead) finish(op string, chunk *pb.FileChunk) error {
	if len(chunk.Data) > 0 {
		return violation(op, "the last message came together with data")
	}
	info, err := r.files.infoOf(op, chunk.Info, r.name)
	if err != nil {
		return err
	}
	r.info = info
	whole := r.offset == 0 && r.got == info.Size
	sum := hex.EncodeToString(r.hash.Sum(nil))
	if info.SHA256 != "" && whole && info.SHA256 != sum {
		return violation(op, "the digest of the file is not that of the bytes that came")
	}
	r.info.SHA256 = ""
	if whole {
		r.info.SHA256 = sum
	}
	return nil
}

// endOf is the error of a stream that ended before its first message.
func endOf(op string, err error) error {
	if errors.Is(err, io.EOF) {
		return violation(op, "an answer with nothing in it")
	}
	return err
}

// Write puts all of r in a file. It is tried again after a break only while
// nothing was read from r.
func (f files) Write(ctx context.Context, name string, r io.Reader, opts skerry.WriteOptions) (skerry.FileInfo, error) {
	const op = "write file"
	if err := checkPath(op, name); err != nil {
		return skerry.FileInfo{}, err
	}
	if opts.Mode&^0o7777 != 0 {
		return skerry.FileInfo{}, skerry.Errorf(skerry.Invalid, op, "mode %#o is more than permission bits", opts.Mode)
	}
	up := &upload{r: r, hash: sha256.New()}
	var info skerry.FileInfo
	err := f.sandbox.upload(ctx, op, up, func(ctx context.Context, l *link) error {
		stream, err := l.client.WriteFile(ctx)
		if err != nil {
			return err
		}
		reply, err := send(up, stream,
			&pb.WriteFileRequest{Path: []byte(name), Mode: opts.Mode, Create: opts.Create},
			func(p []byte) *pb.WriteFileRequest { return &pb.WriteFileRequest{Data: p} },
			&pb.WriteFileRequest{Commit: true})
		if err != nil {
			return err
		}
		info, err = f.infoOf(op, reply, name)
		if err != nil {
			return err
		}
		sum := hex.EncodeToString(up.hash.Sum(nil))
		if info.SHA256 != sum || info.Size != up.sent {
			return violation(op, "it wrote %d bytes that are not the %d that were sent", info.Size, up.sent)
		}
		return nil
	})
	return info, err
}

// TarIn unpacks a tar stream below dir. It is tried again after a break only
// while nothing was read from r.
func (f files) TarIn(ctx context.Context, dir string, r io.Reader) (skerry.TarResult, error) {
	const op = "unpack tar"
	if err := checkPath(op, dir); err != nil {
		return skerry.TarResult{}, err
	}
	up := &upload{r: r, hash: sha256.New()}
	var result skerry.TarResult
	err := f.sandbox.upload(ctx, op, up, func(ctx context.Context, l *link) error {
		stream, err := l.client.TarIn(ctx)
		if err != nil {
			return err
		}
		reply, err := send(up, stream,
			&pb.TarInRequest{Dir: []byte(dir)},
			func(p []byte) *pb.TarInRequest { return &pb.TarInRequest{Data: p} },
			&pb.TarInRequest{Commit: true})
		if err != nil {
			return err
		}
		result, err = tarResult(op, reply)
		return err
	})
	return result, err
}

// TarOut writes the tree below a path as a tar stream. It is tried again after
// a break only while nothing was written to w: the tree may have changed.
func (f files) TarOut(ctx context.Context, name string, w io.Writer) (skerry.TarResult, error) {
	const op = "pack tar"
	if err := checkPath(op, name); err != nil {
		return skerry.TarResult{}, err
	}
	var result skerry.TarResult
	var wrote bool
	for {
		broke, err := f.sandbox.once(ctx, op, func(ctx context.Context, l *link) (err error) {
			result, err = f.tarOut(ctx, l, op, name, w, &wrote)
			return err
		})
		if broke && wrote {
			return skerry.TarResult{}, skerry.Errorf(skerry.Unavailable, op, "the stream broke within the tar stream: %w", err).WithHint("start it again from the beginning")
		}
		if !broke {
			return result, err
		}
	}
}

func (f files) tarOut(ctx context.Context, l *link, op, name string, w io.Writer, wrote *bool) (skerry.TarResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := l.client.TarOut(ctx, &pb.PathRequest{Path: []byte(name)})
	if err != nil {
		return skerry.TarResult{}, err
	}
	for {
		reply, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return skerry.TarResult{}, violation(op, "the tar stream ended without its last message")
		case err != nil:
			return skerry.TarResult{}, err
		case reply.Done != nil && len(reply.Data) > 0 || reply.Done == nil && len(reply.Data) == 0 || len(reply.Data) > pb.ChunkBytes:
			return skerry.TarResult{}, violation(op, "a message of a tar stream with %d bytes, last: %v", len(reply.Data), reply.Done != nil)
		case reply.Done != nil:
			result, err := tarResult(op, reply.Done)
			if err != nil {
				return skerry.TarResult{}, err
			}
			defer time.AfterFunc(endGrace, cancel).Stop()
			return result, ended(op, stream.RecvMsg(reply))
		}
		*wrote = true
		if _, err := w.Write(reply.Data); err != nil {
			return skerry.TarResult{}, &ownError{err}
		}
		f.sandbox.budget.delivered(len(reply.Data))
	}
}

func tarResult(op string, r *pb.TarReply) (skerry.TarResult, error) {
	if !counter(r.Files) || !counter(r.Bytes) || len(r.Skipped) > maxSkipped {
		return skerry.TarResult{}, violation(op, "%d files, %d bytes, %d skipped", r.Files, r.Bytes, len(r.Skipped))
	}
	result := skerry.TarResult{Files: r.Files, Bytes: r.Bytes}
	for _, s := range r.Skipped {
		result.Skipped = append(result.Skipped, clean(s, maxSkippedText))
	}
	return result, nil
}
