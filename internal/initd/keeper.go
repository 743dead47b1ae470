//go:build linux

package initd

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry/internal/keep"
)

// Keepers that are kept waiting, so that starting a command starts no Go
// program. Each costs a few MiB.
const (
	spareKeepers    = 2 // of a session
	spareKeepersRun = 1 // a run has one command; what comes beside it is made when it is asked for
	maxIdleKeepers  = 4 // those that have served are kept too
)

// keeper is the init's handle of one keeper process.
type keeper struct {
	pid    int
	conn   *net.UnixConn
	seq    int64           // of the command that it serves or served last
	resume func()          // lets it go on, should user code have stopped it
	scored <-chan struct{} // closed when its score is set; nil when nobody sets it
}

// nursery makes keepers in advance.
type nursery struct {
	reaper *reaper
	args   []string
	spare  int
	score  func(pid int) (<-chan struct{}, error) // nil when nobody sets scores

	mu      sync.Mutex
	spares  []*keeper
	threads map[int][]int // of the keepers that have a command
	wake    chan struct{}
}

func newNursery(r *reaper, c *Config) *nursery {
	spare := spareKeepersRun
	if c.Session {
		spare = spareKeepers
	}
	return &nursery{reaper: r, spare: spare, args: append([]string{"skerry-init", keep.Command}, userLimits(c).Args()...), wake: make(chan struct{}, 1), threads: map[int][]int{}}
}

// fill keeps spares waiting until done is closed.
func (n *nursery) fill(done <-chan struct{}) {
	for {
		for {
			n.mu.Lock()
			full := len(n.spares) >= n.spare
			n.mu.Unlock()
			if full {
				break
			}
			k, err := n.make()
			if err != nil {
				break // tasks or memory are used up; the next take tries again and reports
			}
			n.mu.Lock()
			n.spares = append(n.spares, k)
			n.mu.Unlock()
		}
		select {
		case <-n.wake:
		case <-done:
			return
		}
	}
}

// take gives a keeper, made in advance when there is one. A spare that user
// code has killed is passed over.
func (n *nursery) take() (*keeper, error) {
	defer n.refill()
	for {
		n.mu.Lock()
		if len(n.spares) == 0 {
			n.mu.Unlock()
			return n.make()
		}
		k := n.spares[0]
		n.spares = n.spares[1:]
		if n.spare == spareKeepersRun {
			n.spare = 0 // another one would take the processor from the one command there is
		}
		n.mu.Unlock()
		if n.reaper.alive(k.pid) {
			return k, nil
		}
		k.conn.Close()
	}
}

// give takes back a keeper that has served: nothing is left below it. One whose
// filter may have grown too often is not kept.
func (n *nursery) give(k *keeper) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.spares) >= maxIdleKeepers || k.seq >= keep.MaxFilters || !n.reaper.alive(k.pid) {
		k.conn.Close() // which ends it
		n.refill()
		return
	}
	n.spares = append(n.spares, k)
}

// refill has spares made when there are too few.
func (n *nursery) refill() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// protect registers the threads of k, which has a command now, and gives those
// of all keepers that have one. The list is bounded: a filter is.
func (n *nursery) protect(k *keeper) []int {
	const most = 200
	own := keep.ThreadsOf(k.pid)
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []int
	for pid, ids := range n.threads {
		if pid == k.pid {
			continue
		}
		if !n.reaper.alive(pid) {
			delete(n.threads, pid)
			continue
		}
		all = append(all, ids...)
	}
	for _, spare := range n.spares {
		if _, known := n.threads[spare.pid]; !known {
			all = append(all, spare.pid)
		}
	}
	n.threads[k.pid] = own
	return all[:min(len(all), most)]
}

// make starts a keeper.
func (n *nursery) make() (*keeper, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("keeper: %w", err)
	}
	ours := os.NewFile(uintptr(fds[0]), "keeper")
	defer ours.Close()
	theirs := fds[1]
	defer syscall.Close(theirs)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("keeper: %w", err)
	}
	defer null.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, fmt.Errorf("keeper: %w", err)
	}
	attr := &syscall.ProcAttr{
		Dir: "/",
		// Preemption by signal would run into the filter; one processor is
		// enough, and memory is what matters.
		Env:   []string{"GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1", "GOGC=50"},
		Files: []uintptr{null.Fd(), null.Fd(), null.Fd(), uintptr(theirs)},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	}
	pid, err := n.reaper.fork("/proc/self/exe", n.args, attr)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("keeper: %w", err)
	}
	k := &keeper{pid: pid, conn: conn.(*net.UnixConn), resume: func() { n.reaper.signal(pid, syscall.SIGCONT) }}
	if n.score == nil {
		return k, nil
	}
	if k.scored, err = n.score(pid); err != nil {
		conn.Close() // which ends it
		return nil, fmt.Errorf("keeper: have its score set: %w", err)
	}
	return k, nil
}

// start sends the request. The caller still owns files afterwards.
func (k *keeper) start(req keep.Request, files []*os.File) error {
	if k.scored != nil {
		select {
		case <-k.scored: // long ago, as a rule
		case <-time.After(startPatience):
			return errors.New("the supervisor has not set its score")
		}
	}
	data, err := json.Marshal(req)
	if err != nil {
		return err
	}
	mem, err := keep.Memfd("request", data)
	if err != nil {
		return err
	}
	defer mem.Close()
	if len(files) > keep.MaxStartFDs {
		return fmt.Errorf("%d files for one command, at most %d", len(files), keep.MaxStartFDs)
	}
	fds := []int{int(mem.Fd())}
	for _, f := range files {
		fds = append(fds, rawFD(f))
	}
	k.seq++
	_, _, err = k.conn.WriteMsgUnix(keep.Packet{Op: keep.OpStart, Seq: k.seq}.Marshal(), unix.UnixRights(fds...), nil)
	return err
}

// rawFD is f's descriptor without making f blocking, as Fd would.
func rawFD(f *os.File) int {
	fd := -1
	if c, err := f.SyscallConn(); err == nil {
		_ = c.Control(func(n uintptr) { fd = int(n) })
	}
	return fd
}

// send tells the keeper something about the command seq, and means nothing
// when it serves another one by now.
func (k *keeper) send(seq int64, p keep.Packet) error {
	p.Seq = seq
	_, err := k.conn.Write(p.Marshal())
	return err
}

// resumePause is how long a keeper that user code has stopped stays stopped. A
// command's filter knows the keepers of its start, not those that come later.
const resumePause = time.Second

// receive waits for the keeper's next packet. The end of the line is errGone.
func (k *keeper) receive() (keep.Packet, error) {
	buf := make([]byte, keep.PacketBytes+1)
	for {
		_ = k.conn.SetReadDeadline(time.Now().Add(resumePause))
		n, err := k.conn.Read(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			k.resume()
			continue
		}
		if err != nil || n == 0 {
			return keep.Packet{}, errGone
		}
		return keep.Unmarshal(buf[:n])
	}
}

var errGone = errors.New("the keeper is gone")
