package attach

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/skerry-run/skerry"
	pb "github.com/skerry-run/skerry/internal/initproto"
)

// wantViolation checks an error about an answer that makes no sense: unknown,
// never success.
func wantViolation(t *testing.T, what string, err error) {
	t.Helper()
	if skerry.KindOf(err) != skerry.Internal || skerry.OutcomeOf(err) != skerry.Lost {
		t.Errorf("%s: error %v of kind %q with outcome %q, want internal and lost", what, err, skerry.KindOf(err), skerry.OutcomeOf(err))
	}
	if err != nil && !strings.Contains(err.Error(), "the init broke the protocol: ") {
		t.Errorf("%s: the error does not name what was wrong: %v", what, err)
	}
}

type outputStream = grpc.ServerStreamingServer[pb.OutputReply]

func TestOutputThatMakesNoSense(t *testing.T) {
	data := []byte("0123456789")
	end := &pb.OutputReply{Exit: exited(0, data, nil)}
	piece := func(stream uint32, offset int64, data []byte, omitted int64) *pb.OutputReply {
		return &pb.OutputReply{Stream: stream, Offset: offset, Data: data, Omitted: omitted}
	}
	for name, replies := range map[string][]*pb.OutputReply{
		"ends without the end":         {piece(1, 0, data, 0)},
		"nothing at all":               {},
		"stream 0":                     {piece(0, 0, data, 0), end},
		"stream 3":                     {piece(3, 0, data, 0), end},
		"an empty piece":               {piece(1, 0, nil, 0), end},
		"starts late":                  {piece(1, 5, data, 0), end},
		"a hole":                       {piece(1, 0, data, 0), piece(1, 11, data, 0), end},
		"twice":                        {piece(1, 0, data, 0), piece(1, 0, data, 0), end},
		"overlaps":                     {piece(1, 0, data, 0), piece(1, 5, data, 0), end},
		"backwards":                    {piece(1, 10, data, 10), piece(1, 0, data, 0), end},
		"omits less than the hole":     {piece(1, 10, data, 5), end},
		"omits more than the hole":     {piece(1, 10, data, 11), end},
		"omits a negative number":      {piece(1, 0, data, -10), end},
		"a negative offset":            {piece(1, -10, data, -10), end},
		"the last offset":              {piece(1, math.MaxInt64, data, math.MaxInt64), end},
		"too large a piece":            {piece(1, 0, make([]byte, pb.ChunkBytes+1), 0), end},
		"far too large a piece":        {piece(1, 0, make([]byte, 1<<20), 0), end},
		"above every limit":            {piece(1, 0, make([]byte, pb.MaxMessageBytes+1), 0), end},
		"short":                        {piece(1, 0, data[:9], 0), end},
		"the end with output":          {{Stream: 1, Data: data, Exit: exited(0, data, nil)}},
		"the end twice":                {piece(1, 0, data, 0), end, end},
		"output after the end":         {piece(1, 0, data, 0), end, piece(1, 10, data, 0)},
		"another end than was learned": {{Exit: &pb.Exit{Outcome: "exited", HasExitCode: true, ExitCode: 3}}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			f.output = func(_ *pb.OutputRequest, stream outputStream) error {
				for _, r := range replies {
					if err := stream.Send(r); err != nil {
						return err
					}
				}
				return nil
			}
			s := attached(t, f)
			c := start(t, s, "1", "true")
			var got []byte
			err := c.Output(t.Context(), skerry.Offsets{}, func(ch skerry.Chunk) error {
				got = append(got, ch.Data...)
				return nil
			})
			wantViolation(t, "Output", err)
			if len(got) > 3*len(data) {
				t.Errorf("%d bytes were delivered", len(got))
			}
		})
	}
}

