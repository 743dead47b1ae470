package attach

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skerry-run/skerry"
)

var errCut = errors.New("cut by the test")

// cutConn ends after so many bytes in one of the directions, in the middle of
// whatever frame is on its way then.
type cutConn struct {
	net.Conn
	reads, writes atomic.Int64 // bytes that may still pass
}

func (c *cutConn) Read(p []byte) (int, error) {
	left := c.reads.Load()
	if left <= 0 {
		c.Close()
		return 0, errCut
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), left)])
	c.reads.Add(int64(-n))
	return n, err
}

func (c *cutConn) Write(p []byte) (int, error) {
	left := c.writes.Load()
	if int64(len(p)) <= left {
		n, err := c.Conn.Write(p)
		c.writes.Add(int64(-n))
		return n, err
	}
	n, _ := c.Conn.Write(p[:max(0, left)])
	c.writes.Store(0)
	c.Close()
	return n, errCut
}

const never = int64(1) << 60

// cutter gives connections that are cut where plan says, one after the other,
// and counts them. A plan of 0 is one that is not cut.
type cutter struct {
	dial  func(context.Context) (net.Conn, error)
	plan  func(n int) (reads, writes int64)
	dials atomic.Int64
}

func (c *cutter) Dial(ctx context.Context) (net.Conn, error) {
	n := c.dials.Add(1)
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	cut := &cutConn{Conn: conn}
	r, w := c.plan(int(n))
	cut.reads.Store(r)
	cut.writes.Store(w)
	return cut, nil
}

// once cuts the first connection only.
func cutOnce(reads, writes int64) func(int) (int64, int64) {
	return func(n int) (int64, int64) {
		if n == 1 {
			return reads, writes
		}
		return never, never
	}
}

// quick are bounds for tests that break the stream many times.
func quick(c *Config) {
	c.Reconnect = Reconnect{Attempts: 10_000, BackoffMin: time.Microsecond, BackoffMax: time.Microsecond}
}

// wholeSession does one of everything and gives what does not fit.
func wholeSession(ctx context.Context, f *fakeInit, dial func(context.Context) (net.Conn, error)) error {
	stdout, stderr, input := numbered("out", 1200), numbered("err", 400), numbered("in", 500)
	f.add("old", stdout, stderr)
	reader, end := f.run("reader")
	defer end()
	cfg := Config{Dial: dial}
	quick(&cfg)
	s, err := New(ctx, cfg)
	if err != nil {
		return fmt.Errorf("New: %w", err)
	}
	defer s.Close()

	c, err := s.Start(ctx, skerry.CommandSpec{ID: "new", Argv: []string{"echo", "x"}})
	if err != nil {
		return err
	}
	if out, _, err := collect(ctx, c); err != nil || string(out) != "echo x\n" {
		return fmt.Errorf("output of the started command: %q, %w", out, err)
	}
	if c, err = s.Command(ctx, "old"); err != nil {
		return err
	}
	out, errOut, err := collect(ctx, c)
	if err != nil {
		return err
	}
	if !bytes.Equal(out, stdout) || !bytes.Equal(errOut, stderr) {
		return fmt.Errorf("output is not what was written: %d of %d and %d of %d bytes", len(out), len(stdout), len(errOut), len(stderr))
	}
	if exit, err := c.Wait(ctx); err != nil || exit.Outcome != skerry.Exited {
		return fmt.Errorf("wait: %v, %w", exit, err)
	}
	if c, err = s.Command(ctx, "reader"); err != nil {
		return err
	}
	w, err := c.Stdin(ctx)
	if err != nil {
		return err
	}
	if _, err := w.Write(input); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	if !bytes.Equal(reader.in, input) {
		return fmt.Errorf("input is not what was sent: %d of %d bytes", len(reader.in), len(input))
	}
	if f.starts != 1 {
		return fmt.Errorf("%d programs were started, want 1", f.starts)
	}
	return nil
}

// stepAt is the distance of two cuts: every byte of the handshake and the
// start of a command, then all residues of what repeats, the frames of output
// and of input.
func stepAt(i int64) int64 {
	if i < 700 && !testing.Short() && !raceDetector {
		return 1
	}
	return 7
}

