//go:build linux

package initd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/experimental"

	"github.com/skerry-run/skerry/internal/control"
	pb "github.com/skerry-run/skerry/internal/initproto"
	"github.com/skerry-run/skerry/internal/testbuild"
)

// initBinary is skerry-init as it is shipped, built once for all tests.
var initBinary string

func TestMain(m *testing.M) {
	code, err := buildAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func buildAndRun(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "skerry-init-test-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		return 0, err
	}
	initBinary = filepath.Join(dir, "skerry-init")
	if err := testbuild.Programs(dir, "skerry-init"); err != nil {
		return 0, err
	}
	if err := os.Chmod(initBinary, 0o111); err != nil {
		return 0, err
	}
	code := m.Run()
	if code == 0 {
		err = goleak.Find()
	}
	return code, err
}

// testUID is whose processes the sandboxes of tests are when root runs them:
// root's would be exempt from limits.
const testUID = 64123

// box is a real init as PID 1 of a bubblewrap sandbox, and a client of it.
type box struct {
	pb.InitClient
	t    testing.TB
	cmd  *exec.Cmd
	line *control.Line
	conn *grpc.ClientConn

	mu       sync.Mutex
	messages []control.Message
	ended    chan struct{} // closed when the init is gone
	stderr   bytes.Buffer
	spools   int
}

// boxOption changes how a box is made.
type boxOption func(*boxSetup)

type boxSetup struct {
	config Config
	args   []string // of bwrap
	serve  []string // of the init
	enter  string   // a cgroup.procs to enter first
}

// newBox starts an init. It ends with the test.
func newBox(t testing.TB, config Config, options ...boxOption) *box {
	t.Helper()
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Skip("bubblewrap is not installed")
	}
	setup := boxSetup{config: config}
	for _, o := range options {
		o(&setup)
	}
	setup.config.Trusted = true
	data, err := json.Marshal(setup.config)
	if err != nil {
		t.Fatal(err)
	}
	cr, cw, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer cr.Close()
	line, theirs, err := control.Pair()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{
		"--unshare-all", "--uid", "1000", "--gid", "1000", "--as-pid-1", "--die-with-parent", "--new-session", "--clearenv",
		"--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/sbin", "/sbin",
		"--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--ro-bind", "/etc/ld.so.cache", "/etc/ld.so.cache",
		"--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--perms", "0755", "--tmpfs", "/workspace", "--dir", "/home/skerry",
		"--dir", "/run/skerry", "--ro-bind", initBinary, "/run/skerry/init",
	}
	args = append(args, setup.args...)
	args = append(args, "--", "/run/skerry/init", "serve", "--config-fd", "3", "--control-fd", "4")
	args = append(args, setup.serve...)
	name := "bwrap"
	if setup.enter != "" {
		args = append([]string{"-c", `echo $$ > "$0" && exec bwrap "$@"`, setup.enter}, args...)
		name = "sh"
	}
	b := &box{t: t, cmd: exec.Command(name, args...), line: line, ended: make(chan struct{})}
	b.cmd.ExtraFiles = []*os.File{cr, theirs}
	b.cmd.Stderr = &b.stderr
	b.cmd.Dir = "/"
	if os.Getuid() == 0 {
		b.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: testUID, Gid: testUID}}
	}
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	if _, err := cw.Write(data); err != nil {
		t.Fatal(err)
	}
	cw.Close()
	go b.supervise()
	b.conn = b.dial()
	b.InitClient = pb.NewInitClient(b.conn)
	t.Cleanup(b.close)
	return b
}

// supervise is the supervisor's side of the control line.
func (b *box) supervise() {
	for {
		m, f, err := b.line.Receive()
		if err != nil {
			break
		}
		if f != nil {
			f.Close()
		}
		b.mu.Lock()
		b.messages = append(b.messages, m)
		b.mu.Unlock()
		if m.Type == control.Spool {
			file, err := unlinkedFile(os.TempDir())
			if err != nil {
				break
			}
			b.mu.Lock()
			b.spools++
			b.mu.Unlock()
			err = b.line.Send(control.Message{Type: control.Spool}, file)
			file.Close()
			if err != nil {
				break
			}
		}
	}
	_ = b.cmd.Wait()
	close(b.ended)
}

