package attach

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"os"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/skerry-run/skerry"
	pb "github.com/skerry-run/skerry/internal/initproto"
)

// afterTests undo what tests share.
var afterTests []func()

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		for _, f := range afterTests {
			f()
		}
		os.Exit(code)
	}))
}

// fakeInit speaks the init's protocol and runs nothing: its commands are byte
// slices. It stands in where faults are needed that no real init has.
type fakeInit struct {
	pb.UnimplementedInitServer

	bootID  string
	uid     string
	key     []byte // set by Hello
	trusted bool

	mu       sync.Mutex
	commands map[string]*fakeCommand
	order    []string
	files    map[string][]byte
	starts   int // programs really started
	signals  int
	shutdown bool

	// The hooks change an answer; nil leaves it.
	hello func(*pb.HelloReply)
	start func(*pb.StartReply)
	// output takes over the whole stream.
	output func(*pb.OutputRequest, grpc.ServerStreamingServer[pb.OutputReply]) error
	wait   func(context.Context, *pb.Exit) error
	extend func(context.Context, *pb.ExtendReply) error
	unary  func(ctx context.Context, method string, reply any) error
	stdin  func(*pb.StdinReply)
	read   func(*pb.ReadFileRequest, grpc.ServerStreamingServer[pb.FileChunk]) error
}

type fakeCommand struct {
	spec           *pb.StartRequest
	stdout, stderr []byte
	lost           int64 // bytes at the start of stdout that are gone
	exit           *pb.Exit
	done           chan struct{} // closed when exit is set

	inMu   sync.Mutex // one stream of input at a time
	in     []byte
	inDone bool
}

func newFake() *fakeInit {
	return &fakeInit{bootID: "boot-1", trusted: true, commands: map[string]*fakeCommand{}, files: map[string][]byte{}}
}

// exited is the end of a command that wrote these.
func exited(code int32, stdout, stderr []byte) *pb.Exit {
	return &pb.Exit{Outcome: "exited", HasExitCode: true, ExitCode: code, DurationUs: 1500,
		StdoutBytes: int64(len(stdout)), StderrBytes: int64(len(stderr)), Usage: &pb.Usage{CpuSeconds: 0.01}}
}

// add puts in a command that has ended.
func (f *fakeInit) add(id string, stdout, stderr []byte) *fakeCommand {
	c := &fakeCommand{stdout: stdout, stderr: stderr, exit: exited(0, stdout, stderr), done: make(chan struct{})}
	close(c.done)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.commands[id] = c
	f.order = append(f.order, id)
	return c
}

// run puts in a command that runs until end is called; it keeps its input.
func (f *fakeInit) run(id string) (c *fakeCommand, end func()) {
	c = &fakeCommand{done: make(chan struct{})}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.commands[id] = c
	f.order = append(f.order, id)
	return c, func() {
		c.exit = exited(0, c.stdout, c.stderr)
		close(c.done)
	}
}

func (f *fakeInit) find(id string) (*fakeCommand, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c, ok := f.commands[id]; ok {
		return c, nil
	}
	return nil, pb.ToStatus(skerry.Errorf(skerry.NotFound, "", "there is no command %q", id))
}

func (f *fakeInit) info(id string, c *fakeCommand) *pb.CommandInfo {
	info := &pb.CommandInfo{Id: id, Pid: 7, StartedUnixMs: time.Now().UnixMilli()}
	select {
	case <-c.done:
		info.Exit = c.exit
	default:
	}
	return info
}

// session is one connection's part of the fake: who it is talking to.
type session struct {
	*fakeInit
	nonces [2][]byte
	proved bool
}

func (s *session) Hello(_ context.Context, r *pb.HelloRequest) (*pb.HelloReply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	setting := r.SetKey != nil && s.key == nil
	if setting {
		s.key = r.SetKey
	}
	nonce := make([]byte, pb.NonceBytes)
	rand.Read(nonce)
	s.nonces = [2][]byte{r.ClientNonce, nonce}
	s.proved = s.trusted || setting
	reply := &pb.HelloReply{Protocol: pb.Version, Version: "fake", InitNonce: nonce, SandboxUid: s.uid, BootId: s.bootID, Authenticated: s.proved, Session: true}
	if s.key != nil {
		reply.Proof = mac(s.key, "init", r.ClientNonce, nonce)
	}
	if s.hello != nil {
		s.hello(reply)
	}
	return reply, nil
}