// Each byte of a conversation, in both directions, is once the last one that
// passes. (B004, B005, B053)
func TestACutAtEveryByteLosesNothing(t *testing.T) {
	var reads, writes int64
	{ // how long the conversation is
		f := newFake()
		c := &cutter{dial: serve(t, f), plan: func(int) (int64, int64) { return never, never }}
		var conn *cutConn
		dial := func(ctx context.Context) (net.Conn, error) {
			n, err := c.Dial(ctx)
			conn, _ = n.(*cutConn)
			return n, err
		}
		if err := wholeSession(t.Context(), f, dial); err != nil {
			t.Fatalf("without any cut: %v", err)
		}
		reads, writes = never-conn.reads.Load(), never-conn.writes.Load()
	}
	var points []func(int) (int64, int64)
	for i := int64(0); i < reads; i += stepAt(i) {
		points = append(points, cutOnce(i, never))
	}
	for i := int64(0); i < writes; i += stepAt(i) {
		points = append(points, cutOnce(never, i))
	}
	t.Logf("%d bytes in, %d out, %d cuts", reads, writes, len(points))
	each(t, len(points), func(i int) error {
		f := newFake()
		c := &cutter{dial: serve(t, f), plan: points[i]}
		if err := wholeSession(t.Context(), f, c.Dial); err != nil {
			return fmt.Errorf("cut %d: %w", i, err)
		}
		return nil
	})
}

