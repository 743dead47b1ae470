//go:build linux

package initd

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// Exit codes of a keeper that can't do its work; nobody but a debugger sees them.
const (
	keepUsage  = 125
	keepBroken = 126
)

// KeepMain is the life of a keeper: the parent of one command, made in advance
// and waiting for it. Whatever the command starts stays below the keeper,
// because orphans are given to the nearest subreaper: so the whole tree can be
// found without trusting anything that the program can change.
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
	swallowSignals()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return keepBroken
	}
	syscall.Umask(0o022)
	parkThreads(keeperThreads)
	if err := setUserLimits(limits); err != nil {
		return keepBroken
	}
	k := &keep{starts: make(chan start, 1)}
	go k.run()
	k.listen()
	return 0 // the line is closed: the init is gone, and so is the sandbox
}

// keeperThreads are made before user code can use up the tasks: one that
// waits, one that listens, one that runs the command, and what the runtime
// wants besides.
const keeperThreads = 6

// keep is the state of a keeper.
type keep struct {
	starts  chan start
	main    atomic.Int64 // the program's pid; 0 before it runs
	ended   atomic.Bool  // the program was waited for
	sent    atomic.Bool  // a signal was sent to it or its tree
	send    sync.Mutex
	killing atomic.Bool
	reaping sync.Mutex
}

// start is a request that arrived.
type start struct {
	req keepRequest
	fds []int
}

// run owns the one thread that user code is forked from. The thread carries
// the self-defence filter, which every child inherits and the keeper's other
// threads don't.
func (k *keep) run() {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		os.Exit(keepBroken)
	}
	req := <-k.starts
	// Now, not in advance: the keepers that live are known only now.
	if err := installDefence(append(threadsOf(os.Getpid()), req.req.Protect...)); err != nil {
		k.reply(packet{op: opFailed, flag: stepDefence, arg: int64(syscall.EPERM)})
		os.Exit(keepBroken)
	}
	k.start(req.req, req.fds)
	select {} // the thread lives as long as the keeper
}

func (k *keep) reply(p packet) {
	k.send.Lock()
	defer k.send.Unlock()
	b := p.marshal()
	for {
		err := syscall.Sendto(keepFD, b, syscall.MSG_NOSIGNAL, nil)
		if err != syscall.EINTR {
			return // an init that is gone is noticed by listen
		}
	}
}

func (k *keep) start(req keepRequest, fds []int) {
	defer func() {
		for _, fd := range fds {
			syscall.Close(fd)
		}
	}()
	fail := func(step uint32, err error) {
		errno, ok := err.(syscall.Errno)
		if !ok {
			errno = syscall.EINVAL
		}
		k.reply(packet{op: opFailed, flag: step, arg: int64(errno)})
		os.Exit(0)
	}
	if len(req.FDs) != len(fds) || len(req.Argv) == 0 {
		fail(stepRequest, syscall.EINVAL)
	}
	if err := syscall.Chdir(req.Dir); err != nil {
		fail(stepDir, err)
	}
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
		fail(stepExec, err)
	}
	k.main.Store(int64(pid))
	k.reply(packet{op: opStarted, arg: int64(pid), at: begin})
	raiseOOMScore(pid)
	go k.wait(pid)
}

func stringsOf(bs [][]byte) []string {
	ss := make([]string, len(bs))
	for i, b := range bs {
		ss[i] = string(b)
	}
	return ss
}

// wait reaps everything below the keeper, tells of the program's end, and ends
// the keeper when nothing is left.
func (k *keep) wait(main int) {
	for {
		// It only looks, so that signal can't hit an id that was reaped and
		// given to another process.
		err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOWAIT, nil)
		switch {
		case err == unix.EINTR:
		case err != nil: // ECHILD: the tree is empty
			k.reply(packet{op: opEmpty})
			os.Exit(0)
		default:
			k.reap(main)
		}
	}
}

func (k *keep) reap(main int) {
	k.reaping.Lock()
	var status syscall.WaitStatus
	pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
	isMain := err == nil && pid == main && !k.ended.Load()
	if isMain {
		k.ended.Store(true)
	}
	k.reaping.Unlock()
	if !isMain {
		return
	}
	p := packet{op: opExited, arg: int64(status), at: monotonic()}
	if k.sent.Load() {
		p.flag = flagSignalled
	}
	p.cpuNS, p.maxRSS = childrenUsage()
	k.reply(p)
}

// childrenUsage sums what was waited for so far.
func childrenUsage() (cpuNS, maxRSS int64) {
	var ru syscall.Rusage
	if err := syscall.Getrusage(unix.RUSAGE_CHILDREN, &ru); err != nil {
		return 0, 0
	}
	return ru.Utime.Nano() + ru.Stime.Nano(), ru.Maxrss * 1024
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
			k.receive(oob[:oobn])
		case opSignal:
			k.signal(syscall.Signal(p.arg), p.flag == 1)
		case opKill:
			k.sent.Store(true)
			k.killTree()
		}
	}
}

func (k *keep) receive(oob []byte) {
	fds, err := rightsOf(oob)
	if err != nil || len(fds) == 0 {
		os.Exit(keepBroken)
	}
	var s start
	s.fds = fds[1:]
	err = readMemfd(fds[0], &s.req)
	syscall.Close(fds[0])
	if err != nil {
		k.reply(packet{op: opFailed, flag: stepRequest, arg: int64(syscall.EIO)})
		os.Exit(0)
	}
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

// signal sends to the program, or to its whole tree once.
func (k *keep) signal(sig syscall.Signal, tree bool) {
	k.sent.Store(true)
	if tree {
		signalTree(os.Getpid(), sig)
		if sig == syscall.SIGTERM {
			signalTree(os.Getpid(), syscall.SIGCONT) // what is stopped would not see it
		}
		return
	}
	k.reaping.Lock()
	defer k.reaping.Unlock()
	if pid := k.main.Load(); pid > 0 && !k.ended.Load() {
		_ = syscall.Kill(int(pid), sig)
	}
}

// killTree kills everything below the keeper, in the background, until wait
// finds nothing left and ends the process.
func (k *keep) killTree() {
	if k.main.Load() == 0 || !k.killing.CompareAndSwap(false, true) {
		return
	}
	go killUntilEmpty(os.Getpid())
}

// killAndLeave is for a line that broke: without the init nobody may run.
func (k *keep) killAndLeave() {
	if k.main.Load() == 0 {
		os.Exit(0)
	}
	k.killTree()
	select {} // wait exits when the tree is empty
}

// swallowSignals makes every signal that can be caught do nothing.
func swallowSignals() {
	c := make(chan os.Signal, 1)
	signal.Notify(c)
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
