//go:build linux

package supervise

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/boxes"
	"github.com/skerry-run/skerry/internal/bwrap"
	"github.com/skerry-run/skerry/internal/cgroups"
	"github.com/skerry-run/skerry/internal/control"
	"github.com/skerry-run/skerry/internal/sweep"
)

// op names what a caller was doing when the supervisor says it failed.
const op = "create sandbox"

const (
	killLimit   = 10 * time.Second // the kernel needs longer only when a process hangs in a device
	endingLimit = 10 * time.Second // that the end of an earlier sandbox of the same name may take
	lineLimit   = 2 * time.Second  // that the line may outlast bwrap
	ttlMargin   = 5 * time.Second  // after which we end what the init should have ended by itself
)

// supervisor is the life of one sandbox.
type supervisor struct {
	order    boxes.Order
	reply    *replier
	layout   <-chan bwrap.Layout // what a sandbox shows of this machine
	seccomp  *os.File
	lifeline *os.File
	signals  chan os.Signal

	box        *boxes.Box
	group      *cgroups.Group
	cgroupHost cgroups.Host
	socket     *net.UnixListener
	line       *control.Line
	launch     *launch
	volume     *boxes.Volume  // of a persistent session
	remove     []func() error // what else to undo, in reverse order

	end    chan string // the first reason to end
	latest time.Time   // order.Latest on the clock that nobody sets
	spool  spoolGuard

	mu     sync.Mutex
	expiry *time.Timer
	said   string // why the init says it ended; "" when it did not say
	begun  bool   // the init has spoken
	ooms   int64  // kills for memory at the last look, see diedOfMemoryLocked
}

// steady gives a time that comes from elsewhere, and so from the machine's
// clock, a reading of the monotonic one: what is compared with it, or waited for
// until it, does not move when the clock is set.
func steady(at time.Time) time.Time { return time.Now().Add(time.Until(at)) }

// stop asks for the end; the first reason counts.
func (s *supervisor) stop(reason string) {
	select {
	case s.end <- reason:
	default:
	}
}

// run makes the sandbox, keeps it and removes it. An error means that there
// never was one.
func (s *supervisor) run() error {
	s.latest = steady(s.order.Latest)
	if err := s.claim(); err != nil {
		return err
	}
	go s.watchBox()
	go s.watchLifeline()
	go s.watchSignals()
	err := s.make()
	reason := boxes.EndedLost
	if err == nil {
		reason, err = s.keep()
	}
	removed := s.removeAll(reason, err != nil)
	if err == nil && (reason == boxes.EndedLost || reason == boxes.EndedOOM) {
		// Whoever still listens is waiting for an init to answer.
		s.reply.fail(s.diedError())
	}
	return errors.Join(err, removed)
}

// diedError is for an init that ran, and died before anybody had reached it.
func (s *supervisor) diedError() error {
	text := s.launch.stderr.String()
	if text == "" {
		text = "it was killed"
	}
	return skerry.Errorf(skerry.Unavailable, op, "the sandbox died as it started: %s", text).
		WithHint("a memory limit that is too small for the init does this").WithOutcome(skerry.StartFailed)
}

// claim takes the name. One that is just ending is waited for; one whose
// supervisor died is cleaned up.
func (s *supervisor) claim() error {
	d, r := s.order.Dirs, &s.order.Record
	self, err := boxes.Self()
	if err != nil {
		return skerry.Errorf(skerry.Internal, op, "%w", err)
	}
	r.Supervisor = self
	for end := time.Now().Add(endingLimit); ; {
		if note, ok := d.Recall(r.Key); ok && r.Ref.Kind == skerry.RunKind {
			return skerry.Errorf(skerry.Expired, op, "run %q has been: %s", r.Ref.Name, note.Words()).
				WithHint("a run's id is used once; choose another").WithOutcome(skerry.Refused)
		} else if ok && (note.Reason == boxes.EndedLost || note.Reason == boxes.EndedOOM) {
			r.Recreated, r.Lost = true, lostWith(d, r)
		}
		s.box, err = d.Claim(r, func(others []boxes.Record) error {
			if r.UID, err = chooseUID(d, r.Key, others); err != nil {
				return err
			}
			return chooseSubnet(r, r.UID, others)
		})
		if err == nil {
			if err := d.Forget(r.Key); err != nil {
				return errors.Join(skerry.Errorf(skerry.Internal, op, "%w", err), s.box.Remove())
			}
			return nil
		}
		if !errors.Is(err, boxes.ErrTaken) {
			return skerry.Errorf(skerry.Internal, op, "%w", err)
		}
		other, alive, err := d.Find(r.Key)
		if err != nil {
			return skerry.Errorf(skerry.Internal, op, "%w", err)
		}
		switch {
		case alive && !d.Ending(r.Key):
			return skerry.Errorf(skerry.Conflict, op, "%s %q exists", r.Ref.Kind, r.Ref.Name).
				WithHint("use another name, or remove it first").WithOutcome(skerry.Refused)
		case alive:
			if fd, ok := other.Supervisor.Open(); ok {
				waitPidfd(fd, time.Until(end))
				unix.Close(fd)
			}
		default:
			if _, err := sweep.Box(d, r.Key); err != nil {
				return skerry.Errorf(skerry.Internal, op, "%w", err)
			}
		}
		if time.Now().After(end) {
			return skerry.Errorf(skerry.Busy, op, "the previous %s %q has been ending for %v", r.Ref.Kind, r.Ref.Name, endingLimit).
				WithHint("try again in a moment; skerry doctor names what could not be removed").WithOutcome(skerry.StartFailed)
		}
	}
}