func (s *session) Prove(_ context.Context, r *pb.ProveRequest) (*pb.ProveReply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.key == nil || !hmac.Equal(r.Proof, mac(s.key, "client", s.nonces[0], s.nonces[1])) {
		return nil, pb.ToStatus(skerry.Errorf(skerry.Denied, "", "wrong proof"))
	}
	s.proved = true
	return &pb.ProveReply{}, nil
}

func (f *fakeInit) Start(_ context.Context, r *pb.StartRequest) (*pb.StartReply, error) {
	f.mu.Lock()
	c, ok := f.commands[r.Id]
	if !ok {
		f.starts++
		out := []byte(strings.Join(toStrings(r.Argv), " ") + "\n")
		c = &fakeCommand{spec: r, stdout: out, exit: exited(0, out, nil), done: make(chan struct{})}
		if r.Stdin {
			c.exit = nil
		} else {
			close(c.done)
		}
		f.commands[r.Id] = c
		f.order = append(f.order, r.Id)
	}
	f.mu.Unlock()
	reply := &pb.StartReply{Attached: ok, Info: f.info(r.Id, c)}
	if f.start != nil {
		f.start(reply)
	}
	return reply, nil
}

func toStrings(b [][]byte) []string {
	var s []string
	for _, x := range b {
		s = append(s, string(x))
	}
	return s
}

func (f *fakeInit) Output(r *pb.OutputRequest, stream grpc.ServerStreamingServer[pb.OutputReply]) error {
	if f.output != nil {
		return f.output(r, stream)
	}
	c, err := f.find(r.Id)
	if err != nil {
		return err
	}
	return c.send(r, stream)
}

// send interleaves both outputs in chunks, then tells the end.
func (c *fakeCommand) send(r *pb.OutputRequest, stream grpc.ServerStreamingServer[pb.OutputReply]) error {
	at := map[uint32]int64{1: r.StdoutOffset, 2: r.StderrOffset}
	data := map[uint32][]byte{1: c.stdout, 2: c.stderr}
	var omitted int64
	if at[1] < c.lost {
		omitted, at[1] = c.lost-at[1], c.lost
	}
	for at[1] < int64(len(data[1])) || at[2] < int64(len(data[2])) || omitted > 0 {
		for _, s := range []uint32{1, 2} {
			end := min(at[s]+chunkOf(s), int64(len(data[s])))
			if end <= at[s] && omitted == 0 {
				continue
			}
			if err := stream.Send(&pb.OutputReply{Stream: s, Offset: at[s], Data: data[s][at[s]:end], Omitted: omitted}); err != nil {
				return err
			}
			at[s], omitted = end, 0
		}
	}
	select {
	case <-c.done:
		return stream.Send(&pb.OutputReply{Exit: c.exit})
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
}

func chunkOf(stream uint32) int64 {
	if stream == 1 {
		return 1000
	}
	return 333
}

func (f *fakeInit) Wait(ctx context.Context, r *pb.CommandRef) (*pb.Exit, error) {
	c, err := f.find(r.Id)
	if err != nil {
		return nil, err
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		return nil, pb.ToStatus(ctx.Err())
	}
	if f.wait != nil {
		return c.exit, f.wait(ctx, c.exit)
	}
	return c.exit, nil
}

func (f *fakeInit) Command(_ context.Context, r *pb.CommandRef) (*pb.CommandInfo, error) {
	c, err := f.find(r.Id)
	if err != nil {
		return nil, err
	}
	return f.info(r.Id, c), nil
}

func (f *fakeInit) Commands(context.Context, *pb.Empty) (*pb.CommandsReply, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	reply := &pb.CommandsReply{}
	for _, id := range f.order {
		reply.Commands = append(reply.Commands, f.info(id, f.commands[id]))
	}
	return reply, nil
}

func (f *fakeInit) Signal(context.Context, *pb.SignalRequest) (*pb.Empty, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.signals++
	return &pb.Empty{}, nil
}

func (f *fakeInit) Cancel(_ context.Context, r *pb.CancelRequest) (*pb.Exit, error) {
	c, err := f.find(r.Id)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.exit == nil {
		c.exit = &pb.Exit{Outcome: "cancelled", Reason: r.Reason}
		close(c.done)
	}
	return c.exit, nil
}

func (f *fakeInit) Resize(context.Context, *pb.ResizeRequest) (*pb.Empty, error) {
	return &pb.Empty{}, nil
}

func (f *fakeInit) StdinOffset(_ context.Context, r *pb.CommandRef) (*pb.StdinReply, error) {
	c, err := f.find(r.Id)
	if err != nil {
		return nil, err
	}
	c.inMu.Lock()
	defer c.inMu.Unlock()
	reply := &pb.StdinReply{Offset: int64(len(c.in)), Closed: c.inDone}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stdin != nil {
		f.stdin(reply)
	}
	return reply, nil
}

func (f *fakeInit) Stdin(stream grpc.ClientStreamingServer[pb.StdinRequest, pb.StdinReply]) error {
	var c *fakeCommand
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if c == nil {
			if c, err = f.find(r.Id); err != nil {
				return err
			}
		}
		c.inMu.Lock()
		have := int64(len(c.in)) - r.Offset // an older stream may have brought it meanwhile
		if have < 0 {
			c.inMu.Unlock()
			return pb.ToStatus(skerry.Errorf(skerry.Invalid, "", "input at %d, expected at %d", r.Offset, len(c.in)))
		}
		c.in = append(c.in, r.Data[min(have, int64(len(r.Data))):]...)
		c.inDone = c.inDone || r.Eof
		c.inMu.Unlock()
	}
	c.inMu.Lock()
	defer c.inMu.Unlock()
	reply := &pb.StdinReply{Offset: int64(len(c.in)), Closed: c.inDone}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stdin != nil {
		f.stdin(reply)
	}
	return stream.SendAndClose(reply)
}

