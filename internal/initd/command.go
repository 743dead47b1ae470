//go:build linux

package initd

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/skerry-run/skerry"

	"github.com/skerry-run/skerry/internal/keep"
)

const (
	// killPatience is how long a tree that was killed may take to be gone: a
	// process may hang in the kernel, and a command's end may not.
	killPatience = 5 * time.Second
)

// command is one program, from its request to the last reader of its output.
type command struct {
	id         string
	digest     [32]byte
	background bool
	server     *Server

	ready    chan struct{} // closed when it runs or can't
	startErr error         // why it can't; valid after ready

	// Valid after ready, when startErr is nil.
	keeper  *keeper
	seq     int64 // of the command at its keeper
	pid     int
	orphan  <-chan syscall.WaitStatus
	started time.Time
	begin   int64     // monotonic
	out     [2]*spool // stdout, stderr
	pumps   []*pump
	stdin   *stdin // nil without one
	tty     *os.File
	grace   time.Duration
	before  usage // of the sandbox when it started
	state   *capture
	notices []string

	mu     sync.Mutex
	stop   *stopReason
	timer  *time.Timer
	kill   *time.Timer
	exit   *skerry.Exit
	done   chan struct{} // closed when exit is set
	gone   chan struct{} // closed when nothing of its tree is left
	killed bool          // the caller sent KILL
	freed  bool          // the keeper may serve another command
}

// stopReason is why we end a command: the first one holds.
type stopReason struct {
	outcome skerry.Outcome
	limit   skerry.Limit // of a timeout
	reason  string
}

// stopped gives why we end the command, or nil.
func (c *command) stopped() *stopReason {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stop
}

// ended says whether the program's end is known.
func (c *command) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// end asks for the command's end: TERM to its tree, after the grace KILL.
func (c *command) end(why stopReason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stop != nil || c.exit != nil {
		return
	}
	c.stop = &why
	_ = c.keeper.send(c.seq, keep.Packet{Op: keep.OpSignal, Arg: int64(syscall.SIGTERM), Flag: 1})
	c.kill = time.AfterFunc(c.grace, c.killTree)
}

// endNow is end without a grace.
func (c *command) endNow(why stopReason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stop != nil || c.exit != nil {
		return
	}
	c.stop = &why
	c.kill = time.AfterFunc(0, c.killTree)
}

// killTree has the keeper kill everything. A keeper that user code has stopped,
// or whose tree hangs in the kernel, is killed itself: then PID 1 cleans up.
func (c *command) killTree() {
	_ = c.keeper.send(c.seq, keep.Packet{Op: keep.OpKill})
	select {
	case <-c.gone:
		return
	case <-time.After(killPatience):
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.freed { // it serves no other command
		c.server.reaper.kill(c.keeper.pid)
	}
}

// free gives the keeper back: nothing is left below it.
func (c *command) free() {
	c.mu.Lock()
	c.freed = true
	c.mu.Unlock()
	c.server.nursery.give(c.keeper)
}

// follow reads what the keeper reports until nothing of the tree is left.
func (c *command) follow() {
	defer close(c.gone)
	var main keep.Packet
	for main.Op != keep.OpExited {
		p, err := c.keeper.receive()
		if err != nil {
			c.adopt()
			return
		}
		if p.Op == keep.OpExited {
			main = p
		}
	}
	c.server.reaper.forget(c.pid)
	stopped := c.stopTimer()
	if !stopped && c.server.config.Session {
		c.finish(syscall.WaitStatus(main.Arg), main)
		c.waitEmpty()
		return
	}
	if !stopped {
		go c.killTree()
	}
	c.waitEmpty()
	c.finish(syscall.WaitStatus(main.Arg), main)
}

// stopTimer ends the command's own limit, and says whether we end it.
func (c *command) stopTimer() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
	}
	return c.stop != nil
}

// waitEmpty waits until nothing of the tree is left. Where the command is being
// killed, the grace and killTree bound it.
func (c *command) waitEmpty() {
	for {
		p, err := c.keeper.receive()
		if err != nil {
			c.server.buryKeeper(c.keeper)
			return
		}
		if p.Op == keep.OpEmpty {
			c.free()
			return
		}
	}
}

func (c *command) note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notices = append(c.notices, fmt.Sprintf(format, args...))
}

// adopt ends a command whose keeper was killed, which only user code does. The
// tree belongs to PID 1 now, and is not trusted any longer.
func (c *command) adopt() {
	defer c.server.reaper.forget(c.pid)
	if stop := c.stopped(); stop == nil {
		c.note("the process that kept this command was killed from inside the sandbox, and everything it had started with it")
	}
	c.server.buryKeeper(c.keeper)
	limit := time.NewTimer(killPatience)
	defer limit.Stop()
	select {
	case status := <-c.orphan:
		c.finish(status, keep.Packet{At: keep.Monotonic()})
	case <-limit.C:
		c.drain()
		exit := skerry.Exit{
			Outcome: skerry.Lost, Duration: sinceMonotonic(c.begin, keep.Monotonic()),
			Usage:  c.before.until(c.server.usage.read(), keep.Packet{}),
			Reason: "sandbox_hostile: the process that knew how the command ended was killed from inside the sandbox",
		}
		if stop := c.stopped(); stop != nil {
			exit.Outcome, exit.Limit, exit.Reason = stop.outcome, stop.limit, stop.reason
			c.note("the program could not be killed in %v: it hangs in the kernel", killPatience)
		}
		c.publish(exit)
	}
}