func TestAnEndThatMakesNoSense(t *testing.T) {
	for name, change := range map[string]func(*pb.Exit){
		"no outcome":           func(e *pb.Exit) { e.Outcome = "" },
		"an unknown outcome":   func(e *pb.Exit) { e.Outcome = "success" },
		"refused":              func(e *pb.Exit) { e.Outcome, e.HasExitCode = "refused", false },
		"start_failed":         func(e *pb.Exit) { e.Outcome, e.HasExitCode = "start_failed", false },
		"lost":                 func(e *pb.Exit) { e.Outcome, e.HasExitCode = "lost", false },
		"exited without code":  func(e *pb.Exit) { e.HasExitCode = false },
		"a timeout with code":  func(e *pb.Exit) { e.Outcome = "timeout" },
		"a timeout by nothing": func(e *pb.Exit) { e.Outcome, e.HasExitCode = "timeout", false },
		"an unknown limit":     func(e *pb.Exit) { e.Outcome, e.HasExitCode, e.Limit = "timeout", false, "luck" },
		"exited by a limit":    func(e *pb.Exit) { e.Limit = "ttl" },
		"code 256":             func(e *pb.Exit) { e.ExitCode = 256 },
		"code -1":              func(e *pb.Exit) { e.ExitCode = -1 },
		"signaled by 0":        func(e *pb.Exit) { e.Outcome, e.HasExitCode = "signaled", false },
		"signaled by 65":       func(e *pb.Exit) { e.Outcome, e.HasExitCode, e.Signal = "signaled", false, 65 },
		"exited and signaled":  func(e *pb.Exit) { e.Signal = 9 },
		"a negative duration":  func(e *pb.Exit) { e.DurationUs = -1 },
		"an hour just now":     func(e *pb.Exit) { e.DurationUs = 3_600_000_000 },
		"an endless duration":  func(e *pb.Exit) { e.DurationUs = math.MaxInt64 },
		"negative output":      func(e *pb.Exit) { e.StdoutBytes = -1 },
		"cpu not a number":     func(e *pb.Exit) { e.Usage.CpuSeconds = math.NaN() },
		"infinite cpu":         func(e *pb.Exit) { e.Usage.CpuSeconds = math.Inf(1) },
		"negative cpu":         func(e *pb.Exit) { e.Usage.CpuSeconds = -2 },
		"negative memory":      func(e *pb.Exit) { e.Usage.MemoryPeakBytes = -2 },
		"all memory there is":  func(e *pb.Exit) { e.Usage.MemoryPeakBytes = math.MaxInt64 },
		"a thousand notices":   func(e *pb.Exit) { e.Notices = make([]string, 1000) },
		"kills below unknown":  func(e *pb.Exit) { e.Usage.OomEvents = -5 },
		"processes below zero": func(e *pb.Exit) { e.Usage.Pids = math.MinInt64 },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			f.start = func(r *pb.StartReply) { r.Info.Exit = nil }
			f.wait = func(_ context.Context, e *pb.Exit) error { change(e); return nil }
			s := attached(t, f)
			exit, err := start(t, s, "1", "true").Wait(t.Context())
			wantViolation(t, fmt.Sprintf("Wait = %+v", exit), err)
		})
	}
}

func TestTextOfTheInitIsBoundedAndCleaned(t *testing.T) {
	f := newFake()
	f.start = func(r *pb.StartReply) { r.Info.Exit = nil }
	f.wait = func(_ context.Context, e *pb.Exit) error {
		e.Reason = "\x1b]52;c;evil\a\u202e\u200b\nskerry: error: forged" + strings.Repeat("x", 1<<20)
		e.Notices = []string{"\u009b2J\xff"}
		return nil
	}
	s := attached(t, f)
	exit, err := start(t, s, "1", "true").Wait(t.Context())
	if err == nil && (strings.ContainsAny(exit.Reason+exit.Notices[0], "\x1b\a\n\u009b\u202e\u200b") || len(exit.Reason) > 2*maxReason) {
		t.Errorf("reason of %d bytes begins %q, notice %q", len(exit.Reason), exit.Reason[:40], exit.Notices[0])
	} else if err != nil && skerry.OutcomeOf(err) != skerry.Lost { // gRPC itself refuses text that is not UTF-8
		t.Error(err)
	}
}

func TestAnswersAboutSomethingElse(t *testing.T) {
	f := newFake()
	f.start = func(r *pb.StartReply) { r.Info.Id = "other" }
	s := attached(t, f)
	_, err := s.Start(t.Context(), skerry.CommandSpec{ID: "1", Argv: []string{"true"}})
	wantViolation(t, "Start with another id", err)
	f.start = func(r *pb.StartReply) { r.Info = nil }
	_, err = s.Start(t.Context(), skerry.CommandSpec{ID: "1", Argv: []string{"true"}})
	wantViolation(t, "Start without the command", err)
	f.extend = func(_ context.Context, r *pb.ExtendReply) error { r.RemainingMs *= 10; return nil }
	wantViolation(t, "Extend beyond what was asked", s.Extend(t.Context(), time.Hour))
}