// lostWith says what a session that is made anew does not have any more.
func lostWith(d boxes.Dirs, r *boxes.Record) []string {
	lost := []string{"running commands", "the shell's variables and working directory", "files in /tmp"}
	if !r.Persistent || !d.HasVolume(r.Key) {
		lost = append(lost, "files in the workspace and HOME")
	}
	return lost
}

// keep waits for the end of the sandbox and says why it came. An error means
// that the init never ran.
func (s *supervisor) keep() (reason string, err error) {
	go s.accept()
	lineEnded := make(chan struct{})
	go func() {
		defer close(lineEnded)
		s.listen()
	}()
	s.armExpiry(s.order.Record.Expires)
	if !s.countsMemory() {
		go s.watchMemory()
	}
	if s.volume != nil {
		go s.watchHidden(*s.volume)
	}
	select {
	case reason = <-s.end:
		return reason, nil
	case <-s.launch.exited:
	}
	// What the init had said before it went is still in the line. Its far end
	// is closed then, unless bwrap was killed just after it had made a child,
	// which holds it; that one is ended with everything else.
	select {
	case <-lineEnded:
	case <-time.After(lineLimit):
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.said != "" {
		return s.said, nil
	}
	if !s.begun {
		return "", s.setupError()
	}
	if s.diedOfMemoryLocked() {
		return boxes.EndedOOM, nil
	}
	return boxes.EndedLost, nil
}

// setupError explains a bwrap that ended without an init having run.
func (s *supervisor) setupError() error {
	select { // what it said last may still be in the pipe
	case <-s.launch.spoken:
	case <-time.After(lineLimit): // held by a child, as above
	}
	text := s.launch.stderr.String()
	if text == "" {
		text = "bwrap ended without a word"
	}
	return skerry.Errorf(skerry.Unavailable, op, "set up the sandbox: %s", text).
		WithHint("%s", hintFor(text)).WithOutcome(skerry.StartFailed)
}

// removeAll undoes everything. It goes on after a step that failed, and keeps
// the box then, so that the next sweep tries again.
func (s *supervisor) removeAll(reason string, failed bool) error {
	var errs []error
	if !failed {
		// The note first: whoever finds the sandbox ending asks it why.
		errs = append(errs, sweep.Note(s.order.Dirs, s.box.Record, reason))
	}
	if err := s.box.MarkEnding(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	if s.socket != nil {
		s.socket.Close()
	}
	if s.launch != nil && s.launch.cmd != nil && s.launch.cmd.Process != nil {
		errs = append(errs, s.launch.kill())
	}
	if s.line != nil {
		s.line.Close()
	}
	if s.group != nil {
		errs = append(errs, cgroups.Remove(s.group.Paths()))
	}
	for i := len(s.remove) - 1; i >= 0; i-- {
		errs = append(errs, s.remove[i]())
	}
	if err := errors.Join(errs...); err != nil {
		s.box.Complain(err)
		return fmt.Errorf("remove sandbox: %w", err)
	}
	return s.box.Remove()
}

// armExpiry ends the sandbox some time after the init should have.
func (s *supervisor) armExpiry(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.expiry != nil {
		s.expiry.Stop()
	}
	if !at.IsZero() {
		s.expiry = time.AfterFunc(time.Until(at)+ttlMargin, func() { s.stop(boxes.EndedTTL) })
	}
}

// watchLifeline ends the sandbox when its owner goes, in whatever way.
func (s *supervisor) watchLifeline() {
	b := make([]byte, 1)
	n, _ := s.lifeline.Read(b)
	s.lifeline.Close()
	if n == 1 && b[0] == boxes.KeepByte {
		return
	}
	s.stop(boxes.EndedOwner)
}

// boxCheck is how often the box is looked for. Watching it would take one of
// the few inotify instances that a user has, for each sandbox.
const boxCheck = 5 * time.Second

// watchBox ends the sandbox when somebody deletes its box: nobody could find it
// any more.
func (s *supervisor) watchBox() {
	for range time.Tick(boxCheck) {
		if !s.box.Locked() {
			s.stop(boxes.EndedLost)
			return
		}
		s.countOOMs()
	}
}

func (s *supervisor) watchSignals() {
	for range s.signals {
		s.stop(boxes.EndedShutdown)
	}
}

func waitPidfd(fd int, d time.Duration) bool { return boxes.WaitPidfd(fd, d) }
