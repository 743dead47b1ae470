//go:build linux

package initd

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/control"
	"github.com/skerry-run/skerry/internal/shellstate"
)

const (
	maxRunning = 200  // commands at once
	maxEnded   = 1000 // ended commands that are kept; older ones are forgotten
	// maxForgotten is how many ids of forgotten commands are remembered, so that
	// a late retry does not run a command again.
	maxForgotten = 20_000
	// The output of ended commands that is kept in all, in memory and in files.
	// Beyond it that of the oldest goes.
	maxKeptMemory = 8 << 20
	maxKeptFiles  = 1 << 30
)

// Server is the init's state: the commands, and what they share.
type Server struct {
	config  Config
	files   skerry.Files
	reaper  *reaper
	nursery *nursery
	usage   counters
	memory  *memoryWatch // nil when a control group keeps the limit
	watch   *watch       // nil when nothing is watched
	line    *supervisor  // nil without a control line
	digests [32]byte     // key of the digests of requests
	bootID  string
	shell   shell
	keys    keyring
	taken   atomic.Int64 // bytes that the clients took, all together

	mu       sync.Mutex
	commands map[string]*command
	order    []*command // oldest first
	past     tombstones
	running  int
	clients  int
	ending   string // why the sandbox ends; "" while it lives
	life     lifetime

	orphaned chan struct{} // something fell to PID 1

	done    chan struct{} // closed when the sandbox ends
	emptied chan struct{} // closed when nothing is left in it then
}

// newServer makes the state for config. line may be nil.
func newServer(config Config, files skerry.Files, line *control.Line) *Server {
	s := &Server{
		config:   config,
		files:    files,
		reaper:   newReaper(),
		usage:    counters{config.CgroupRoot},
		memory:   newMemoryWatch(config),
		watch:    newWatch(config),
		commands: map[string]*command{},
		orphaned: make(chan struct{}, 1),
		done:     make(chan struct{}),
		emptied:  make(chan struct{}),
	}
	s.nursery = newNursery(s.reaper, &s.config)
	s.shell.state = shellstate.State{Dir: config.Workspace, Env: config.Env}
	if line != nil {
		s.line = newSupervisor(line, s)
		if config.ScoreKeepers {
			s.nursery.score = s.line.scoreKeeper
		}
	}
	_, _ = rand.Read(s.digests[:]) // never fails
	var id [16]byte
	_, _ = rand.Read(id[:])
	s.bootID = fmt.Sprintf("%x", id)
	return s
}

// spoolFile makes the file of a large stream: from the supervisor, whose disk
// is not the sandbox's, else in the sandbox's own /tmp.
func (s *Server) spoolFile() (store, error) {
	if s.line != nil {
		if f, err := s.line.spoolFile(); err == nil {
			return f, nil
		}
	}
	f, err := unlinkedFile(s.config.Tmp)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// add puts c among the commands, or gives the one that has its id already.
func (s *Server) add(c *command) (existing *command, err error) {
	const op = "start command"
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.commands[c.id]; ok {
		if old.digest != c.digest {
			return nil, skerry.Errorf(skerry.Conflict, op, "the id %q belongs to another command", c.id).
				WithHint("use a new id for every command; the same id again means the same command")
		}
		return old, nil
	}
	if s.past.has(c.id) {
		return nil, skerry.Errorf(skerry.Expired, op, "command %q ended long ago and was forgotten", c.id).
			WithHint("use a new id for a new command; the last %d ended commands are kept", maxEnded)
	}
	if s.ending != "" {
		return nil, skerry.Errorf(skerry.Expired, op, "the sandbox ends (%s)", s.ending).WithOutcome(skerry.Refused)
	}
	if s.running >= maxRunning {
		return nil, skerry.Errorf(skerry.Busy, op, "%d commands run already", s.running).WithOutcome(skerry.Refused).
			WithHint("wait for one to end, or end one")
	}
	s.running++
	s.life.busy()
	s.commands[c.id] = c
	s.order = append(s.order, c)
	return nil, nil
}

// remove takes back a command that could not be started: nothing ran, so its
// id is free again.
func (s *Server) remove(c *command) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	s.restLocked()
	delete(s.commands, c.id)
	for i, o := range s.order {
		if o == c {
			s.order = append(s.order[:i], s.order[i+1:]...)
			break
		}
	}
}

