//go:build linux

// Package keep is the keeper: the parent of one command inside a sandbox, and
// what it and the init say to each other.
//
// A keeper starts for every command, so how little this package needs is how
// soon that is: it may not import gRPC, nor what does.
package keep

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Command is the first argument of a process that is to be a keeper.
const Command = "keep"

// Exit codes of a keeper that can't do its work; nobody but a debugger sees them.
const (
	exitUsage  = 125
	exitBroken = 126
)

// keeperThreads are made before user code can use up the tasks, besides those
// that listen, wait and run commands: those that kill while others wait in the
// kernel. Few, because every thread of a keeper is a task that user code can't
// have; with two a keeper died of a fork bomb.
const keeperThreads = 4

// Main is the life of a keeper: the parent of one command at a time, made
// in advance and waiting for it. Whatever the command starts stays below the
// keeper, because orphans are given to the nearest subreaper: so the whole tree
// can be found without trusting anything that the program can change. A keeper
// below which nothing is left is as good as new, and waits for the next one.
func Main(args []string) int {
	limits, err := parseLimits(args)
	if err != nil {
		return exitUsage
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return exitBroken
	}
	if _, err := unix.FcntlInt(lineFD, unix.F_GETFD, 0); err != nil {
		fmt.Fprintln(os.Stderr, "skerry-init keep: it is started by serve, not by hand")
		return exitUsage
	}
	unix.CloseOnExec(lineFD)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return exitBroken
	}
	syscall.Umask(0o022)
	k := &keeper{starts: make(chan start, 1), running: make(chan int), data: limits.DataBytes}
	if k.data > 0 {
		k.ownData = k.data + dataReserve
	}
	locked := make(chan struct{})
	go k.run(locked)
	<-locked
	go k.wait()
	ParkThreads(keeperThreads)
	// Only now: the limit of tasks holds for the keeper too, and when user code
	// has reached it no thread can be made any more.
	if err := setLimits(limits); err != nil {
		return exitBroken
	}
	k.listen()
	return 0 // the line is closed: the init is gone, and so is the sandbox
}

// keeper is the state of one.
type keeper struct {
	data, ownData int64 // RLIMIT_DATA of programs and of the keeper itself; 0 is none

	starts  chan start
	running chan int // the pid of a program that was just started
	sending sync.Mutex

	mu    sync.Mutex    // also held while reaping, so that signals hit no other process
	seq   int64         // of the command
	main  int           // the program's pid; 0 before it runs and after it was reaped
	below bool          // there may be something of the command's tree
	sent  bool          // a signal was sent to it or its tree
	stop  chan struct{} // ends the killing; nil while nobody kills
	// stopped is closed when the killing has ended.
	stopped chan struct{}
	cpuNS   int64 // of what was waited for
	rss     int64 // bytes, the largest of them
}

// start is a request that arrived.
type start struct {
	req Request
	fds []int
}

// run owns the one thread that commands are forked from. The thread carries the
// self-defence filter, which every child inherits and the keeper's other
// threads don't.
func (k *keeper) run(locked chan<- struct{}) {
	runtime.LockOSThread() // and never unlocked: nothing else may use a thread with a filter
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		os.Exit(exitBroken)
	}
	close(locked)
	var d defence
	for s := range k.starts {
		err := d.update(s.req.Protect)
		if err != nil {
			k.fail(StepDefence, syscall.EPERM)
		} else {
			k.start(s.req, s.fds)
		}
		for _, fd := range s.fds {
			syscall.Close(fd)
		}
	}
}

// fail tells why the command can't be started. Nothing of it is left, and the
// keeper may serve another one.
func (k *keeper) fail(step uint32, err error) {
	errno, ok := err.(syscall.Errno)
	if !ok {
		errno = syscall.EINVAL
	}
	k.reply(Packet{Op: OpFailed, Flag: step, Arg: int64(errno)})
}

func (k *keeper) reply(p Packet) {
	k.sending.Lock()
	defer k.sending.Unlock()
	b := p.Marshal()
	for syscall.Sendto(lineFD, b, syscall.MSG_NOSIGNAL, nil) == syscall.EINTR {
		// An init that is gone is noticed by listen.
	}
}

func (k *keeper) start(req Request, fds []int) {
	if len(req.FDs) != len(fds) || len(req.Argv) == 0 {
		k.fail(StepRequest, syscall.EINVAL)
		return
	}
	if err := syscall.Chdir(req.Dir); err != nil {
		k.fail(StepDir, err)
		return
	}
	defer syscall.Chdir("/") // the command's folder may be removed
	attr := &syscall.ProcAttr{
		Env: stringsOf(req.Env),
		Sys: &syscall.SysProcAttr{Setsid: true, Setctty: req.TTY, Ctty: 0},
	}
	for i, n := range req.FDs {
		for len(attr.Files) <= n {
			attr.Files = append(attr.Files, ^uintptr(0))
		}
		attr.Files[n] = uintptr(fds[i])
	}
	begin := Monotonic()
	if err := limitData(k.data); err != nil {
		k.fail(StepExec, err)
		return
	}
	pid, err := syscall.ForkExec(req.Path, stringsOf(req.Argv), attr)
	_ = limitData(k.ownData)
	if err != nil {
		k.fail(StepExec, err)
		return
	}
	k.mu.Lock()
	k.main, k.below = pid, true
	k.mu.Unlock()
	k.reply(Packet{Op: OpStarted, Arg: int64(pid), At: begin})
	k.running <- pid
	raiseOOMScore(pid)
}