func TestPathsThatLeaveTheFolder(t *testing.T) {
	for _, name := range []string{"", "/etc/passwd", "..", "../x", "a/../../x", "a//b", "./a", "a/", "a\x00b", strings.Repeat("x", maxPathBytes+1)} {
		f := newFake()
		f.files[name] = nil
		s := attached(t, f)
		infos, err := s.Files().List(t.Context(), "output", skerry.ListOptions{Recursive: true})
		wantViolation(t, fmt.Sprintf("List with %.20q = %v", name, infos), err)
	}
}

func TestMoreEntriesThanAsked(t *testing.T) {
	f := newFake()
	for i := range 11 {
		f.files[fmt.Sprint(i)] = nil
	}
	_, err := attached(t, f).Files().List(t.Context(), ".", skerry.ListOptions{Limit: 10})
	wantViolation(t, "List", err)
}

func TestFilesThatMakeNoSense(t *testing.T) {
	data := []byte("0123456789")
	info := newFake().fileInfo("x", data)
	last := &pb.FileChunk{Info: info}
	wrong := newFake().fileInfo("x", []byte("9876543210"))
	other := newFake().fileInfo("y", data)
	for name, chunks := range map[string][]*pb.FileChunk{
		"nothing":               {},
		"no first message":      {{Data: data}, last},
		"no last message":       {{Info: info}, {Data: data}},
		"another file":          {{Info: other}, {Data: data}, last},
		"a wrong digest":        {{Info: info}, {Data: data}, {Info: wrong}},
		"an empty piece":        {{Info: info}, {}, {Data: data}, last},
		"too large a piece":     {{Info: info}, {Data: make([]byte, pb.ChunkBytes+1)}, last},
		"data in the last":      {{Info: info}, {Info: info, Data: data}},
		"more after the last":   {{Info: info}, {Data: data}, last, {Data: data}},
		"a file of no type":     {{Info: &pb.FileInfo{Path: []byte("x")}}, last},
		"a file of negatives":   {{Info: &pb.FileInfo{Path: []byte("x"), Type: "file", Size: -1}}, last},
		"a digest of something": {{Info: info}, {Data: data}, {Info: &pb.FileInfo{Path: []byte("x"), Type: "file", Sha256: "../../x"}}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			f.read = func(_ *pb.ReadFileRequest, stream grpc.ServerStreamingServer[pb.FileChunk]) error {
				for _, c := range chunks {
					if err := stream.Send(c); err != nil {
						return err
					}
				}
				return nil
			}
			var got bytes.Buffer
			_, err := attached(t, f).Files().Read(t.Context(), "x", 0, -1, &got)
			wantViolation(t, "Read", err)
		})
	}
	t.Run("more than asked", func(t *testing.T) {
		f := newFake()
		f.read = func(_ *pb.ReadFileRequest, stream grpc.ServerStreamingServer[pb.FileChunk]) error {
			_ = stream.Send(&pb.FileChunk{Info: info})
			for {
				if err := stream.Send(&pb.FileChunk{Data: data}); err != nil {
					return err
				}
			}
		}
		var got bytes.Buffer
		_, err := attached(t, f).Files().Read(t.Context(), "x", 0, 25, &got)
		wantViolation(t, "Read", err)
		if got.Len() > 25 {
			t.Errorf("%d bytes were written, 25 were asked for", got.Len())
		}
	})
}

func TestInputThatWasNeverSent(t *testing.T) {
	for name, change := range map[string]func(*pb.StdinReply){
		"ahead":     func(r *pb.StdinReply) { r.Offset += 100 },
		"behind":    func(r *pb.StdinReply) { r.Offset = -1 },
		"takes nil": func(r *pb.StdinReply) { r.Offset = 0; r.Closed = false },
	} {
		f := newFake()
		_, end := f.run("1")
		s := attached(t, f)
		c, _ := s.Command(t.Context(), "1")
		w, err := c.Stdin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		f.mu.Lock() // its questions are being answered already
		f.stdin = change
		f.mu.Unlock()
		_, _ = w.Write([]byte("hello"))
		wantViolation(t, name, w.Close())
		end()
	}
}

