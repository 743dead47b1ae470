//go:build linux

package initd

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/skerry-run/skerry"
	pb "github.com/skerry-run/skerry/internal/initproto"
	"github.com/skerry-run/skerry/internal/sandboxfs"
)

// noCalls is one level deeper than the calls that count.
type noCalls struct{ pb.UnimplementedInitServer }

type filesOnly struct {
	noCalls
	fileService
}

// dialFiles serves the file calls of a new sandbox over a connection in memory.
func dialFiles(t *testing.T) (client pb.InitClient, workspace string) {
	t.Helper()
	base := t.TempDir()
	var dirs [3]string
	for i, name := range []string{"workspace", "home", "tmp"} {
		dirs[i] = filepath.Join(base, name)
		if err := os.Mkdir(dirs[i], 0o755); err != nil {
			t.Fatal(err)
		}
	}
	fs, err := sandboxfs.New(dirs[0], dirs[1], dirs[2])
	if err != nil {
		t.Fatal(err)
	}
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer(grpc.MaxRecvMsgSize(pb.MaxMessageBytes), grpc.MaxSendMsgSize(pb.MaxMessageBytes))
	pb.RegisterInitServer(server, filesOnly{fileService: fileService{fs}})
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	conn, err := grpc.NewClient("passthrough:///init",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(pb.MaxMessageBytes)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		<-served
		_ = fs.Close()
	})
	return pb.NewInitClient(conn), dirs[0]
}

func wantFileKind(t *testing.T, what string, err error, want skerry.Kind) {
	t.Helper()
	if got := skerry.KindOf(pb.FromStatus("test", err)); got != want {
		t.Errorf("%s gave %v (%s), want %s", what, err, got, want)
	}
}

func sendFile(t *testing.T, client pb.InitClient, messages ...*pb.WriteFileRequest) (*pb.FileInfo, error) {
	t.Helper()
	stream, err := client.WriteFile(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		if err := stream.Send(m); err != nil {
			break // the status says why
		}
	}
	return stream.CloseAndRecv()
}

func receiveFile(t *testing.T, client pb.InitClient, r *pb.ReadFileRequest) (data []byte, infos []*pb.FileInfo, err error) {
	t.Helper()
	stream, err := client.ReadFile(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return data, infos, nil
		}
		if err != nil {
			return data, infos, err
		}
		if len(m.Data) > pb.ChunkBytes {
			t.Errorf("a message carries %d bytes", len(m.Data))
		}
		data = append(data, m.Data...)
		if m.Info != nil {
			infos = append(infos, m.Info)
		}
	}
}

func TestAFileTravelsInPiecesAndReadsBackExactly(t *testing.T) {
	client, _ := dialFiles(t)
	data := make([]byte, 3*pb.ChunkBytes+17)
	r := rand.NewChaCha8([32]byte{})
	_, _ = r.Read(data)
	name := []byte("a/\xff\n\"' -rf") // B131, B133, B134
	messages := []*pb.WriteFileRequest{{Path: name, Mode: 0o755, Data: data[:5]}}
	for rest := data[5:]; len(rest) > 0; {
		n := min(len(rest), pb.ChunkBytes)
		messages = append(messages, &pb.WriteFileRequest{Data: rest[:n]})
		rest = rest[n:]
	}
	messages = append(messages, &pb.WriteFileRequest{Commit: true})
	info, err := sendFile(t, client, messages...)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	want := hex.EncodeToString(sum[:])
	if info.Sha256 != want || info.Size != int64(len(data)) || info.Mode != 0o755 || !bytes.Equal(info.Path, name) {
		t.Errorf("write answered %v", info)
	}
	got, infos, err := receiveFile(t, client, &pb.ReadFileRequest{Path: name, Length: -1})
	if err != nil || !bytes.Equal(got, data) {
		t.Fatalf("read %d bytes, %v; want %d", len(got), err, len(data))
	}
	if len(infos) != 2 || infos[0].Sha256 != "" || infos[0].Size != int64(len(data)) || infos[1].Sha256 != want {
		t.Errorf("the file was described as %v", infos)
	}
	got, infos, err = receiveFile(t, client, &pb.ReadFileRequest{Path: name, Offset: 10, Length: 5})
	if err != nil || !bytes.Equal(got, data[10:15]) || infos[1].Sha256 != "" {
		t.Errorf("a range gave %x, %v, %v", got, infos, err)
	}
}

