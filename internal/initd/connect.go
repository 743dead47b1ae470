//go:build linux

package initd

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// maxSocketName is what a unix address holds.
const maxSocketName = 107

// listenAbstract accepts clients on an abstract socket, which user code can't
// replace as it could a file. Only processes that were put into the sandbox
// from outside are let in: they have no parent in its pid namespace, and user
// code always has one.
func (s *Server) listenAbstract(g *gate, name string) error {
	if name == "" || len(name) > maxSocketName {
		return fmt.Errorf("listen: the socket's name has %d bytes, want 1 to %d", len(name), maxSocketName)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: "@" + name, Net: "unix"})
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	context.AfterFunc(doneContext(s.done), func() { l.Close() })
	go func() {
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				select {
				case <-s.done:
					return
				case <-time.After(100 * time.Millisecond): // files are used up for the moment
					continue
				}
			}
			if pid, err := peerPID(c); err != nil || !fromOutside(pid) {
				c.Close()
				continue
			}
			s.admit(g, c, false)
		}
	}()
	return nil
}

// doneContext ends with done.
func doneContext(done <-chan struct{}) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-done
		cancel()
	}()
	return ctx
}

// peerPID is the process that connected, in our numbering.
func peerPID(c *net.UnixConn) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var get error
	if err := raw.Control(func(fd uintptr) {
		cred, get = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if get != nil {
		return 0, get
	}
	return int(cred.Pid), nil
}

// fromOutside says whether a process has no parent in this pid namespace.
func fromOutside(pid int) bool {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return false
	}
	for line := range bytes.Lines(data) {
		if rest, ok := bytes.CutPrefix(line, []byte("PPid:")); ok {
			return string(bytes.TrimSpace(rest)) == "0"
		}
	}
	return false
}

// ConnectMain bridges its standard input and output to the init's socket. It
// talks to nobody but PID 1.
func ConnectMain(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		fmt.Fprintf(stderr, "skerry-init: error: make the bridge private: %v\n", err)
		return exitUsage
	}
	if len(args) != 1 || args[0] == "" || len(args[0]) > maxSocketName {
		fmt.Fprintln(stderr, "skerry-init: error: connect needs the name of the init's socket")
		return exitUsage
	}
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: "@" + args[0], Net: "unix"})
	if err != nil {
		fmt.Fprintf(stderr, "skerry-init: error: reach the init: %v\n", err)
		return exitUsage
	}
	defer c.Close()
	if pid, err := peerPID(c); err != nil || pid != 1 {
		fmt.Fprintln(stderr, "skerry-init: error: the socket does not belong to the init of this sandbox")
		return exitUsage
	}
	// Either end that closes ends both: half a stream is of no use to gRPC.
	ended := make(chan struct{}, 2)
	bridge := func(dst io.Writer, src io.Reader) {
		_, _ = io.CopyBuffer(struct{ io.Writer }{dst}, struct{ io.Reader }{src}, make([]byte, 64<<10))
		ended <- struct{}{}
	}
	go bridge(c, stdin)
	go bridge(stdout, c)
	<-ended
	return 0
}