func TestTheHandleStopsListeningToALiar(t *testing.T) {
	f := newFake()
	asked := 0
	f.unary = func(_ context.Context, _ string, reply any) error {
		asked++
		reply.(*pb.Usage).CpuSeconds = math.NaN()
		return nil
	}
	s := attached(t, f)
	var err error
	for range 2 * maxViolations {
		_, err = s.Usage(t.Context())
	}
	if asked != maxViolations || skerry.OutcomeOf(err) != skerry.Lost || !strings.Contains(err.Error(), reasonHostile) {
		t.Errorf("asked %d times, then %v", asked, err)
	}
}

func TestAnInitThatIsNotOurs(t *testing.T) {
	key := bytes.Repeat([]byte{1}, 32)
	for name, tc := range map[string]struct {
		change func(*fakeInit)
		kind   skerry.Kind
	}{
		"another protocol":    {func(f *fakeInit) { f.hello = func(r *pb.HelloReply) { r.Protocol = 9 } }, skerry.Invalid},
		"another sandbox":     {func(f *fakeInit) { f.uid = "uid-2" }, skerry.NotFound},
		"no sandbox":          {func(f *fakeInit) { f.uid = "" }, skerry.NotFound},
		"a wrong proof":       {func(f *fakeInit) { f.hello = func(r *pb.HelloReply) { r.Proof[0]++ } }, skerry.Denied},
		"no proof":            {func(f *fakeInit) { f.hello = func(r *pb.HelloReply) { r.Proof = nil } }, skerry.Denied},
		"the proof of nobody": {func(f *fakeInit) { f.key = nil }, skerry.Denied},
		"a short nonce":       {func(f *fakeInit) { f.hello = func(r *pb.HelloReply) { r.InitNonce = nil } }, skerry.Internal},
		"no boot id":          {func(f *fakeInit) { f.bootID = "" }, skerry.Internal},
		"a long boot id":      {func(f *fakeInit) { f.bootID = strings.Repeat("x", 1<<16) }, skerry.Internal},
	} {
		f := newFake()
		f.uid, f.key, f.trusted = "uid-1", key, false
		tc.change(f)
		_, err := New(t.Context(), Config{Dial: serve(t, f), Key: key, SandboxUID: "uid-1"})
		if skerry.KindOf(err) != tc.kind || skerry.OutcomeOf(err) != skerry.Lost {
			t.Errorf("%s: %v of kind %q, want %q", name, err, skerry.KindOf(err), tc.kind)
		}
	}
	f := newFake()
	f.trusted = false
	if _, err := New(t.Context(), Config{Dial: serve(t, f)}); skerry.KindOf(err) != skerry.Denied {
		t.Errorf("an init that asks for a key: %v", err)
	}
}

// An init that was started anew has another sandbox's commands, or none: that
// is never passed over in silence.
func TestAnotherBootIsTheEnd(t *testing.T) {
	f := newFake()
	s := attached(t, f, quick)
	start(t, s, "1", "true")
	f.mu.Lock()
	f.bootID = "boot-2"
	f.mu.Unlock()
	s.current.breakOff()
	for range 2 {
		_, err := s.Commands(t.Context())
		if skerry.KindOf(err) != skerry.Unavailable || skerry.OutcomeOf(err) != skerry.Lost {
			t.Errorf("Commands = %v", err)
		}
	}
}

// bounded is a configuration that gives up soon.
func bounded(dial func(context.Context) (net.Conn, error)) Config {
	return Config{
		Dial: dial, HandshakeTimeout: 200 * time.Millisecond,
		KeepaliveInterval: 20 * time.Millisecond, KeepaliveTimeout: 50 * time.Millisecond,
		Reconnect: Reconnect{Attempts: 3, BackoffMin: time.Millisecond, BackoffMax: time.Millisecond},
	}
}

// talker gives connections whose other end is f.
func talker(t *testing.T, f func(net.Conn)) func(context.Context) (net.Conn, error) {
	return func(context.Context) (net.Conn, error) {
		ours, theirs := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer theirs.Close()
			f(theirs)
		}()
		t.Cleanup(func() { ours.Close(); <-done })
		return ours, nil
	}
}

