//go:build linux

package keeper

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A supervisor runs components and reaps every process that ends in its PID
// namespace. Start and reap exclude each other, so that a process id here is
// always one of a process that has not been reaped.
type supervisor struct {
	mu    sync.Mutex
	parts map[string]*part
	byPID map[int]*part
}

type part struct {
	Component
	status  Status
	wanted  bool
	backoff time.Duration
	// ended is closed when the process that runs now has ended.
	ended chan struct{}
	retry *time.Timer
}

func newSupervisor() *supervisor {
	return &supervisor{parts: map[string]*part{}, byPID: map[int]*part{}}
}

// run defines the component, in place of one of the same name, and starts it.
func (s *supervisor) run(c Component) error {
	if c.Name == "" || filepath.Base(c.Name) != c.Name || len(c.Args) == 0 || !filepath.IsAbs(c.Args[0]) {
		return fmt.Errorf("component %q: it needs a plain name and an absolute program", c.Name)
	}
	s.mu.Lock()
	known := s.parts[c.Name] != nil
	s.mu.Unlock()
	if known {
		if err := s.stop(c.Name); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.parts[c.Name]
	if p == nil {
		p = &part{status: Status{Name: c.Name, State: Stopped, Since: time.Now()}}
		s.parts[c.Name] = p
	}
	p.Component, p.backoff = c, minBackoff
	return s.startLocked(p)
}

// start starts a component that is stopped or waits; it is no error when it
// already runs.
func (s *supervisor) start(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.findLocked(name)
	if err != nil || p.status.State == Running {
		return err
	}
	p.backoff = minBackoff
	return s.startLocked(p)
}

// stop ends a component and returns when it has ended.
func (s *supervisor) stop(name string) error {
	s.mu.Lock()
	p, err := s.findLocked(name)
	if err != nil {
		s.mu.Unlock()
		return err
	}
	p.wanted = false
	if p.retry != nil {
		p.retry.Stop()
		p.retry = nil
	}
	if p.status.State != Running {
		p.status.State, p.status.Since = Stopped, time.Now()
		s.mu.Unlock()
		return nil
	}
	ended := p.ended
	// A stopped process would not see SIGTERM.
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGCONT} {
		err = unix.Kill(p.status.PID, sig)
	}
	s.mu.Unlock()
	if err != nil {
		return fmt.Errorf("stop %s: %w", name, err)
	}
	select {
	case <-ended:
		return nil
	case <-time.After(stopGrace):
	}
	if err := s.signal(name, unix.SIGKILL); err != nil {
		select {
		case <-ended:
			return nil
		default:
			return err
		}
	}
	<-ended
	return nil
}

// signal sends a signal to a component. After SIGKILL it returns when the
// process has ended.
func (s *supervisor) signal(name string, sig unix.Signal) error {
	s.mu.Lock()
	p, err := s.findLocked(name)
	if err == nil && p.status.State != Running {
		err = fmt.Errorf("component %s is %s", name, p.status.State)
	}
	if err == nil {
		err = unix.Kill(p.status.PID, sig)
	}
	if err != nil {
		s.mu.Unlock()
		return err
	}
	ended := p.ended
	s.mu.Unlock()
	if sig == unix.SIGKILL {
		<-ended
	}
	return nil
}

func (s *supervisor) status() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Status, 0, len(s.parts))
	for _, p := range s.parts {
		all = append(all, p.status)
	}
	slices.SortFunc(all, func(a, b Status) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (s *supervisor) findLocked(name string) (*part, error) {
	if p := s.parts[name]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("there is no component %q", name)
}

func (s *supervisor) startLocked(p *part) error {
	log, err := os.OpenFile(p.Log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	pid, err := syscall.ForkExec(p.Args[0], p.Args, &syscall.ProcAttr{
		Dir:   "/",
		Env:   p.Env,
		Files: []uintptr{null.Fd(), log.Fd(), log.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return fmt.Errorf("start %s: %w", p.Args[0], err)
	}
	p.wanted, p.ended, p.retry = true, make(chan struct{}), nil
	p.status.State, p.status.PID, p.status.Since = Running, pid, time.Now()
	p.status.Starts++
	s.byPID[pid] = p
	return nil
}

// reap collects every process that has ended, ours and orphans alike.
func (s *supervisor) reap() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, unix.WNOHANG, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if p := s.byPID[pid]; p != nil {
			delete(s.byPID, pid)
			s.endedLocked(p, ws)
		}
	}
}

func (s *supervisor) endedLocked(p *part, ws unix.WaitStatus) {
	ran := time.Since(p.status.Since)
	p.status.LastExit = fmt.Sprintf("exit status %d", ws.ExitStatus())
	if ws.Signaled() {
		p.status.LastExit = "signal: " + ws.Signal().String()
	}
	p.status.State, p.status.PID, p.status.Since = Stopped, 0, time.Now()
	close(p.ended)
	slog.Info("component ended", "component", p.Name, "end", p.status.LastExit, "took", ran)
	if !p.wanted {
		return
	}
	if ran >= steadyAfter {
		p.backoff = minBackoff
	}
	p.status.State = Waiting
	s.retryLocked(p)
}

// retryLocked starts p again after its backoff, for as long as it is wanted.
func (s *supervisor) retryLocked(p *part) {
	var timer *time.Timer
	timer = time.AfterFunc(p.backoff, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		// Another start or a stop came first.
		if p.retry != timer {
			return
		}
		if err := s.startLocked(p); err != nil {
			slog.Error("component does not start", "component", p.Name, "error", err)
			s.retryLocked(p)
		}
	})
	p.retry = timer
	p.backoff = min(2*p.backoff, maxBackoff)
}
