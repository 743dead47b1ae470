package proxy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// echo answers every byte with itself, and ends when the client's side does.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return l.Addr().String()
}

func through(t *testing.T) *Proxy {
	t.Helper()
	p, err := Listen(echo(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func dial(t *testing.T, p *Proxy) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

func say(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, c net.Conn, text string) {
	t.Helper()
	got := make([]byte, len(text))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != text {
		t.Fatalf("heard %q, error %v, want %q", got, err, text)
	}
}

func wantReset(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v, want a connection reset", err)
	}
}

// wantRefused expects a new connection to be reset, at once or just after.
func wantRefused(t *testing.T, p *Proxy) {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err == nil {
		defer c.Close()
		_, err = c.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v, want a connection reset", err)
	}
}

func TestWholeItPassesEveryByteAndTheEnd(t *testing.T) {
	p := through(t)
	c := dial(t, p)
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	go func() {
		_, _ = c.Write(sent)
		_ = c.CloseWrite()
	}()
	got, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d of %d bytes, error %v", len(got), len(sent), err)
	}
	if n := p.Passed(ToServer); n != int64(len(sent)) {
		t.Errorf("counted %d", n)
	}
}

func TestDropResetsWhatIsAndWhatComes(t *testing.T) {
	p := through(t)
	c := dial(t, p)
	say(t, c, "a")
	hear(t, c, "a")
	p.Drop()
	wantReset(t, c)
	wantRefused(t, p)
	p.Restore()
	c = dial(t, p)
	say(t, c, "b")
	hear(t, c, "b")
}

func TestStallHoldsAndLosesNothing(t *testing.T) {
	p := through(t)
	c := dial(t, p)
	say(t, c, "a")
	hear(t, c, "a")
	p.Stall()
	before := p.Passed(ToServer)
	say(t, c, "held")
	if err := c.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes came through, error %v", n, err)
	}
	if p.Passed(ToServer) != before || p.Connections() != 1 {
		t.Errorf("passed %d bytes, %d connections", p.Passed(ToServer)-before, p.Connections())
	}
	_ = c.SetReadDeadline(time.Time{})
	p.Restore()
	hear(t, c, "held")
}

func TestDelayKeepsTheOrder(t *testing.T) {
	p := through(t)
	c := dial(t, p)
	const late = 50 * time.Millisecond
	p.Delay(late)
	start := time.Now()
	for _, s := range []string{"one ", "two ", "three"} {
		say(t, c, s)
	}
	hear(t, c, "one two three")
	if took := time.Since(start); took < 2*late { // there and back; longer is no fault
		t.Errorf("took %v", took)
	}
}

func TestCutAfterCutsAtTheByte(t *testing.T) {
	for _, n := range []int64{0, 1, 7} {
		p := through(t)
		c := dial(t, p)
		say(t, c, "a")
		hear(t, c, "a")
		p.CutAfter(ToClient, n)
		say(t, c, "0123456789")
		// A reset may overtake what was sent before it, so what came is a prefix.
		got, err := io.ReadAll(c)
		if !errors.Is(err, syscall.ECONNRESET) || int64(len(got)) > n || !bytes.HasPrefix([]byte("0123456789"), got) {
			t.Errorf("after %d: %q, error %v", n, got, err)
		}
		if passed := p.Passed(ToClient); passed != 1+n {
			t.Errorf("after %d: passed %d", n, passed-1)
		}
		next := dial(t, p) // it cuts once
		say(t, next, "b")
		hear(t, next, "b")
	}
}

// A server that is not there looks like one: nothing hangs.
func TestAServerThatIsGone(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	p, err := Listen(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	wantRefused(t, p)
}

func TestCloseLeavesNothing(t *testing.T) {
	p, err := Listen(echo(t))
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, p)
	say(t, c, "a")
	hear(t, c, "a")
	p.Stall()
	say(t, c, "held")
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	wantReset(t, c)
	if n := p.Connections(); n != 0 {
		t.Errorf("%d connections", n)
	}
}
