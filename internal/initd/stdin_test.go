//go:build linux

package initd

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
	"syscall"
	"testing"

	pb "github.com/skerry-run/skerry/internal/initproto"
)

// feed sends data from offset on, and the end of the input when eof.
func (b *box) feed(id string, offset int64, data []byte, eof bool) *pb.StdinReply {
	b.t.Helper()
	stream, err := b.Stdin(b.ctx())
	if err != nil {
		b.t.Fatal(err)
	}
	first := true
	for chunk := range pieces64(data) {
		m := &pb.StdinRequest{Offset: offset, Data: chunk}
		if first {
			m.Id, first = id, false
		}
		if stream.Send(m) != nil {
			break // the init has said what it has to say
		}
		offset += int64(len(chunk))
	}
	if first || eof {
		m := &pb.StdinRequest{Offset: offset, Eof: eof}
		if first {
			m.Id = id
		}
		_ = stream.Send(m)
	}
	reply, err := stream.CloseAndRecv()
	if err != nil {
		b.t.Fatalf("stdin: %v", err)
	}
	return reply
}

func pieces64(data []byte) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(data) > 0 {
			n := min(len(data), 64<<10)
			if !yield(data[:n]) {
				return
			}
			data = data[n:]
		}
	}
}

func withInput(r *pb.StartRequest) *pb.StartRequest {
	r.Stdin = true
	return r
}

// B001: input arrives, and so does its end.
func TestInputArrivesWithItsEnd(t *testing.T) {
	b := newBox(t, Config{})
	for _, n := range []int{0, 5, 5_000_000} {
		data := bytes.Repeat([]byte("x"), n)
		r := withInput(argv("wc", "-c"))
		b.start(r)
		b.feed(r.Id, 0, data, true)
		if got := b.follow(r.Id); strings.TrimSpace(got.stdout) != fmt.Sprint(n) {
			t.Errorf("%d bytes: got %v", n, got)
		}
	}
}

func TestInputGoesOnWhereItWas(t *testing.T) {
	b := newBox(t, Config{})
	data := bytes.Repeat([]byte("0123456789"), 100_000)
	r := withInput(argv("sha256sum"))
	b.start(r)
	reply := b.feed(r.Id, 0, data[:300_000], false)
	if reply.Offset != 300_000 || reply.Closed {
		t.Fatalf("got %v, want 300000 taken", reply)
	}
	if at, err := b.StdinOffset(b.ctx(), &pb.CommandRef{Id: r.Id}); err != nil || at.Offset != 300_000 {
		t.Fatalf("offset %v, %v", at, err)
	}
	b.feed(r.Id, 200_000, data[200_000:], true) // what was taken already is skipped
	if got, want := b.follow(r.Id).stdout, fmt.Sprintf("%x  -\n", sha256.Sum256(data)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	// A hole is an error.
	r = withInput(argv("cat"))
	b.start(r)
	stream, err := b.Stdin(b.ctx())
	if err != nil {
		t.Fatal(err)
	}
	_ = stream.Send(&pb.StdinRequest{Id: r.Id, Offset: 5, Data: []byte("x")})
	if _, err := stream.CloseAndRecv(); err == nil {
		t.Error("a hole in the input was taken")
	}
	b.feed(r.Id, 0, nil, true)
	b.follow(r.Id)
}

func TestAProgramThatDoesNotReadIsNoError(t *testing.T) {
	b := newBox(t, Config{})
	r := withInput(sh("exec 0<&-; echo up; exit 4"))
	b.start(r)
	b.feed(r.Id, 0, bytes.Repeat([]byte("x"), 1<<20), true)
	if got := b.follow(r.Id); got.stdout != "up\n" || got.exit.ExitCode != 4 {
		t.Errorf("got %v", got)
	}
	// One that neither reads nor ends blocks its client, and nobody else.
	r = withInput(argv("sleep", "600"))
	b.start(r)
	stream, err := b.Stdin(b.ctx())
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for off := int64(0); ; off += 64 << 10 {
			m := &pb.StdinRequest{Offset: off, Data: make([]byte, 64<<10)}
			if off == 0 {
				m.Id = r.Id
			}
			if stream.Send(m) != nil {
				return
			}
		}
	}()
	wantExit(t, b.run(argv("true")), 0)
	if _, err := b.Signal(b.ctx(), &pb.SignalRequest{Id: r.Id, Signal: int32(syscall.SIGKILL)}); err != nil {
		t.Fatal(err)
	}
	if got := b.follow(r.Id); got.exit.Outcome != "signaled" {
		t.Errorf("got %v", got)
	}
	<-sent
	// Without input there is nothing to write to.
	r = argv("true")
	b.run(r)
	if stream, err = b.Stdin(b.ctx()); err != nil {
		t.Fatal(err)
	}
	_ = stream.Send(&pb.StdinRequest{Id: r.Id, Data: []byte("x")})
	if _, err := stream.CloseAndRecv(); err == nil {
		t.Error("input was taken by a program that was started without")
	}
}

func TestATerminal(t *testing.T) {
	b := newBox(t, Config{Session: true})
	r := with(sh("tty -s && echo yes; stty size; trap 'stty size; exit' WINCH; read x; echo \"got $x\"; echo ready; while :; do sleep 0.05; done"), func(r *pb.StartRequest) {
		r.Tty = &pb.TerminalSize{Cols: 100, Rows: 30}
	})
	b.start(r)
	b.waitForText(r.Id, "30 100") // before the terminal echoes what is typed
	b.feed(r.Id, 0, []byte("hello\n"), false)
	b.waitForText(r.Id, "ready")
	if _, err := b.Resize(b.ctx(), &pb.ResizeRequest{Id: r.Id, Size: &pb.TerminalSize{Cols: 132, Rows: 50}}); err != nil {
		t.Fatal(err)
	}
	got := b.follow(r.Id)
	for _, want := range []string{"yes\r\n30 100\r\n", "got hello\r\n", "50 132\r\n"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("got %v, want %q in it", got, want)
		}
	}
	wantExit(t, got, 0)
	// The end of the input is the end of a cat, and Ctrl-C reaches the program.
	r = with(argv("cat"), func(r *pb.StartRequest) { r.Tty = &pb.TerminalSize{} })
	b.start(r)
	b.feed(r.Id, 0, []byte("x\n"), true)
	wantExit(t, b.follow(r.Id), 0)
	r = with(argv("sleep", "600"), func(r *pb.StartRequest) { r.Tty = &pb.TerminalSize{} })
	b.start(r)
	b.feed(r.Id, 0, []byte{3}, false)
	if got := b.follow(r.Id); got.exit.Outcome != "signaled" || got.exit.Signal != int32(syscall.SIGINT) {
		t.Errorf("Ctrl-C gave %v", got)
	}
	// Much output, whole.
	got = b.run(with(sh("seq 100000"), func(r *pb.StartRequest) { r.Tty = &pb.TerminalSize{} }))
	if !strings.HasSuffix(got.stdout, "\n100000\r\n") || len(got.stdout) != 688895 {
		t.Errorf("a terminal's output has %d bytes, want 688895", len(got.stdout))
	}
}

// waitForText waits until a command's stdout holds text.
func (b *box) waitForText(id, text string) {
	b.t.Helper()
	stream, err := b.Output(b.ctx(), &pb.OutputRequest{Id: id})
	if err != nil {
		b.t.Fatal(err)
	}
	var all []byte
	for !bytes.Contains(all, []byte(text)) {
		m, err := stream.Recv()
		if err != nil {
			b.t.Fatalf("waiting for %q after %q: %v", text, all, err)
		}
		all = append(all, m.Data...)
	}
}
