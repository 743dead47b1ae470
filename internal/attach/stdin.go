package attach

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"

	"github.com/skerry-run/skerry"
	pb "github.com/skerry-run/skerry/internal/initproto"
)

// stdinWindow is how much input may be on its way, kept here until the init
// has taken it, so that it can be sent again after a break.
const stdinWindow = 1 << 20

// stdinPiece is one message of input: small, so that even a stream that never
// lasts long carries some of it.
const stdinPiece = 32 << 10

// Stdin gives the program's standard input. What is written is on its way when
// Write returns; Close returns when the program's end has taken all of it. ctx
// bounds the writer's whole life. After the program's end writes fail with
// io.ErrClosedPipe.
func (c *command) Stdin(ctx context.Context) (io.WriteCloser, error) {
	const op = "open stdin"
	if c.stdinTaken.Swap(true) {
		return nil, skerry.Errorf(skerry.Conflict, op, "the command's stdin was opened before on this handle")
	}
	w := &stdin{command: c, ctx: ctx, more: make(chan struct{}, 1), room: make(chan struct{}, 1), done: make(chan struct{})}
	if err := c.sandbox.retry(ctx, op, func(ctx context.Context, l *link) error {
		at, err := w.ask(ctx, l)
		w.base = at.GetOffset()
		return err
	}); err != nil {
		c.stdinTaken.Store(false)
		return nil, err
	}
	if !c.sandbox.spawn(w.run) {
		_, err := c.sandbox.usable(op)
		return nil, err
	}
	return w, nil
}

// stdin sends what is written, from a goroutine of its own: a stream that
// breaks while nobody writes must be mended all the same.
type stdin struct {
	command *command
	ctx     context.Context // bounds the writer as a whole, between its calls too

	more, room chan struct{} // signals, of one place each: to the sender, to the writer
	done       chan struct{} // closed when the sender has ended

	mu    sync.Mutex
	base  int64  // offset of buf[0]; the init has all before it
	buf   []byte // not known to be with the init
	eof   bool
	ended error // set when done is closed; nil when the init has taken all
}

// Write takes p, waiting for room.
func (w *stdin) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		w.mu.Lock()
		if w.eof {
			w.mu.Unlock()
			return n, io.ErrClosedPipe
		}
		k := min(stdinWindow-len(w.buf), len(p))
		w.buf = append(w.buf, p[:k]...)
		left := len(w.buf) < stdinWindow
		w.mu.Unlock()
		if left {
			signal(w.room) // for another writer
		}
		if k > 0 {
			n, p = n+k, p[k:]
			signal(w.more)
		}
		select {
		case <-w.done:
			return n, w.failure()
		default:
		}
		if k > 0 {
			continue
		}
		select {
		case <-w.room:
		case <-w.done:
		case <-w.ctx.Done():
			return n, contextError(w.ctx, "write stdin")
		}
	}
	return n, nil
}

// Close sends the end of file after what was written.
func (w *stdin) Close() error {
	w.mu.Lock()
	w.eof = true
	w.mu.Unlock()
	signal(w.more)
	<-w.done // ends with w.ctx and with the sandbox's handle
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ended
}

// failure is why Write can't go on.
func (w *stdin) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended == nil {
		return io.ErrClosedPipe
	}
	return w.ended
}

func (w *stdin) run(life context.Context) {
	const op = "write stdin"
	ctx, cancel := context.WithCancelCause(w.ctx)
	defer cancel(nil)
	defer context.AfterFunc(life, func() { cancel(errHandleClosed) })()
	err := w.command.sandbox.retry(ctx, op, func(ctx context.Context, l *link) error {
		return w.attempt(ctx, l)
	})
	w.mu.Lock()
	w.ended = err
	w.mu.Unlock()
	close(w.done)
}

var (
	errHandleClosed = errors.New("the handle to the sandbox was closed")
)