func (f *fakeInit) ReadUsage(ctx context.Context, _ *pb.Empty) (*pb.Usage, error) {
	u := &pb.Usage{CpuSeconds: 1.5, MemoryPeakBytes: 4096, MemoryBytes: 2048, Pids: 3}
	if f.unary != nil {
		return u, f.unary(ctx, "ReadUsage", u)
	}
	return u, nil
}

func (f *fakeInit) Extend(ctx context.Context, r *pb.ExtendRequest) (*pb.ExtendReply, error) {
	reply := &pb.ExtendReply{RemainingMs: r.TtlMs}
	if f.extend != nil {
		return reply, f.extend(ctx, reply)
	}
	return reply, nil
}

func (f *fakeInit) Shutdown(context.Context, *pb.Empty) (*pb.Empty, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shutdown = true
	return &pb.Empty{}, nil
}

func (f *fakeInit) fileInfo(name string, data []byte) *pb.FileInfo {
	sum := sha256.Sum256(data)
	return &pb.FileInfo{Path: []byte(name), Type: "file", Size: int64(len(data)), Mode: 0o644, ModifiedUnixNs: 1e18, Sha256: hex.EncodeToString(sum[:])}
}

func (f *fakeInit) file(name []byte) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if d, ok := f.files[string(name)]; ok {
		return d, nil
	}
	return nil, pb.ToStatus(skerry.Errorf(skerry.NotFound, "", "there is no file %q", name))
}

func (f *fakeInit) ReadFile(r *pb.ReadFileRequest, stream grpc.ServerStreamingServer[pb.FileChunk]) error {
	if f.read != nil {
		return f.read(r, stream)
	}
	data, err := f.file(r.Path)
	if err != nil {
		return err
	}
	info := f.fileInfo(string(r.Path), data)
	first := f.fileInfo(string(r.Path), data)
	first.Sha256 = ""
	if err := stream.Send(&pb.FileChunk{Info: first}); err != nil {
		return err
	}
	from := min(r.Offset, int64(len(data)))
	end := int64(len(data))
	if r.Length >= 0 {
		end = min(end, from+r.Length)
	}
	for from < end {
		to := min(from+1000, end)
		if err := stream.Send(&pb.FileChunk{Data: data[from:to]}); err != nil {
			return err
		}
		from = to
	}
	return stream.Send(&pb.FileChunk{Info: info})
}