func TestSomethingThatIsNoInit(t *testing.T) {
	drain := func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
	for name, f := range map[string]func(net.Conn){
		"closes at once": func(net.Conn) {},
		"says nothing":   drain,
		"garbage": func(c net.Conn) {
			go drain(c)
			_, _ = io.CopyN(c, rand.Reader, 1<<20)
		},
		"HTTP/1": func(c net.Conn) {
			go drain(c)
			_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
		},
		"drips": func(c net.Conn) {
			go drain(c)
			for _, b := range []byte{0, 0, 0, 4, 0, 0, 0, 0, 0} { // settings, one byte at a time and then no more
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
			}
			buf := make([]byte, 1)
			for {
				if _, err := c.Write(buf); err != nil {
					return
				}
				time.Sleep(5 * time.Millisecond) // the drip itself
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(t.Context(), bounded(talker(t, f)))
			if skerry.KindOf(err) != skerry.Unavailable || skerry.OutcomeOf(err) != skerry.Lost || !strings.Contains(err.Error(), reasonHostile) {
				t.Errorf("New = %v of kind %q, want unavailable: %s", err, skerry.KindOf(err), reasonHostile)
			}
		})
	}
}

// Code in the sandbox that kills every stream is given up. (threat 4)
func TestAStreamThatNeverLastsIsGivenUp(t *testing.T) {
	f := newFake()
	f.unary = func(ctx context.Context, _ string, _ any) error { <-ctx.Done(); return ctx.Err() }
	dials := 0
	inner := serve(t, f)
	s := attached(t, f, func(c *Config) {
		*c = bounded(func(ctx context.Context) (net.Conn, error) {
			dials++
			return inner(ctx)
		})
		c.KeepaliveInterval = time.Hour
	})
	ended := make(chan error, 1)
	go func() { _, err := s.Usage(t.Context()); ended <- err }()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			if skerry.OutcomeOf(err) != skerry.Lost || !strings.Contains(err.Error(), reasonHostile) {
				t.Errorf("Usage = %v", err)
			}
			if dials != 3 {
				t.Errorf("dialled %d times, want 3", dials)
			}
			return
		case <-tick.C:
			s.mu.Lock()
			if s.current != nil {
				s.current.breakOff()
			}
			s.mu.Unlock()
		}
	}
}

// An init that shakes hands and then never answers is noticed by the keepalive,
// and the caller's context ends the wait before that.
func TestAnInitThatNeverAnswers(t *testing.T) {
	silent := func() *fakeInit {
		f := newFake()
		hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		f.unary = func(ctx context.Context, _ string, _ any) error { return hang(ctx) }
		f.extend = func(ctx context.Context, _ *pb.ExtendReply) error { return hang(ctx) }
		return f
	}
	f := silent()
	s := attached(t, f)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := s.Usage(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Usage = %v, want the deadline", err)
	}
	f = silent()
	s = attached(t, f, func(c *Config) { *c = bounded(c.Dial) })
	if _, err := s.Usage(t.Context()); skerry.OutcomeOf(err) != skerry.Lost || !strings.Contains(err.Error(), reasonHostile) {
		t.Errorf("Usage = %v, want it given up", err)
	}
}

// Output without end is the caller's to stop, by its error or its context.
func TestEndlessOutputEndsWithTheContext(t *testing.T) {
	f := newFake()
	f.output = func(_ *pb.OutputRequest, stream outputStream) error {
		data := make([]byte, 1000)
		for at := int64(0); ; at += 1000 {
			if err := stream.Send(&pb.OutputReply{Stream: 1, Offset: at, Data: data}); err != nil {
				return err
			}
		}
	}
	s := attached(t, f)
	c := start(t, s, "1", "yes")
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	err := c.Output(ctx, skerry.Offsets{}, func(skerry.Chunk) error {
		if n++; n == 100 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Output = %v", err)
	}
}

// The init's word on a call is final.
func TestErrorsOfTheInitAreNotRetried(t *testing.T) {
	f := newFake()
	asked := 0
	f.unary = func(context.Context, string, any) error {
		asked++
		return pb.ToStatus(skerry.Errorf(skerry.Busy, "", "too many").WithHint("wait"))
	}
	_, err := attached(t, f).Usage(t.Context())
	if skerry.KindOf(err) != skerry.Busy || skerry.HintOf(err) != "wait" || asked != 1 {
		t.Errorf("Usage = %v, asked %d times", err, asked)
	}
}