// finish collects the last output and publishes how the program ended.
func (c *command) finish(status syscall.WaitStatus, p keep.Packet) {
	c.drain()
	stop := c.stopped()
	if stop != nil && p.Flag&keep.FlagSignalled == 0 && p.Op == keep.OpExited {
		stop = nil // it had ended before our signal came
	}
	exit := skerry.Exit{Duration: sinceMonotonic(c.begin, p.At)}
	if stop == nil {
		if why := c.server.watch.over(); why != "" { // it was faster than the watch
			stop = &stopReason{outcome: skerry.Evicted, reason: why}
		}
	}
	after := c.server.usage.read()
	exit.Usage = c.before.until(after, p)
	switch {
	case stop != nil:
		exit.Outcome, exit.Limit, exit.Reason = stop.outcome, stop.limit, stop.reason
	case c.isOOM(status, exit.Usage):
		exit.Outcome = skerry.OOM
		exit.Reason = "the kernel killed the program because the sandbox's memory limit was reached; files in /tmp, and in a workspace in memory, count as memory"
	case status.Signaled():
		exit.Outcome, exit.Signal = skerry.Signaled, int(status.Signal())
		exit.Reason = signalReason(status.Signal(), c.server.config.FileBytes)
	default:
		exit.Outcome, exit.ExitCode = skerry.Exited, new(status.ExitStatus())
	}
	if exit.Outcome != skerry.OOM && exit.Usage.OOMEvents > 0 {
		c.note("the kernel killed %d process(es) in the sandbox for memory while the command ran; files in /tmp, and in a workspace in memory, count as memory", exit.Usage.OOMEvents)
	}
	c.publish(exit)
}

// signalReason names a signal, and what sends it where that is one of ours.
func signalReason(sig syscall.Signal, fileBytes int64) string {
	text := fmt.Sprintf("signal %d (%v)", int(sig), sig)
	switch {
	case sig == syscall.SIGXFSZ && fileBytes > 0:
		text += fmt.Sprintf(": one file may have at most %d bytes here", fileBytes)
	case sig == syscall.SIGSYS:
		text += ": that is how a system call that the sandbox denies can end a program"
	}
	return text
}

// isOOM says whether the kernel killed the program for memory: it died of KILL
// that nobody here sent, or a shell says so of what it ran, and the sandbox's
// counter rose meanwhile.
func (c *command) isOOM(status syscall.WaitStatus, u skerry.Usage) bool {
	const killedChild = 128 + int(syscall.SIGKILL)
	killed := status.Signaled() && status.Signal() == syscall.SIGKILL || status.Exited() && status.ExitStatus() == killedChild
	c.mu.Lock()
	defer c.mu.Unlock()
	return killed && !c.killed && u.OOMEvents > 0
}

// drain waits until everything that was in the pipes at the program's end is
// in the spools.
func (c *command) drain() {
	for _, p := range c.pumps {
		p.ended()
	}
	for _, p := range c.pumps {
		<-p.drained
	}
}

func (c *command) publish(exit skerry.Exit) {
	c.server.captured(c, exit)
	c.mu.Lock()
	if c.timer != nil {
		c.timer.Stop()
	}
	if c.kill != nil {
		c.kill.Stop()
	}
	exit.StdoutBytes, exit.StderrBytes = c.out[0].size(), c.out[1].size()
	exit.Notices = append([]string(nil), c.notices...)
	c.exit = &exit
	c.mu.Unlock()
	close(c.done)
	c.stdin.programEnded()
	c.server.commandEnded(c)
}

// wasStarted waits until it is known whether the program runs or ran.
func (c *command) wasStarted(ctx context.Context) bool {
	select {
	case <-c.ready:
		return c.startErr == nil
	case <-ctx.Done():
		return false
	}
}

// wait gives the end of the program.
func (c *command) wait(ctx context.Context) (skerry.Exit, error) {
	select {
	case <-c.done:
		return *c.exit, nil
	case <-ctx.Done():
		return skerry.Exit{}, ctx.Err()
	}
}

// info tells what is known now.
func (c *command) info() skerry.CommandInfo {
	i := skerry.CommandInfo{
		ID: c.id, Background: c.background, Started: c.started, PID: c.pid,
		Stdout: c.out[0].size(), Stderr: c.out[1].size(),
	}
	if c.ended() {
		i.Exit = new(*c.exit)
	}
	return i
}

// signal sends what the caller asks for. A program that has ended is no error.
func (c *command) signal(sig syscall.Signal, tree bool) {
	if sig == syscall.SIGKILL {
		c.mu.Lock()
		c.killed = true
		c.mu.Unlock()
	}
	p := keep.Packet{Op: keep.OpSignal, Arg: int64(sig)}
	if tree {
		p.Flag = 1
	}
	_ = c.keeper.send(c.seq, p)
}

// sinceMonotonic is the time between two of keep.Monotonic.
func sinceMonotonic(start, end int64) time.Duration { return time.Duration(max(0, end-start)) }
