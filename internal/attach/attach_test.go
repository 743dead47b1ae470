package attach

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skerry-run/skerry"
	pb "github.com/skerry-run/skerry/internal/initproto"
)

// numbered gives at least n bytes of numbered lines, so that a hole or a
// doubling shows where it is.
func numbered(prefix string, n int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%s %08d\n", prefix, i)
	}
	return b.Bytes()
}

func start(t *testing.T, s *Sandbox, id string, argv ...string) skerry.Command {
	t.Helper()
	c, err := s.Start(t.Context(), skerry.CommandSpec{ID: id, Argv: argv})
	if err != nil {
		t.Fatalf("Start %s: %v", id, err)
	}
	return c
}

func TestACommandGivesItsOutputAndItsEnd(t *testing.T) {
	s := attached(t, newFake())
	c := start(t, s, "1", "echo", "hi")
	out, _, err := collect(t.Context(), c)
	if err != nil || string(out) != "echo hi\n" {
		t.Fatalf("Output = %q, %v", out, err)
	}
	exit, err := c.Wait(t.Context())
	if err != nil || exit.Outcome != skerry.Exited || *exit.ExitCode != 0 {
		t.Fatalf("Wait = %+v, %v", exit, err)
	}
}

func TestTheEndThatOutputBroughtIsNotAskedForAgain(t *testing.T) {
	f := newFake()
	f.wait = func(context.Context, *pb.Exit) error { return errors.New("must not be asked") }
	s := attached(t, f)
	c := start(t, s, "1", "true")
	if _, _, err := collect(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Wait(t.Context()); err != nil {
		t.Errorf("Wait: %v", err)
	}
}

func TestOmittedBytesAreMarked(t *testing.T) { // B063
	f := newFake()
	f.add("1", numbered("out", 5000), nil).lost = 1234
	s := attached(t, f)
	c, err := s.Command(t.Context(), "1")
	if err != nil {
		t.Fatal(err)
	}
	var first *skerry.Chunk
	err = c.Output(t.Context(), skerry.Offsets{Stdout: 100}, func(ch skerry.Chunk) error {
		if first == nil {
			first = &ch
		}
		return nil
	})
	if err != nil || first == nil || first.Offset != 1234 || first.Omitted != 1134 {
		t.Errorf("first chunk %+v, %v; want offset 1234 with 1134 omitted", first, err)
	}
}

func TestTheCallersErrorEndsOutput(t *testing.T) {
	f := newFake()
	f.add("1", numbered("out", 5000), nil)
	s := attached(t, f)
	c, _ := s.Command(t.Context(), "1")
	mine := errors.New("enough")
	if err := c.Output(t.Context(), skerry.Offsets{}, func(skerry.Chunk) error { return mine }); err != mine {
		t.Errorf("Output = %v, want the caller's own error", err)
	}
}

func TestStdinArrivesWhole(t *testing.T) { // B001, B002
	for _, n := range []int{0, 1, stdinWindow, 5 << 20} {
		f := newFake()
		fc, end := f.run("1")
		s := attached(t, f)
		c, _ := s.Command(t.Context(), "1")
		w, err := c.Stdin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		in := numbered("in", n)[:n]
		if _, err := io.Copy(w, bytes.NewReader(in)); err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if err := w.Close(); err != nil {
			t.Fatalf("%d bytes: Close: %v", n, err)
		}
		if !bytes.Equal(fc.in, in) || !fc.inDone {
			t.Errorf("%d bytes sent, %d arrived, end of file %v", n, len(fc.in), fc.inDone)
		}
		end()
	}
}

func TestFilesRoundTrip(t *testing.T) {
	s := attached(t, newFake())
	data := numbered("file", 700_000)
	info, err := s.Files().Write(t.Context(), "a\nb", bytes.NewReader(data), skerry.WriteOptions{})
	if err != nil || info.Size != int64(len(data)) {
		t.Fatalf("Write = %+v, %v", info, err)
	}
	var got bytes.Buffer
	read, err := s.Files().Read(t.Context(), "a\nb", 0, -1, &got)
	if err != nil || !bytes.Equal(got.Bytes(), data) || read.SHA256 != info.SHA256 {
		t.Errorf("Read gave %d bytes, %+v, %v", got.Len(), read, err)
	}
	got.Reset()
	read, err = s.Files().Read(t.Context(), "a\nb", 10, 5, &got)
	if err != nil || got.String() != string(data[10:15]) || read.SHA256 != "" {
		t.Errorf("Read of a range gave %q, %+v, %v", got.String(), read, err)
	}
	if _, err := s.Files().Stat(t.Context(), "none"); skerry.KindOf(err) != skerry.NotFound {
		t.Errorf("Stat of nothing: %v", err)
	}
}

func TestAnUploadWhoseReaderFailsChangesNothing(t *testing.T) {
	f := newFake()
	s := attached(t, f)
	r := io.MultiReader(strings.NewReader("half"), errReader{io.ErrUnexpectedEOF})
	if _, err := s.Files().Write(t.Context(), "x", r, skerry.WriteOptions{}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("Write = %v, want the reader's error", err)
	}
	if _, err := f.file([]byte("x")); err == nil {
		t.Error("the file was written")
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

func TestExtendIsInInfo(t *testing.T) {
	s := attached(t, newFake())
	if err := s.Extend(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	if left := time.Until(s.Info().Expires); left < 59*time.Minute || left > time.Hour {
		t.Errorf("%v left, want an hour", left)
	}
	if err := s.Extend(t.Context(), -1); skerry.KindOf(err) != skerry.Invalid {
		t.Errorf("negative time to live: %v", err)
	}
}

func TestTheKeyIsSetOnceAndProvedAfterwards(t *testing.T) {
	f := newFake()
	f.trusted = false
	key := bytes.Repeat([]byte{7}, 32)
	first := attached(t, f, func(c *Config) { c.Key, c.SetKey = key, true })
	if _, err := first.Usage(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := attached(t, f, func(c *Config) { c.Key = key })
	if _, err := second.Usage(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := New(t.Context(), Config{Dial: serve(t, f), Key: bytes.Repeat([]byte{8}, 32)})
	if skerry.KindOf(err) != skerry.Denied {
		t.Errorf("with a wrong key: %v", err)
	}
}

func TestAClosedHandleSaysSo(t *testing.T) {
	f := newFake()
	_, end := f.run("1")
	defer end()
	s := attached(t, f)
	c, _ := s.Command(t.Context(), "1")
	w, err := c.Stdin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := c.Wait(t.Context())
		ended <- err
	}()
	s.Close()
	s.Close()
	if err := <-ended; skerry.KindOf(err) != skerry.Unavailable {
		t.Errorf("Wait across Close: %v", err)
	}
	if _, err := w.Write([]byte("x")); err == nil {
		t.Error("Write to stdin after Close worked")
	}
	if _, err := s.Usage(t.Context()); skerry.KindOf(err) != skerry.Unavailable {
		t.Errorf("Usage after Close: %v", err)
	}
}

func TestContextEndsEveryCall(t *testing.T) {
	f := newFake()
	_, end := f.run("1")
	defer end()
	s := attached(t, f)
	c, _ := s.Command(t.Context(), "1")
	for name, call := range map[string]func(context.Context) error{
		"Wait":   func(ctx context.Context) error { _, err := c.Wait(ctx); return err },
		"Output": func(ctx context.Context) error { _, _, err := collect(ctx, c); return err },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		if err := call(ctx); !errors.Is(err, context.Canceled) || skerry.OutcomeOf(err) != skerry.Lost {
			t.Errorf("%s: %v, want canceled", name, err)
		}
	}
}

func TestADeadSandboxIsNamed(t *testing.T) {
	gone := skerry.Errorf(skerry.Expired, "", "its time to live ended")
	_, err := New(t.Context(), Config{
		Dial: func(context.Context) (net.Conn, error) { return nil, errors.New("no such socket") },
		Lost: func(context.Context) error { return gone },
	})
	if skerry.KindOf(err) != skerry.Expired {
		t.Errorf("New = %v, want what Lost said", err)
	}
}

func TestUnreachableIsGivenUp(t *testing.T) {
	dials := 0
	_, err := New(t.Context(), Config{
		Dial:      func(context.Context) (net.Conn, error) { dials++; return nil, errors.New("no route") },
		Reconnect: Reconnect{Attempts: 4, BackoffMin: time.Millisecond, BackoffMax: time.Millisecond},
	})
	if skerry.KindOf(err) != skerry.Unavailable || skerry.OutcomeOf(err) != skerry.Lost || !strings.Contains(err.Error(), reasonUnreachable) {
		t.Errorf("New = %v", err)
	}
	if dials != 4 {
		t.Errorf("dialled %d times, want 4", dials)
	}
}

func TestACommandTooLargeForTheStreamIsTheCallersFault(t *testing.T) {
	s := attached(t, newFake())
	env := map[string]string{}
	for i := range 200 {
		env[fmt.Sprint("V", i)] = strings.Repeat("x", 120_000)
	}
	_, err := s.Start(t.Context(), skerry.CommandSpec{ID: "1", Argv: []string{"true"}, Env: env})
	if skerry.KindOf(err) != skerry.Invalid {
		t.Errorf("Start = %v of kind %s, want invalid", err, skerry.KindOf(err))
	}
}

func TestTwoWritersOfOneInput(t *testing.T) {
	f := newFake()
	fc, end := f.run("1")
	defer end()
	s := attached(t, f)
	c, _ := s.Command(t.Context(), "1")
	w, err := c.Stdin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for range 2 {
		writers.Go(func() {
			if _, err := w.Write(make([]byte, 3*stdinWindow/2+1)); err != nil {
				t.Error(err)
			}
		})
	}
	writers.Wait()
	if err := w.Close(); err != nil || len(fc.in) != 3*stdinWindow+2 {
		t.Errorf("%d bytes arrived, want %d; %v", len(fc.in), 3*stdinWindow+2, err)
	}
}

// Bytes that are not UTF-8 go through where names and arguments are, and are
// the caller's fault where patterns are.
func TestBytesThatAreNotUTF8(t *testing.T) {
	s := attached(t, newFake())
	c, err := s.Start(t.Context(), skerry.CommandSpec{ID: "1", Argv: []string{"a\xff"}, Missing: "\xff", Dir: "\xff", Env: map[string]string{"A": "\xff"}})
	if err != nil {
		t.Fatal(err)
	}
	if out, _, err := collect(t.Context(), c); err != nil || string(out) != "a\xff\n" {
		t.Errorf("Output = %q, %v", out, err)
	}
	if err := c.Cancel(t.Context(), "\xff"); err != nil {
		t.Errorf("Cancel: %v", err)
	}
	if _, err := s.Files().Write(t.Context(), "\xff", strings.NewReader("x"), skerry.WriteOptions{}); err != nil {
		t.Errorf("Write: %v", err)
	}
	if _, err := s.Files().Glob(t.Context(), ".", "\xff", 0); skerry.KindOf(err) != skerry.Invalid {
		t.Errorf("Glob: %v", err)
	}
	if _, err := s.Files().Grep(t.Context(), skerry.GrepSpec{Pattern: "\xff"}); skerry.KindOf(err) != skerry.Invalid {
		t.Errorf("Grep: %v", err)
	}
}
