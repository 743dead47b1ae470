//go:build linux

// Package supervise is the process that stands outside of one local sandbox:
// it makes the sandbox, hands connections in, and removes everything when the
// sandbox ends, whoever else has died by then. It is run as "skerry-init
// supervise", in a session of its own, so that it outlives its caller when it
// should.
package supervise

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/boxes"
	"github.com/skerry-run/skerry/internal/bwrap"
	"github.com/skerry-run/skerry/internal/keep"
)

// maxOrder bounds what is read from the caller: mostly environment.
const maxOrder = 8 << 20

// Main is "skerry-init supervise". It returns the exit status.
func Main() int {
	if err := harden(); err != nil {
		fmt.Fprintln(os.Stderr, "skerry-init supervise:", err)
		return 1
	}
	reply := &replier{file: os.NewFile(boxes.ReplyFD, "reply")}
	layout := make(chan bwrap.Layout, 1)
	go func() { layout <- bwrap.ReadLayout("") }() // a few hundred looks at files, beside everything else
	order, err := readOrder(os.NewFile(boxes.OrderFD, "order"))
	if err != nil {
		reply.fail(skerry.Errorf(skerry.Internal, "supervise", "%w", err))
		return 1
	}
	s := &supervisor{
		order: order, reply: reply, layout: layout,
		seccomp:  os.NewFile(boxes.SeccompFD, "seccomp"),
		lifeline: os.NewFile(boxes.LifelineFD, "lifeline"),
		end:      make(chan string, 1),
		signals:  make(chan os.Signal, 4),
	}
	signal.Notify(s.signals, unix.SIGTERM, unix.SIGINT)
	// Caught, not ignored: what is ignored stays so in the sandbox and in
	// pasta. A broken pipe is an error of its write.
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP)
	if err := s.run(); err != nil {
		reply.fail(err)
		return 1
	}
	reply.close() // here, not some milliseconds later with the rest of the process
	return 0
}

// harden makes this process depend on nothing of its caller: no descriptor of
// a shell's redirection is held open, no terminal, no working directory.
func harden() error {
	unix.Umask(0o022) // private files say so themselves; control groups are read by the sandbox's user
	if err := os.Chdir("/"); err != nil {
		return err
	}
	// Root may still raise it from a hard limit of 0. Others can't, and lose
	// nothing by trying.
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: keep.NoCore, Max: keep.NoCore})
	// What loses its parent comes to us, so that it can be reaped.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become subreaper: %w", err)
	}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= 2 {
			continue
		}
		unix.CloseOnExec(fd)
		if fd <= boxes.LifelineFD {
			continue
		}
		target, err := os.Readlink(filepath.Join("/proc/self/fd", e.Name()))
		if err != nil || strings.HasPrefix(target, "anon_inode:") { // the Go runtime's own
			continue
		}
		_ = unix.Close(fd) // the listing's own descriptor is closed already
	}
	return nil
}

func readOrder(f *os.File) (boxes.Order, error) {
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxOrder+1))
	if err != nil {
		return boxes.Order{}, fmt.Errorf("read order: %w", err)
	}
	if len(data) > maxOrder {
		return boxes.Order{}, fmt.Errorf("read order: more than %d bytes", maxOrder)
	}
	var o boxes.Order
	if err := json.Unmarshal(data, &o); err != nil {
		return boxes.Order{}, fmt.Errorf("read order: %w", err)
	}
	return o, nil
}

// replier tells the caller how it went. Once the caller has gone it tells
// nobody, which is no error.
type replier struct{ file *os.File }

func (r *replier) send(m boxes.Reply) {
	data, err := json.Marshal(m)
	if err != nil || r.file == nil {
		return
	}
	_, _ = r.file.Write(append(data, '\n'))
}

func (r *replier) fail(err error) {
	e := &boxes.ReplyError{Kind: string(skerry.KindOf(err)), Text: err.Error(), Hint: skerry.HintOf(err)}
	if o := skerry.OutcomeOf(err); o != skerry.Lost {
		e.Outcome = string(o)
	}
	r.send(boxes.Reply{Error: e})
	r.close()
}

// close lets a caller that still listens know that nothing more comes.
func (r *replier) close() {
	if r.file != nil {
		r.file.Close()
		r.file = nil
	}
}