// dial makes a new connection through the control line.
func (b *box) dial() *grpc.ClientConn {
	b.t.Helper()
	var used bool
	pool := pb.NewBufferPool()
	conn, err := grpc.NewClient("passthrough:///init",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		experimental.WithBufferPool(pool), grpc.WithReadBufferSize(writeBytes),
		grpc.WithInitialWindowSize(windowBytes), grpc.WithInitialConnWindowSize(windowBytes),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(pb.NewCodec(pool)), grpc.MaxCallRecvMsgSize(pb.MaxMessageBytes), grpc.MaxCallSendMsgSize(pb.MaxMessageBytes)),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			if used {
				return nil, errors.New("the stream broke")
			}
			used = true
			return b.stream()
		}))
	if err != nil {
		b.t.Fatal(err)
	}
	return conn
}

// stream makes a socketpair and gives one end to the init.
func (b *box) stream() (net.Conn, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	theirs := os.NewFile(uintptr(fds[1]), "stream")
	defer theirs.Close()
	ours := os.NewFile(uintptr(fds[0]), "stream")
	defer ours.Close()
	if err := b.line.Send(control.Message{Type: control.Conn}, theirs); err != nil {
		return nil, err
	}
	return net.FileConn(ours)
}

func (b *box) close() {
	if b.conn != nil {
		b.conn.Close()
	}
	b.line.Close()
	select {
	case <-b.ended:
		if b.t.Failed() {
			b.t.Logf("the init said:\n%s", b.stderr.String())
		}
	case <-time.After(20 * time.Second):
		b.t.Errorf("the init lives on after its control line was closed")
		_ = b.cmd.Process.Kill()
	}
}

// result is what came of one command.
type result struct {
	stdout, stderr string
	omitted        int64
	exit           *pb.Exit
}

func (r result) String() string {
	return fmt.Sprintf("%v\nstdout %.2000q\nstderr %.2000q", r.exit, r.stdout, r.stderr)
}

var commandCount struct {
	sync.Mutex
	n int
}

func newID() string {
	commandCount.Lock()
	defer commandCount.Unlock()
	commandCount.n++
	return fmt.Sprintf("c%d", commandCount.n)
}

// argv makes a request; a test changes what it wants.
func argv(args ...string) *pb.StartRequest {
	return &pb.StartRequest{Id: newID(), Argv: bytesOf(args), GraceMs: 300}
}

func sh(script string) *pb.StartRequest { return argv("bash", "-c", script) }

// run starts a command and follows it to its end.
func (b *box) run(r *pb.StartRequest) result {
	b.t.Helper()
	b.start(r)
	return b.follow(r.Id)
}

func (b *box) start(r *pb.StartRequest) *pb.StartReply {
	b.t.Helper()
	reply, err := b.Start(b.ctx(), r)
	if err != nil {
		b.t.Fatalf("start: %v", err)
	}
	return reply
}

func (b *box) follow(id string) result {
	b.t.Helper()
	r, err := b.tryFollow(id, 0, 0)
	if err != nil {
		b.t.Fatalf("output: %v", err)
	}
	return r
}

func (b *box) tryFollow(id string, stdout, stderr int64) (r result, err error) {
	stream, err := b.Output(b.ctx(), &pb.OutputRequest{Id: id, StdoutOffset: stdout, StderrOffset: stderr})
	if err != nil {
		return r, err
	}
	var out, errs strings.Builder
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			r.stdout, r.stderr = out.String(), errs.String()
			if r.exit == nil {
				return r, errors.New("the output ended without an exit")
			}
			return r, nil
		}
		if err != nil {
			return r, err
		}
		r.omitted += m.Omitted
		switch m.Stream {
		case 1:
			out.Write(m.Data)
		case 2:
			errs.Write(m.Data)
		default:
			r.exit = m.Exit
		}
	}
}

// ctx bounds a call: a test that hangs says where.
func (b *box) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	b.t.Cleanup(cancel)
	return ctx
}

// wantExit checks outcome and code.
func wantExit(t testing.TB, r result, code int32) {
	t.Helper()
	if r.exit.Outcome != "exited" || !r.exit.HasExitCode || r.exit.ExitCode != code {
		t.Fatalf("got %v, want exited with %d", r, code)
	}
}

// drain follows a command and counts what it wrote.
func (b *box) drain(id string) (n int64, exit *pb.Exit) {
	b.t.Helper()
	stream, err := b.Output(b.ctx(), &pb.OutputRequest{Id: id})
	if err != nil {
		b.t.Fatal(err)
	}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return n, exit
		}
		if err != nil {
			b.t.Fatal(err)
		}
		if m.Offset != n && m.Exit == nil {
			b.t.Fatalf("offset %d after %d bytes", m.Offset, n)
		}
		n += int64(len(m.Data))
		if m.Exit != nil {
			exit = m.Exit
		}
	}
}
