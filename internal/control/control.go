//go:build linux

// Package control is the line between the supervisor of a local sandbox, which
// stands outside, and the init inside: one socketpair of type SOCK_SEQPACKET
// that the init inherits. The supervisor hands accepted connections in; the
// init asks for spool files and tells how it ends. User code never holds
// either end, so what arrives needs no further proof of origin; it is bounded
// all the same.
package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

// Type says what a Message is about.
type Type string

const (
	Begun   Type = "begun"   // from the init, the first message: it runs, what comes now is not a failed set-up
	Conn    Type = "conn"    // to the init: a connection from a client (one file)
	Keeper  Type = "keeper"  // from the init: it has made a keeper (one file, a pidfd); to the init: the kernel will choose that before the init
	Spool   Type = "spool"   // from the init: it wants an unlinked file; to the init: here it is (one file)
	Hidden  Type = "hidden"  // to the init: so many bytes are in files without a name that it may not see, and it is time to measure
	Memory  Type = "memory"  // to the init: so many bytes are in memory, where no control group counts
	Expires Type = "expires" // from the init: when its time to live ends now
	Ended   Type = "ended"   // from the init, the last message: why it ends
)

// Message is one packet.
type Message struct {
	Type          Type   `json:"type"`
	ExpiresUnixMS int64  `json:"expires_unix_ms,omitempty"`
	Bytes         int64  `json:"bytes,omitempty"`  // with Hidden and Memory
	Reason        string `json:"reason,omitempty"` // with Ended: "shutdown", "ttl", "idle" or "lifeline"
}

// maxPacket bounds a packet; a Reason is a word.
const maxPacket = 4 << 10

// Line is one end. Send and Receive may be used at the same time, each by one
// goroutine. The owner closes it.
type Line struct{ conn *net.UnixConn }

// Pair makes both ends as files: ours is close-on-exec, theirs too until it is
// given to a child.
func Pair() (ours *Line, theirs *os.File, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make control line: %w", err)
	}
	theirs = os.NewFile(uintptr(fds[1]), "control")
	ours, err = FromFile(os.NewFile(uintptr(fds[0]), "control"))
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}

// FromFile makes a Line of an inherited file, and closes the file.
func FromFile(f *os.File) (*Line, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("control line: %w", err)
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, fmt.Errorf("control line: it is a %T, not a unix socket", c)
	}
	return &Line{u}, nil
}

// Close ends this end; the other sees the end of the line.
func (l *Line) Close() error { return l.conn.Close() }

// Send sends m and, when file is not nil, a duplicate of it.
func (l *Line) Send(m Message, file *os.File) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	var rights []byte
	if file != nil {
		rights = syscall.UnixRights(int(file.Fd()))
	}
	if _, _, err := l.conn.WriteMsgUnix(data, rights, nil); err != nil {
		return fmt.Errorf("control line: send %s: %w", m.Type, err)
	}
	return nil
}

// Receive waits for the next message. The file, if there is one, is the
// caller's to close. The end of the line is net.ErrClosed or io.EOF.
func (l *Line) Receive() (Message, *os.File, error) {
	data := make([]byte, maxPacket)
	oob := make([]byte, syscall.CmsgSpace(4*8)) // room to see, and close, files that nobody announced
	n, oobn, flags, _, err := l.conn.ReadMsgUnix(data, oob)
	if err != nil {
		return Message{}, nil, err
	}
	files, err := filesOf(oob[:oobn])
	if err != nil {
		return Message{}, nil, err
	}
	if n == 0 && len(files) == 0 {
		return Message{}, nil, net.ErrClosed
	}
	var m Message
	if flags&(syscall.MSG_TRUNC|syscall.MSG_CTRUNC) != 0 {
		err = errors.New("packet too large")
	} else {
		err = json.Unmarshal(data[:n], &m)
	}
	if err == nil && len(files) > 1 {
		err = fmt.Errorf("%d files in one packet", len(files))
	}
	if err != nil {
		closeAll(files)
		return Message{}, nil, fmt.Errorf("control line: %w", err)
	}
	if len(files) == 1 {
		return m, files[0], nil
	}
	return m, nil, nil
}

func filesOf(oob []byte) ([]*os.File, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	msgs, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("control line: %w", err)
	}
	var files []*os.File
	for _, msg := range msgs {
		fds, err := syscall.ParseUnixRights(&msg)
		if err != nil {
			continue // not a message of rights
		}
		for _, fd := range fds {
			syscall.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
