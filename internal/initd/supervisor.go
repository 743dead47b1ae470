//go:build linux

package initd

import (
	"errors"
	"net"
	"os"
	"time"

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
		}
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