// commandEnded counts, and lets go of what is beyond the bounds: the oldest
// ended commands, and the output of others.
func (s *Server) commandEnded(c *command) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	s.restLocked()
	for i := 0; len(s.order)-s.running > maxEnded && i < len(s.order); {
		o := s.order[i]
		if !o.ended() {
			i++
			continue
		}
		s.order = slices.Delete(s.order, i, i+1)
		delete(s.commands, o.id)
		s.past.add(o.id)
		o.out[0].drop()
		o.out[1].drop()
	}
	var memory, files int64
	for _, o := range slices.Backward(s.order) { // the youngest first
		if !o.ended() {
			continue
		}
		for _, spool := range o.out {
			m, f := spool.keeps()
			memory, files = memory+m, files+f
			if memory > maxKeptMemory || files > maxKeptFiles {
				spool.drop()
			}
		}
	}
}

// tombstones are the ids of commands that were forgotten, as hashes.
type tombstones struct {
	ids  map[[16]byte]struct{}
	ring [][16]byte
	next int
}

func idHash(id string) [16]byte {
	sum := sha256.Sum256([]byte(id))
	return [16]byte(sum[:16])
}

func (t *tombstones) has(id string) bool {
	_, ok := t.ids[idHash(id)]
	return ok
}

func (t *tombstones) add(id string) {
	h := idHash(id)
	if t.ids == nil {
		t.ids = map[[16]byte]struct{}{}
	}
	t.ids[h] = struct{}{}
	if len(t.ring) < maxForgotten {
		t.ring = append(t.ring, h)
		return
	}
	delete(t.ids, t.ring[t.next])
	t.ring[t.next] = h
	t.next = (t.next + 1) % maxForgotten
}

// find gives a command that runs or ran.
func (s *Server) find(op, id string) (*command, error) {
	if err := skerry.ValidateName("command id", id); err != nil {
		return nil, err
	}
	s.mu.Lock()
	c, ok := s.commands[id]
	s.mu.Unlock()
	if !ok {
		return nil, skerry.Errorf(skerry.NotFound, op, "there is no command %q", id).
			WithHint("the last %d ended commands are kept", maxEnded)
	}
	<-c.ready
	if c.startErr != nil {
		return nil, skerry.Errorf(skerry.NotFound, op, "command %q did not start", id)
	}
	return c, nil
}

// list gives the commands, oldest first.
func (s *Server) list() []*command {
	s.mu.Lock()
	all := append([]*command(nil), s.order...)
	s.mu.Unlock()
	var started []*command
	for _, c := range all {
		select {
		case <-c.ready:
			if c.startErr == nil {
				started = append(started, c)
			}
		default:
		}
	}
	return started
}

// sweepOrphans has everything killed that fell to PID 1 from a keeper that was
// killed.
func (s *Server) sweepOrphans() {
	select {
	case s.orphaned <- struct{}{}:
	default:
	}
}

// buryKeeper is for a keeper that is gone: user code killed it, or it could not
// go on. What it kept falls to PID 1 only once it was reaped; its end of the
// line closes before that.
func (s *Server) buryKeeper(k *keeper) {
	k.conn.Close()
	s.reaper.kill(k.pid)
	for end := time.Now().Add(killPatience); s.reaper.alive(k.pid) && time.Now().Before(end); {
		time.Sleep(killPause)
	}
	s.sweepOrphans()
}

// sweep does what sweepOrphans asks for, until nothing is left.
func (s *Server) sweep() {
	for range s.orphaned {
		orphans(s.reaper).KillUntilEmpty(nil)
	}
}

// stop ends the sandbox: nothing starts any more, and run returns. The first
// reason holds.
func (s *Server) stop(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending == "" {
		s.ending = reason
		close(s.done)
	}
}

// endCommands says of every command that runs why it ends now.
func (s *Server) endCommands() []*command {
	s.mu.Lock()
	defer s.mu.Unlock()
	why := stopReason{outcome: skerry.Cancelled, reason: "the sandbox was ended (" + s.ending + ")"}
	var running []*command
	for _, c := range s.order {
		select {
		case <-c.ready:
		default:
			continue
		}
		if c.startErr != nil || c.ended() {
			continue
		}
		c.mu.Lock()
		if c.stop == nil {
			c.stop = &why
		}
		c.mu.Unlock()
		running = append(running, c)
	}
	return running
}

// killPause is between two looks at whether everything is gone.
const killPause = 2 * time.Millisecond