func (f *fakeInit) WriteFile(stream grpc.ClientStreamingServer[pb.WriteFileRequest, pb.FileInfo]) error {
	var name string
	var data []byte
	for first := true; ; first = false {
		r, err := stream.Recv()
		if err != nil {
			return err
		}
		if first {
			name = string(r.Path)
		}
		data = append(data, r.Data...)
		if r.Commit {
			break
		}
	}
	f.mu.Lock()
	f.files[name] = data
	f.mu.Unlock()
	return stream.SendAndClose(f.fileInfo(name, data))
}

func (f *fakeInit) StatFile(_ context.Context, r *pb.PathRequest) (*pb.FileInfo, error) {
	data, err := f.file(r.Path)
	if err != nil {
		return nil, err
	}
	return f.fileInfo(string(r.Path), data), nil
}

func (f *fakeInit) ListFiles(ctx context.Context, r *pb.ListFilesRequest) (*pb.ListFilesReply, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	reply := &pb.ListFilesReply{}
	for name, data := range f.files {
		reply.Files = append(reply.Files, f.fileInfo(name, data))
	}
	sort.Slice(reply.Files, func(i, j int) bool { return string(reply.Files[i].Path) < string(reply.Files[j].Path) })
	if f.unary != nil {
		return reply, f.unary(ctx, "ListFiles", reply)
	}
	return reply, nil
}

func (f *fakeInit) MoveFile(context.Context, *pb.MoveRequest) (*pb.Empty, error) {
	return &pb.Empty{}, nil
}
func (f *fakeInit) MakeDirectory(context.Context, *pb.PathRequest) (*pb.Empty, error) {
	return &pb.Empty{}, nil
}

func (f *fakeInit) TarOut(r *pb.PathRequest, stream grpc.ServerStreamingServer[pb.TarOutReply]) error {
	data, err := f.file(r.Path)
	if err != nil {
		return err
	}
	for len(data) > 0 {
		n := min(1000, len(data))
		if err := stream.Send(&pb.TarOutReply{Data: data[:n]}); err != nil {
			return err
		}
		data = data[n:]
	}
	return stream.Send(&pb.TarOutReply{Done: &pb.TarReply{Files: 1}})
}

// serve puts f on one end of a stream in memory and gives dialling it. Each
// dial is a connection, and a server, of its own, as with the real init.
func serve(t testing.TB, f *fakeInit) func(context.Context) (net.Conn, error) {
	t.Helper()
	return func(ctx context.Context) (net.Conn, error) {
		lis := bufconn.Listen(256 << 10)
		server := grpc.NewServer(grpc.MaxRecvMsgSize(pb.MaxMessageBytes), grpc.MaxSendMsgSize(2*pb.MaxMessageBytes), grpc.WaitForHandlers(false))
		pb.RegisterInitServer(server, &session{fakeInit: f})
		var wg sync.WaitGroup
		wg.Go(func() { _ = server.Serve(lis) })
		c, err := lis.DialContext(ctx)
		if err != nil {
			server.Stop()
			wg.Wait()
			return nil, err
		}
		t.Cleanup(func() {
			c.Close()
			server.Stop()
			wg.Wait()
		})
		return c, nil
	}
}

// attached is a handle to f, closed with the test.
func attached(t testing.TB, f *fakeInit, change ...func(*Config)) *Sandbox {
	t.Helper()
	cfg := Config{Dial: serve(t, f)}
	for _, c := range change {
		c(&cfg)
	}
	s, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// collect reads both outputs of a command to the end.
func collect(ctx context.Context, c skerry.Command) (out, errOut []byte, err error) {
	err = c.Output(ctx, skerry.Offsets{}, func(ch skerry.Chunk) error {
		if ch.Stream == skerry.Stdout {
			out = append(out, ch.Data...)
		} else {
			errOut = append(errOut, ch.Data...)
		}
		return nil
	})
	return out, errOut, err
}
