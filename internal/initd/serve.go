//go:build linux

package initd

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry/internal/control"
	"github.com/skerry-run/skerry/internal/sandboxfs"

	pb "github.com/skerry-run/skerry/internal/initproto"
	"github.com/skerry-run/skerry/internal/keep"
)

// exitUsage is the code of an init that was started wrongly.
const exitUsage = 125

// initThreads are made before user code can use up the tasks.
const initThreads = 12

// ServeMain is the life of PID 1 of a sandbox.
func ServeMain(args []string, stderr io.Writer) int {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		fmt.Fprintf(stderr, "skerry-init: error: make PID 1 private: %v\n", err)
		return exitUsage
	}
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	flags.SetOutput(stderr)
	configFD := flags.Int("config-fd", -1, "descriptor to read the configuration from")
	controlFD := flags.Int("control-fd", -1, "descriptor of the control line")
	listen := flags.String("listen", "", "name of the abstract socket to listen on")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 || *configFD < 0 {
		fmt.Fprintln(stderr, "skerry-init: error: serve needs --config-fd, and --control-fd or --listen")
		return exitUsage
	}
	if os.Getpid() != 1 {
		fmt.Fprintln(stderr, "skerry-init: error: serve must be PID 1 of a sandbox")
		return exitUsage
	}
	closeForeign(*configFD, *controlFD)
	if err := serve(*configFD, *controlFD, *listen); err != nil {
		fmt.Fprintf(stderr, "skerry-init: error: %v\n", err)
		return exitUsage
	}
	return 0
}

func serve(configFD, controlFD int, listen string) error {
	swallowSignals()
	// A fork that user code holds up takes a processor with it: another one is
	// needed to end that.
	runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))
	debug.SetGCPercent(50) // memory of the init is memory that user code can't have
	raiseOwnFiles()
	config, err := readConfigFD(configFD)
	if err != nil {
		return err
	}
	var line *control.Line
	if controlFD >= 0 {
		unix.CloseOnExec(controlFD)
		if line, err = control.FromFile(os.NewFile(uintptr(controlFD), "control")); err != nil {
			return err
		}
	}
	fs, err := sandboxfs.New(config.Workspace, config.Home, config.Tmp)
	if err != nil {
		return err
	}
	defer fs.Close()
	s := newServer(config, fs, line)
	go s.reaper.run()
	go s.sweep()
	go s.nursery.fill(s.done) // a keeper's start takes longer than all that follows
	go pb.Prepare()
	keep.ParkThreads(initThreads)
	if s.watch != nil {
		go s.watchWorkspace()
	}
	if s.memory != nil {
		go s.watchMemory()
	}
	s.beginLife()
	g := newGate()
	srv := newGRPC(s, &service{Server: s, fileService: fileService{fs}})
	go func() { _ = srv.Serve(g) }()
	if s.line != nil {
		go s.line.listen(func(c net.Conn) { s.admit(g, c, config.Trusted) })
		_ = s.line.tell(control.Message{Type: control.Begun}) // a line that ended already is found by listen
	}
	if listen != "" {
		if err := s.listenAbstract(g, listen); err != nil {
			return err
		}
	}
	<-s.done
	return s.shutDown(g, func(ctx context.Context) {
		stopped := make(chan struct{})
		go func() {
			srv.GracefulStop() // the reply to Shutdown, and the last output
			close(stopped)
		}()
		select {
		case <-stopped:
		case <-ctx.Done():
			srv.Stop()
		}
	})
}

const (
	// shutdownGrace is for clients to take their last messages.
	shutdownGrace = 500 * time.Millisecond
)

// shutDown ends everything in the sandbox, tells why, and returns.
func (s *Server) shutDown(g *gate, stopServing func(context.Context)) error {
	running := s.endCommands()
	killEverything()
	ctx, cancel := context.WithTimeout(context.Background(), shutdownGrace)
	defer cancel()
	for _, c := range running {
		_, _ = c.wait(ctx)
	}
	close(s.emptied)
	stopServing(ctx)
	g.Close()
	if s.line != nil {
		_ = s.line.tell(control.Message{Type: control.Ended, Reason: s.endingReason()})
		s.line.line.Close()
	}
	return nil
}

func (s *Server) endingReason() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ending
}

// killEverything kills every process of the sandbox but the init. The kernel
// does it at once, so nothing can fork its way out.
func killEverything() {
	for range 100 {
		if err := syscall.Kill(-1, syscall.SIGKILL); err == syscall.ESRCH {
			return
		}
		time.Sleep(killPause)
	}
}

// closeForeign closes what whoever started the sandbox left open by mistake:
// it would go on to every command. What Go itself opened closes on exec.
func closeForeign(ours ...int) {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return
	}
	names, _ := dir.Readdirnames(-1)
	dir.Close()
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil || fd <= 2 || slices.Contains(ours, fd) {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.Close(fd)
		}
	}
}

// swallowSignals makes every signal that can be caught do nothing.
func swallowSignals() {
	c := make(chan os.Signal, 1)
	signal.Notify(c)
}