// each runs f for 0 to n-1, a few at a time.
func each(t *testing.T, n int, f func(int) error) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && !t.Failed(); i = int(next.Add(1)) - 1 {
				if err := f(i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func TestManyCutsAtRandomLoseNoOutput(t *testing.T) { // B054
	stdout, stderr := numbered("out", 3_000_000), numbered("err", 1_000_000)
	f := newFake()
	f.add("1", stdout, stderr)
	random := rand.New(rand.NewPCG(1, 2))
	c := &cutter{dial: serve(t, f), plan: func(n int) (int64, int64) {
		if n == 1 {
			return never, never
		}
		return random.Int64N(100_000), never
	}}
	first := c.plan
	c.plan = func(n int) (int64, int64) {
		if n == 1 {
			return 50_000, never
		}
		return first(n)
	}
	s := attached(t, f, quick, func(cfg *Config) { cfg.Dial = c.Dial })
	command, err := s.Command(t.Context(), "1")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 3 { // several readers of one command, each complete
		wg.Go(func() {
			out, errOut, err := collect(t.Context(), command)
			if err != nil || !bytes.Equal(out, stdout) || !bytes.Equal(errOut, stderr) {
				t.Errorf("read %d of %d and %d of %d bytes, %v", len(out), len(stdout), len(errOut), len(stderr), err)
			}
		})
	}
	wg.Wait()
	if n := c.dials.Load(); n < 20 {
		t.Errorf("only %d streams: the test cut too little", n)
	}
}

func TestManyCutsAtRandomLoseNoInput(t *testing.T) {
	input := numbered("in", 4_000_000)
	f := newFake()
	fc, end := f.run("1")
	defer end()
	random := rand.New(rand.NewPCG(3, 4))
	c := &cutter{dial: serve(t, f), plan: func(n int) (int64, int64) {
		return never, 20_000 + random.Int64N(200_000)
	}}
	s := attached(t, f, quick, func(cfg *Config) { cfg.Dial = c.Dial })
	command, err := s.Command(t.Context(), "1")
	if err != nil {
		t.Fatal(err)
	}
	w, err := command.Stdin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(w, bytes.NewReader(input)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(fc.in, input) {
		t.Errorf("%d of %d bytes arrived, equal to where? %d", len(fc.in), len(input), firstDifference(fc.in, input))
	}
	if n := c.dials.Load(); n < 10 {
		t.Errorf("only %d streams: the test cut too little", n)
	}
}

func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// A stream that breaks while nobody writes is mended, and what was on its way
// arrives: a prompt would wait for ever else.
func TestInputIsSentAgainWithoutAnotherWrite(t *testing.T) {
	f := newFake()
	fc, end := f.run("1")
	defer end()
	// The first connection lets the handshake and the questions pass, then
	// cuts within the input.
	c := &cutter{dial: serve(t, f), plan: cutOnce(never, 2000)}
	s := attached(t, f, quick, func(cfg *Config) { cfg.Dial = c.Dial })
	command, _ := s.Command(t.Context(), "1")
	w, err := command.Stdin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	input := numbered("in", 5000)
	if _, err := w.Write(input); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(10 * time.Second)
	for {
		fc.inMu.Lock()
		n := len(fc.in)
		fc.inMu.Unlock()
		if n == len(input) {
			break
		}
		select {
		case <-deadline:
			t.Fatalf("%d of %d bytes arrived", n, len(input))
		case <-time.After(time.Millisecond):
		}
	}
	if err := w.Close(); err != nil || !bytes.Equal(fc.in, input) {
		t.Errorf("Close: %v", err)
	}
}

func TestManyCutsAtRandomLoseNothingOfAFile(t *testing.T) {
	data := numbered("file", 3_000_000)
	f := newFake()
	f.files["x"] = data
	random := rand.New(rand.NewPCG(5, 6))
	c := &cutter{dial: serve(t, f), plan: func(n int) (int64, int64) {
		return 10_000 + random.Int64N(100_000), never
	}}
	s := attached(t, f, quick, func(cfg *Config) { cfg.Dial = c.Dial })
	var got bytes.Buffer
	info, err := s.Files().Read(t.Context(), "x", 0, -1, &got)
	if err != nil || !bytes.Equal(got.Bytes(), data) || len(info.SHA256) != 64 {
		t.Errorf("read %d of %d bytes, %+v, %v", got.Len(), len(data), info, err)
	}
}

// Nothing is written twice: what was read from the caller can't be had again.
func TestAnUploadThatBreaksIsAnErrorNotHalfAFile(t *testing.T) {
	f := newFake()
	c := &cutter{dial: serve(t, f), plan: cutOnce(never, 100_000)}
	s := attached(t, f, quick, func(cfg *Config) { cfg.Dial = c.Dial })
	_, err := s.Files().Write(t.Context(), "x", bytes.NewReader(numbered("file", 500_000)), skerry.WriteOptions{})
	if skerry.KindOf(err) != skerry.Unavailable {
		t.Errorf("Write = %v, want unavailable", err)
	}
	if _, err := f.file([]byte("x")); err == nil {
		t.Error("half a file was written")
	}
}

func TestASignalIsNotSentTwice(t *testing.T) {
	for cut := int64(0); cut < 400; cut += 7 {
		f := newFake()
		_, end := f.run("1")
		c := &cutter{dial: serve(t, f), plan: func(n int) (int64, int64) { return never, never }}
		s := attached(t, f, quick, func(cfg *Config) { cfg.Dial = c.Dial })
		command, err := s.Command(t.Context(), "1")
		if err != nil {
			t.Fatal(err)
		}
		s.current.conn.Conn.(*cutConn).reads.Store(cut)
		err = command.Signal(t.Context(), 10, false)
		f.mu.Lock()
		signals := f.signals
		f.mu.Unlock()
		if signals > 1 || signals == 0 && err == nil || err != nil && skerry.KindOf(err) != skerry.Unavailable {
			t.Errorf("cut %d: sent %d times, %v", cut, signals, err)
		}
		end()
	}
}

// What stands on a stream without a byte, and without its end, is noticed.
func TestASilentStreamIsReplaced(t *testing.T) {
	f := newFake()
	f.add("1", numbered("out", 200_000), nil)
	stall := &stallConn{after: 30_000, stalled: make(chan struct{})}
	inner := serve(t, f)
	dials := 0
	s := attached(t, f, quick, func(cfg *Config) {
		cfg.KeepaliveInterval, cfg.KeepaliveTimeout = 20*time.Millisecond, 50*time.Millisecond
		cfg.Dial = func(ctx context.Context) (net.Conn, error) {
			c, err := inner(ctx)
			if dials++; dials == 1 && err == nil {
				stall.Conn = c
				return stall, nil
			}
			return c, err
		}
	})
	command, _ := s.Command(t.Context(), "1")
	out, _, err := collect(t.Context(), command)
	if err != nil || !bytes.Equal(out, numbered("out", 200_000)) {
		t.Errorf("read %d bytes, %v", len(out), err)
	}
	if dials < 2 {
		t.Error("the stream did not stall")
	}
}

// stallConn gives nothing more after some bytes, and does not end.
type stallConn struct {
	net.Conn
	after   int
	stalled chan struct{} // closed by Close
	once    sync.Once
}

func (c *stallConn) Read(p []byte) (int, error) {
	if c.after <= 0 {
		<-c.stalled
		return 0, net.ErrClosed
	}
	n, err := c.Conn.Read(p[:min(len(p), c.after)])
	c.after -= n
	return n, err
}

func (c *stallConn) Close() error {
	c.once.Do(func() { close(c.stalled) })
	return c.Conn.Close()
}

// A call that runs out of time costs nobody else the stream.
func TestADeadlineDoesNotBreakTheStream(t *testing.T) {
	f := newFake()
	_, end := f.run("1")
	defer end()
	c := &cutter{dial: serve(t, f), plan: func(int) (int64, int64) { return never, never }}
	s := attached(t, f, quick, func(cfg *Config) { cfg.Dial = c.Dial })
	command, err := s.Command(t.Context(), "1")
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Millisecond)
		if _, err := command.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait = %v, want the deadline", err)
		}
		cancel()
	}
	if n := c.dials.Load(); n != 1 {
		t.Errorf("%d streams were opened, want 1", n)
	}
}
