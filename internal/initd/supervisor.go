//go:build linux

package initd

import (
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry/internal/control"
)

// spoolWait is how long the supervisor may take to make a file.
const spoolWait = 2 * time.Second

// supervisor is the init's end of the control line.
type supervisor struct {
	line   *control.Line
	server *Server
	send   chan struct{} // a token: who has it may send
	asked  chan struct{} // a token: who has it may ask for a file
	files  chan *os.File // files that were asked for

	mu      sync.Mutex
	scoring []chan struct{} // keepers whose score is being set, in the order of the answers
}

func newSupervisor(line *control.Line, s *Server) *supervisor {
	v := &supervisor{line: line, server: s, send: make(chan struct{}, 1), asked: make(chan struct{}, 1), files: make(chan *os.File)}
	v.send <- struct{}{}
	v.asked <- struct{}{}
	return v
}

// listen hands connections to accept until the line ends, which ends the
// sandbox: without its supervisor nobody would.
func (v *supervisor) listen(accept func(net.Conn)) {
	defer v.server.stop("lifeline")
	for {
		m, f, err := v.line.Receive()
		if err != nil {
			return
		}
		switch {
		case m.Type == control.Conn && f != nil:
			c, err := net.FileConn(f)
			f.Close()
			if err == nil {
				accept(c)
			}
		case m.Type == control.Spool && f != nil:
			select {
			case v.files <- f:
			case <-time.After(spoolWait): // it came too late, nobody waits
				f.Close()
			}
		case f != nil:
			f.Close()
		case m.Type == control.Hidden:
			v.server.watch.told(m.Bytes)
		case m.Type == control.Memory:
			v.server.memory.told(m.Bytes)
		case m.Type == control.Keeper:
			v.keeperScored()
		}
	}
}

// scoreKeeper has the score of a keeper set. The channel is closed when it is;
// nobody needs to wait for it but who starts user code.
func (v *supervisor) scoreKeeper(pid int) (<-chan struct{}, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, err
	}
	pidfd := os.NewFile(uintptr(fd), "keeper")
	defer pidfd.Close()
	<-v.send
	defer func() { v.send <- struct{}{} }()
	done := make(chan struct{})
	v.mu.Lock()
	v.scoring = append(v.scoring, done) // in the order in which they are sent
	v.mu.Unlock()
	if err := v.line.Send(control.Message{Type: control.Keeper}, pidfd); err != nil {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.scoring = slices.DeleteFunc(v.scoring, func(c chan struct{}) bool { return c == done })
		return nil, err
	}
	return done, nil
}

func (v *supervisor) keeperScored() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.scoring) > 0 {
		close(v.scoring[0])
		v.scoring = v.scoring[1:]
	}
}

func (v *supervisor) tell(m control.Message) error {
	<-v.send
	defer func() { v.send <- struct{}{} }()
	return v.line.Send(m, nil)
}

var errNoSpool = errors.New("the supervisor gave no file")

// spoolFile asks for a file. One at a time, so that no answer goes astray.
func (v *supervisor) spoolFile() (*os.File, error) {
	<-v.asked
	defer func() { v.asked <- struct{}{} }()
	if err := v.tell(control.Message{Type: control.Spool}); err != nil {
		return nil, err
	}
	select {
	case f := <-v.files:
		return f, nil
	case <-time.After(spoolWait):
		return nil, errNoSpool
	case <-v.server.done:
		return nil, errNoSpool
	}
}