// attempt sends from where the init is, in one stream after the other, until
// the end of file has been taken or the program no longer reads.
func (w *stdin) attempt(ctx context.Context, l *link) error {
	for first := true; ; first = false {
		if first {
			at, err := w.ask(ctx, l)
			if err != nil {
				return err
			}
			if over, err := w.taken(at); over || err != nil {
				return err
			}
		}
		if err := w.wait(ctx, l); err != nil {
			return err
		}
		before := w.base // only this goroutine changes it
		at, err := w.stream(ctx, l)
		if err != nil {
			return err
		}
		if over, err := w.taken(at); over || err != nil {
			return err
		}
		if w.base == before {
			return violation("write stdin", "it ended a stream of input of which it took nothing")
		}
		w.command.sandbox.budget.delivered(int(w.base - before))
	}
}

// ask finds out how much the init has.
func (w *stdin) ask(ctx context.Context, l *link) (*pb.StdinReply, error) {
	return l.client.StdinOffset(ctx, &pb.CommandRef{Id: w.command.id})
}

// taken drops what the init has. over says that nothing more is to be sent;
// the error is for input that nobody will read.
func (w *stdin) taken(at *pb.StdinReply) (over bool, err error) {
	const op = "write stdin"
	w.mu.Lock()
	defer w.mu.Unlock()
	n := at.Offset - w.base
	if w.eof && !at.Closed && n == int64(len(w.buf))+1 { // a terminal takes the end of file as one more byte, and stays open
		w.base, w.buf = at.Offset-1, nil
		return true, nil
	}
	if n < 0 || n > int64(len(w.buf)) && !at.Closed || n > int64(len(w.buf))+1 {
		return false, violation(op, "it has input up to %d, %d to %d were sent", at.Offset, w.base, w.base+int64(len(w.buf)))
	}
	n = min(n, int64(len(w.buf)))
	w.base += n
	w.buf = w.buf[:copy(w.buf, w.buf[n:])]
	signal(w.room)
	switch {
	case !at.Closed:
		return false, nil
	case len(w.buf) == 0 && w.eof:
		return true, nil
	}
	return true, &ownError{io.ErrClosedPipe}
}

// wait returns when there is something to send.
func (w *stdin) wait(ctx context.Context, l *link) error {
	for {
		w.mu.Lock()
		ready := len(w.buf) > 0 || w.eof
		w.mu.Unlock()
		if ready {
			return nil
		}
		select {
		case <-w.more:
		case <-l.conn.gone:
			return errOneStream
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// stream opens one stream, sends until the end of file or until a window full
// is on its way, and gives the init's answer.
func (w *stdin) stream(ctx context.Context, l *link) (*pb.StdinReply, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := l.client.Stdin(ctx)
	if err != nil {
		return nil, err
	}
	type answer struct {
		reply *pb.StdinReply
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		reply := new(pb.StdinReply)
		err := stream.RecvMsg(reply)
		answers <- answer{reply, err}
	}()
	stop := make(chan struct{})
	sent := make(chan error, 1)
	go func() { sent <- w.send(stream, stop) }()

	select {
	case a := <-answers: // early: the program reads no more, or the stream broke
		close(stop)
		cancel()
		<-sent
		return a.reply, a.err
	case err := <-sent:
		if err != nil && !errors.Is(err, io.EOF) { // io.EOF: the answer says why
			cancel()
			<-answers
			return nil, err
		}
		a := <-answers
		return a.reply, a.err
	}
}

// send sends pieces as they come until the end of file, a full window or stop.
func (w *stdin) send(stream grpc.ClientStreamingClient[pb.StdinRequest, pb.StdinReply], stop <-chan struct{}) error {
	w.mu.Lock()
	base := w.base
	w.mu.Unlock()
	request := &pb.StdinRequest{Id: w.command.id, Offset: base}
	for at := 0; ; {
		w.mu.Lock()
		end := min(len(w.buf), at+stdinPiece)
		request.Data = append(request.Data[:0], w.buf[at:end]...)
		request.Eof = w.eof && end == len(w.buf)
		full := end == stdinWindow
		w.mu.Unlock()
		if end > at || request.Eof {
			if err := stream.Send(request); err != nil {
				return err
			}
			at = end
			if request.Eof || full {
				return stream.CloseSend()
			}
			request.Id, request.Offset = "", base+int64(at)
			continue
		}
		select {
		case <-w.more:
		case <-stop:
			return nil
		}
	}
}

// signal wakes whoever waits on c, now or next.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