func TestAStreamWithoutCommitChangesNothing(t *testing.T) {
	client, workspace := dialFiles(t)
	if _, err := sendFile(t, client, &pb.WriteFileRequest{Path: []byte("f"), Data: []byte("old"), Commit: true}); err != nil {
		t.Fatal(err)
	}
	_, err := sendFile(t, client, &pb.WriteFileRequest{Path: []byte("f"), Data: []byte("new")})
	wantFileKind(t, "a cut stream", err, skerry.Invalid)
	_, err = sendFile(t, client)
	wantFileKind(t, "an empty stream", err, skerry.Invalid)
	_, err = sendFile(t, client, &pb.WriteFileRequest{Path: []byte("f")}, &pb.WriteFileRequest{Path: []byte("g"), Commit: true})
	wantFileKind(t, "a second name", err, skerry.Invalid)
	_, err = sendFile(t, client, &pb.WriteFileRequest{Path: []byte("f"), Data: make([]byte, pb.ChunkBytes+1), Commit: true})
	wantFileKind(t, "a message that is too large", err, skerry.Invalid)

	// A client that goes away in the middle.
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := client.WriteFile(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&pb.WriteFileRequest{Path: []byte("f"), Data: []byte("newer")}); err != nil {
		t.Fatal(err)
	}
	cancel()
	_, err = stream.CloseAndRecv()
	wantFileKind(t, "a cancelled stream", err, skerry.Unavailable)

	got, _, err := receiveFile(t, client, &pb.ReadFileRequest{Path: []byte("f"), Length: -1})
	if err != nil || string(got) != "old" {
		t.Errorf("the file holds %q, %v; want old", got, err)
	}
	list, err := client.ListFiles(t.Context(), &pb.ListFilesRequest{Path: []byte(".")})
	if err != nil || len(list.Files) != 1 {
		t.Errorf("%s lists %v, %v; want f alone", workspace, list, err)
	}
}

