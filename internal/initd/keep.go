//go:build linux

package initd

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Exit codes of a keeper that can't do its work; nobody but a debugger sees them.
const (
	keepUsage  = 125
	keepBroken = 126
)

// keeperThreads are made before user code can use up the tasks, besides those
// that listen, wait and run commands: those that kill while others wait in the
// kernel. Few, because every thread of a keeper is a task that user code can't
// have; with two a keeper died of a fork bomb.
const keeperThreads = 4

// KeepMain is the life of a keeper: the parent of one command at a time, made
// in advance and waiting for it. Whatever the command starts stays below the
// keeper, because orphans are given to the nearest subreaper: so the whole tree
// can be found without trusting anything that the program can change. A keeper
// below which nothing is left is as good as new, and waits for the next one.
func KeepMain(args []string) int {
	limits, err := parseUserLimits(args)
	if err != nil {
		return keepUsage
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return keepBroken
	}
	if _, err := unix.FcntlInt(keepFD, unix.F_GETFD, 0); err != nil {
		fmt.Fprintln(os.Stderr, "skerry-init keep: it is started by serve, not by hand")
		return keepUsage
	}
	unix.CloseOnExec(keepFD)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return keepBroken
	}
	syscall.Umask(0o022)
	k := &keep{starts: make(chan start, 1), running: make(chan int)}
	locked := make(chan struct{})
	go k.run(locked)
	<-locked
	go k.wait()
	parkThreads(keeperThreads)
	// Only now: the limit of tasks holds for the keeper too, and when user code
	// has reached it no thread can be made any more.
	if err := setUserLimits(limits); err != nil {
		return keepBroken
	}
	k.listen()
	return 0 // the line is closed: the init is gone, and so is the sandbox
}

// keep is the state of a keeper.
type keep struct {
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
	req keepRequest
	fds []int
}

// run owns the one thread that commands are forked from. The thread carries the
// self-defence filter, which every child inherits and the keeper's other
// threads don't.
func (k *keep) run(locked chan<- struct{}) {
	runtime.LockOSThread() // and never unlocked: nothing else may use a thread with a filter
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		os.Exit(keepBroken)
	}
	close(locked)
	var d defence
	for s := range k.starts {
		err := d.update(s.req.Protect)
		if err != nil {
			k.fail(stepDefence, syscall.EPERM)
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
func (k *keep) fail(step uint32, err error) {
	errno, ok := err.(syscall.Errno)
	if !ok {
		errno = syscall.EINVAL
	}
	k.reply(packet{op: opFailed, flag: step, arg: int64(errno)})
}

func (k *keep) reply(p packet) {
	k.sending.Lock()
	defer k.sending.Unlock()
	b := p.marshal()
	for syscall.Sendto(keepFD, b, syscall.MSG_NOSIGNAL, nil) == syscall.EINTR {
		// An init that is gone is noticed by listen.
	}
}

func (k *keep) start(req keepRequest, fds []int) {
	if len(req.FDs) != len(fds) || len(req.Argv) == 0 {
		k.fail(stepRequest, syscall.EINVAL)
		return
	}
	if err := syscall.Chdir(req.Dir); err != nil {
		k.fail(stepDir, err)
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
	begin := monotonic()
	pid, err := syscall.ForkExec(req.Path, stringsOf(req.Argv), attr)
	if err != nil {
		k.fail(stepExec, err)
		return
	}
	k.mu.Lock()
	k.main, k.below = pid, true
	k.mu.Unlock()
	k.reply(packet{op: opStarted, arg: int64(pid), at: begin})
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
func (k *keep) wait() {
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
		k.reply(packet{op: opEmpty})
	}
}

// reap reaps one child, and tells of the program's end.
func (k *keep) reap(main int) {
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
	p := packet{op: opExited, arg: int64(status), cpuNS: k.cpuNS, maxRSS: k.rss}
	if isMain {
		k.main = 0
	}
	if k.sent {
		p.flag = flagSignalled
	}
	k.mu.Unlock()
	if isMain {
		p.at = monotonic()
		k.reply(p)
	}
}

// listen reads what the init wants until the line closes.
func (k *keep) listen() {
	buf := make([]byte, packetBytes)
	oob := make([]byte, unix.CmsgSpace((maxStartFDs+1)*4))
	for {
		n, oobn, flags, _, err := unix.Recvmsg(keepFD, buf, oob, unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			k.killAndLeave()
			return
		}
		p, err := unmarshalPacket(buf[:n])
		if err != nil || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
			k.killAndLeave()
			return
		}
		switch p.op {
		case opStart:
			k.receive(p.seq, oob[:oobn])
		case opSignal:
			k.signal(p.seq, syscall.Signal(p.arg), p.flag == 1)
		case opKill:
			k.killTree(p.seq)
		}
	}
}

func (k *keep) receive(seq int64, oob []byte) {
	fds, err := rightsOf(oob)
	if err != nil || len(fds) == 0 {
		os.Exit(keepBroken)
	}
	var s start
	s.fds = fds[1:]
	err = readMemfd(fds[0], &s.req)
	syscall.Close(fds[0])
	if err != nil {
		for _, fd := range s.fds {
			syscall.Close(fd)
		}
		k.fail(stepRequest, syscall.EIO)
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
func (k *keep) signal(seq int64, sig syscall.Signal, tree bool) {
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
		tree := below(os.Getpid())
		tree.signal(sig)
		if sig == syscall.SIGTERM {
			tree.signal(syscall.SIGCONT) // what is stopped would not see it
		}
	}
}

// killTree kills everything below the keeper, in the background, until wait
// finds nothing left.
func (k *keep) killTree(seq int64) {
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
		below(os.Getpid()).killUntilEmpty(stop)
	}()
}

// killAndLeave is for a line that broke: without the init nobody may run.
func (k *keep) killAndLeave() {
	below(os.Getpid()).killUntilEmpty(nil)
}

// parkThreads makes n threads now, which the runtime keeps and uses again.
func parkThreads(n int) {
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
