//go:build linux

package keeper

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// serve is the life of the keeper inside its namespaces; it ends only with an
// error or by a signal. It calls ready once it answers.
func serve(spec Spec, ready func()) error {
	if os.Getpid() != 1 {
		return errors.New("the keeper is not the first process of a PID namespace")
	}
	held, err := lock(spec.Folder)
	if err != nil {
		return err
	}
	defer runtime.KeepAlive(held)
	if err := unix.Sethostname([]byte(spec.Hostname)); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	if err := mountAll(spec); err != nil {
		return err
	}
	if err := setNetwork(); err != nil {
		return err
	}

	socket := socketPath(spec.Folder)
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	unix.Umask(0o077)
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	// Components make files that containers of any user read.
	unix.Umask(0o022)

	s := newSupervisor()
	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)
	go func() {
		for range children {
			s.reap()
		}
	}()
	ready()
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go s.answer(conn)
	}
}

func (s *supervisor) answer(conn net.Conn) {
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(requestTimeout))
	var r request
	if err := json.NewDecoder(io.LimitReader(conn, maxMessageBytes)).Decode(&r); err != nil {
		return
	}
	var a answer
	if err := s.do(r, &a); err != nil {
		a.Error = err.Error()
	}
	if err := json.NewEncoder(conn).Encode(a); err != nil {
		slog.Error("answer", "op", r.Op, "error", err)
	}
}

func (s *supervisor) do(r request, a *answer) error {
	switch r.Op {
	case opRun:
		if r.Component == nil {
			return errors.New("run: no component was given")
		}
		return s.run(*r.Component)
	case opStart:
		return s.start(r.Name)
	case opStop:
		return s.stop(r.Name)
	case opSignal:
		return s.signal(r.Name, unix.Signal(r.Signal))
	case opStatus:
		a.Components = s.status()
		return nil
	default:
		return fmt.Errorf("unknown operation %q", r.Op)
	}
}