func TestErrorsOfFilesKeepTheirKinds(t *testing.T) {
	client, workspace := dialFiles(t)
	ctx := t.Context()
	_, err := client.StatFile(ctx, &pb.PathRequest{Path: []byte("missing")})
	wantFileKind(t, "a missing file", err, skerry.NotFound)
	_, err = client.StatFile(ctx, &pb.PathRequest{Path: []byte("/etc/passwd")})
	wantFileKind(t, "a path outside", err, skerry.Denied)
	_, err = client.MakeDirectory(ctx, &pb.PathRequest{Path: []byte("a\x00b")})
	wantFileKind(t, "a NUL", err, skerry.Invalid)
	if _, err = client.MakeDirectory(ctx, &pb.PathRequest{Path: []byte("d/e")}); err != nil {
		t.Fatal(err)
	}
	_, err = client.RemoveFile(ctx, &pb.RemoveRequest{Path: []byte("d")})
	wantFileKind(t, "a folder that is not empty", err, skerry.Conflict)
	if _, err = client.MoveFile(ctx, &pb.MoveRequest{From: []byte("d"), To: []byte("f")}); err != nil {
		t.Error(err)
	}
	_, _, err = receiveFile(t, client, &pb.ReadFileRequest{Path: []byte("f"), Length: -1})
	wantFileKind(t, "reading a folder", err, skerry.Invalid)
	if _, err = client.RemoveFile(ctx, &pb.RemoveRequest{Path: []byte("f"), Recursive: true}); err != nil {
		t.Error(err)
	}
	_, err = client.Glob(ctx, &pb.GlobRequest{Pattern: "["})
	wantFileKind(t, "a bad glob", err, skerry.Invalid)
	_, err = client.Grep(ctx, &pb.GrepRequest{Pattern: "("})
	wantFileKind(t, "a bad expression", err, skerry.Invalid)
	_, err = client.ListFiles(ctx, &pb.ListFilesRequest{Path: []byte("."), Limit: -1})
	wantFileKind(t, "a negative limit", err, skerry.Invalid)
	if left, _ := os.ReadDir(workspace); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

func TestTenThousandLongNamesFitInOneReply(t *testing.T) {
	client, workspace := dialFiles(t)
	const count = 10_000
	for i := range count {
		name := fmt.Sprintf("%05d%s", i, strings.Repeat("n", 250))
		if err := os.WriteFile(filepath.Join(workspace, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	list, err := client.ListFiles(t.Context(), &pb.ListFilesRequest{Path: []byte(".")})
	if err != nil || len(list.Files) != count {
		t.Fatalf("got %d entries, %v; want %d", len(list.GetFiles()), err, count)
	}
	found, err := client.Glob(t.Context(), &pb.GlobRequest{Pattern: "*"})
	if err != nil || len(found.Paths) != count || found.Truncated {
		t.Errorf("glob found %d, %v", len(found.GetPaths()), err)
	}
	// Some thousand more would not fit, so deep below; asking for them says what to do.
	deep := workspace
	for range 12 {
		deep = filepath.Join(deep, strings.Repeat("d", 250))
	}
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range 7_000 {
		if err := os.WriteFile(filepath.Join(deep, fmt.Sprint(i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	_, err = client.ListFiles(t.Context(), &pb.ListFilesRequest{Path: []byte("."), Recursive: true, Limit: 100_000})
	wantFileKind(t, "a list that is too large", err, skerry.Busy)
	if skerry.HintOf(pb.FromStatus("list", err)) == "" {
		t.Errorf("%v has no hint", err)
	}
	found, err = client.Glob(t.Context(), &pb.GlobRequest{Pattern: "**", Limit: 100_000})
	if err != nil || !found.Truncated {
		t.Errorf("a glob that is too large gave %d paths, truncated %v, %v", len(found.GetPaths()), found.GetTruncated(), err)
	}
}

func TestGrepTravels(t *testing.T) {
	client, _ := dialFiles(t)
	if _, err := sendFile(t, client, &pb.WriteFileRequest{Path: []byte("a.txt"), Data: []byte("one\ntwo \xff\n"), Commit: true}); err != nil {
		t.Fatal(err)
	}
	found, err := client.Grep(t.Context(), &pb.GrepRequest{Pattern: "TWO", IgnoreCase: true, Glob: "*.txt"})
	if err != nil || len(found.Matches) != 1 || found.Matches[0].Line != 2 || string(found.Matches[0].Text) != "two \xff" {
		t.Errorf("grep gave %v, %v", found, err)
	}
}

func TestATreeTravelsAsTar(t *testing.T) {
	client, workspace := dialFiles(t)
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	big := bytes.Repeat([]byte("0123456789abcdef"), 40_000)
	for name, data := range map[string][]byte{"a.txt": []byte("a"), "deep/er/b.bin": big} {
		if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(data)), Mode: 0o600}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	send := func(commit bool) (*pb.TarReply, error) {
		stream, err := client.TarIn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = stream.Send(&pb.TarInRequest{Dir: []byte("in")})
		for rest := archive.Bytes(); len(rest) > 0; {
			n := min(len(rest), 100_001)
			if stream.Send(&pb.TarInRequest{Data: rest[:n]}) != nil {
				break
			}
			rest = rest[n:]
		}
		if commit {
			_ = stream.Send(&pb.TarInRequest{Commit: true})
		}
		return stream.CloseAndRecv()
	}
	_, err := send(false)
	wantFileKind(t, "an archive without commit", err, skerry.Invalid)
	if left, _ := os.ReadDir(workspace); len(left) > 0 {
		t.Fatalf("%v is left of an archive without commit", left)
	}
	reply, err := send(true)
	if err != nil || reply.Files != 2 || reply.Bytes != int64(1+len(big)) {
		t.Fatalf("tar in gave %v, %v", reply, err)
	}

	out, err := client.TarOut(t.Context(), &pb.PathRequest{Path: []byte("in")})
	if err != nil {
		t.Fatal(err)
	}
	var back bytes.Buffer
	var done *pb.TarReply
	for {
		m, err := out.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if done != nil {
			t.Error("a message follows the last one")
		}
		back.Write(m.Data)
		done = m.Done
	}
	if done == nil || done.Files != 2 {
		t.Errorf("tar out ended with %v", done)
	}
	got := map[string]int{}
	for r := tar.NewReader(&back); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		got[h.Name] = len(data)
	}
	if got["a.txt"] != 1 || got["deep/er/b.bin"] != len(big) {
		t.Errorf("the archive holds %v", got)
	}
}