func stringsOf(bs [][]byte) []string {
	ss := make([]string, len(bs))
	for i, b := range bs {
		ss[i] = string(b)
	}
	return ss
}

// wait reaps everything below the keeper, one command after another.
func (k *keeper) wait() {
	for main := range k.running {
		for {
			// It only looks: what has ended keeps its id until reap.
			err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOWAIT, nil)
			if err == unix.EINTR {
				continue
			}
			if err != nil { // ECHILD: the tree is empty
				break
			}
			k.reap(main)
		}
		k.mu.Lock()
		if k.stop != nil {
			close(k.stop)
			<-k.stopped // or its last pass would hit the next command
		}
		k.main, k.below, k.sent, k.stop, k.cpuNS, k.rss = 0, false, false, nil, 0, 0
		k.mu.Unlock()
		k.reply(Packet{Op: OpEmpty})
	}
}

// reap reaps one child, and tells of the program's end.
func (k *keeper) reap(main int) {
	k.mu.Lock()
	var status syscall.WaitStatus
	var ru syscall.Rusage
	pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, &ru)
	if err != nil || pid <= 0 {
		k.mu.Unlock()
		return
	}
	k.cpuNS += ru.Utime.Nano() + ru.Stime.Nano()
	k.rss = max(k.rss, ru.Maxrss<<10)
	isMain := pid == main && k.main == main
	p := Packet{Op: OpExited, Arg: int64(status), CPUNS: k.cpuNS, MaxRSS: k.rss}
	if isMain {
		k.main = 0
	}
	if k.sent {
		p.Flag = FlagSignalled
	}
	k.mu.Unlock()
	if isMain {
		p.At = Monotonic()
		k.reply(p)
	}
}

// listen reads what the init wants until the line closes.
func (k *keeper) listen() {
	buf := make([]byte, PacketBytes)
	oob := make([]byte, unix.CmsgSpace((MaxStartFDs+1)*4))
	for {
		n, oobn, flags, _, err := unix.Recvmsg(lineFD, buf, oob, unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			k.killAndLeave()
			return
		}
		p, err := Unmarshal(buf[:n])
		if err != nil || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
			k.killAndLeave()
			return
		}
		switch p.Op {
		case OpStart:
			k.receive(p.Seq, oob[:oobn])
		case OpSignal:
			k.signal(p.Seq, syscall.Signal(p.Arg), p.Flag == 1)
		case OpKill:
			k.killTree(p.Seq)
		}
	}
}

func (k *keeper) receive(seq int64, oob []byte) {
	fds, err := rightsOf(oob)
	if err != nil || len(fds) == 0 {
		os.Exit(exitBroken)
	}
	var s start
	s.fds = fds[1:]
	err = readMemfd(fds[0], &s.req)
	syscall.Close(fds[0])
	if err != nil {
		for _, fd := range s.fds {
			syscall.Close(fd)
		}
		k.fail(StepRequest, syscall.EIO)
		return
	}
	k.mu.Lock()
	k.seq = seq
	k.mu.Unlock()
	k.starts <- s
}

func rightsOf(oob []byte) ([]int, error) {
	msgs, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var fds []int
	for _, m := range msgs {
		got, err := syscall.ParseUnixRights(&m)
		if err != nil {
			return nil, err
		}
		fds = append(fds, got...)
	}
	return fds, nil
}

// signal sends to the program, or to its whole tree once. A packet that was
// meant for the command before does nothing.
func (k *keeper) signal(seq int64, sig syscall.Signal, tree bool) {
	k.mu.Lock()
	if seq != k.seq || !k.below {
		k.mu.Unlock()
		return
	}
	k.sent = true
	if !tree && k.main > 0 {
		_ = syscall.Kill(k.main, sig)
	}
	k.mu.Unlock()
	if tree {
		tree := Below(os.Getpid())
		tree.Signal(sig)
		if sig == syscall.SIGTERM {
			tree.Signal(syscall.SIGCONT) // what is stopped would not see it
		}
	}
}

// killTree kills everything below the keeper, in the background, until wait
// finds nothing left.
func (k *keeper) killTree(seq int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if seq != k.seq || !k.below || k.stop != nil {
		return
	}
	k.sent = true
	stop, stopped := make(chan struct{}), make(chan struct{})
	k.stop, k.stopped = stop, stopped
	go func() {
		defer close(stopped)
		Below(os.Getpid()).KillUntilEmpty(stop)
	}()
}

// killAndLeave is for a line that broke: without the init nobody may run.
func (k *keeper) killAndLeave() {
	Below(os.Getpid()).KillUntilEmpty(nil)
}

// ParkThreads makes n threads now, which the runtime keeps and uses again.
func ParkThreads(n int) {
	var ready, done sync.WaitGroup
	release := make(chan struct{})
	for range n {
		ready.Add(1)
		done.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			ready.Done()
			<-release
		})
	}
	ready.Wait()
	close(release)
	done.Wait()
}
