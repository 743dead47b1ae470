//go:build linux

package initd

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/mem"

	pb "github.com/skerry-run/skerry/internal/initproto"
)

const (
	pipeBytes = 1 << 20       // of a command's output pipe, where the kernel allows it
	pumpBytes = pb.ChunkBytes // read at once
	// terminalSettle is how long the end of a terminal's output is waited for:
	// the kernel hands it over in the background.
	terminalSettle = 200 * time.Millisecond
)

// buffers hold output on its way from a pump over its spool to gRPC. They are
// shared by all of them: an idle one holds none.
var buffers = pb.NewBufferPool()

// outputPipe makes a pipe for a program's output: r is ours, w the program's.
func outputPipe() (r, w *os.File, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("pipe: %w", err)
	}
	// The larger pipe is only faster; a user's total may be used up.
	_, _ = unix.FcntlInt(uintptr(p[0]), unix.F_SETPIPE_SZ, pipeBytes)
	if err := unix.SetNonblock(p[0], true); err != nil {
		unix.Close(p[0])
		unix.Close(p[1])
		return nil, nil, fmt.Errorf("pipe: %w", err)
	}
	return os.NewFile(uintptr(p[0]), "output"), os.NewFile(uintptr(p[1]), "output"), nil
}

// pump copies from a program's pipe or terminal to a spool until the end of
// file, and owns both.
type pump struct {
	from     *os.File
	to       *spool
	terminal bool

	drain   chan struct{} // closed when the program has ended
	drained chan struct{} // closed when all that it had written is in the spool
	done    chan struct{} // closed when nobody can write any more
}

func newPump(from *os.File, to *spool, terminal bool) *pump {
	return &pump{
		from: from, to: to, terminal: terminal,
		drain: make(chan struct{}), drained: make(chan struct{}), done: make(chan struct{}),
	}
}

// ended tells the pump that the program has ended: what is in the pipe now is
// the last of it. Call it once.
func (p *pump) ended() {
	// The deadline wakes a read that waits. It is set before the pump is told,
	// because the pump takes it back before it drains: the other way round it
	// could come after that, and the pump would drain for ever.
	_ = p.from.SetReadDeadline(time.Unix(1, 0))
	close(p.drain)
}

func (p *pump) run() {
	defer close(p.done)
	defer p.from.Close()
	defer p.to.close()
	more := true
	for more {
		select {
		case <-p.drain:
			more = p.drainPipe()
			close(p.drained)
			if more {
				_ = p.from.SetReadDeadline(time.Time{})
				for p.copyOnce(pumpBytes) > 0 {
				}
			}
			return
		default:
			n := p.copyOnce(pumpBytes)
			more = n >= 0
		}
	}
	<-p.drain
	close(p.drained)
}

// drainPipe copies what is in the pipe, and no more: a child that goes on
// writing would keep it full for ever. It says whether the pipe is still open.
func (p *pump) drainPipe() bool {
	if p.terminal {
		_ = p.from.SetReadDeadline(time.Now().Add(terminalSettle))
		for left := int64(pipeBytes); left > 0; {
			n := p.copyOnce(pumpBytes)
			if n < 0 {
				return false
			}
			if n == 0 {
				return true
			}
			left -= int64(n)
		}
		return true
	}
	_ = p.from.SetReadDeadline(time.Time{})
	left := pending(p.from)
	for left > 0 {
		n := p.copyOnce(min(left, pumpBytes))
		if n < 0 {
			return false
		}
		left -= n
	}
	return true
}

// pending is how many bytes can be read at once.
func pending(f *os.File) int {
	n := 0
	if c, err := f.SyscallConn(); err == nil {
		_ = c.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	}
	return n
}

// copyOnce waits for data and copies at most limit bytes of it. It gives the
// number, 0 when the deadline passed, and -1 at the end of file.
func (p *pump) copyOnce(limit int) int {
	n := -1
	c, err := p.from.SyscallConn()
	if err != nil {
		return -1
	}
	// The buffer is taken only when there is something to read: a thousand
	// quiet commands hold no memory.
	err = c.Read(func(fd uintptr) bool {
		buf := buffers.Get(limit)
		data := mem.NewBuffer(buf, buffers)
		defer data.Free()
		got, open := readSome(int(fd), *buf)
		if got == 0 {
			return !open // the end of the file, or else wait
		}
		read := data.Slice(0, got)
		defer read.Free()
		p.to.write(read)
		n = got
		return true
	})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return 0
	}
	if err != nil {
		return -1
	}
	return n
}

// readSome reads what is there, without waiting, until buf is full: many small
// writes of a program make one piece. open is false at the end of the file,
// which on a terminal is EIO.
func readSome(fd int, buf []byte) (n int, open bool) {
	for n < len(buf) {
		k, err := syscall.Read(fd, buf[n:])
		switch {
		case err == syscall.EINTR:
		case err == syscall.EAGAIN:
			return n, true
		case err != nil || k == 0:
			return n, false // found again by the next read
		default:
			n += k
		}
	}
	return n, true
}
