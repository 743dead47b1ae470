//go:build linux

package hostnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Pasta is the process that carries a sandbox's packets for an ordinary user.
type Pasta struct {
	cmd   *exec.Cmd
	ended chan struct{}
	said  lastWords
}

// Stop ends it and waits.
func (p *Pasta) Stop() {
	_ = p.cmd.Process.Kill() // may have ended with the namespace
	<-p.ended
}

// pastaReady is how long pasta may take to set up the interface.
const pastaReady = 10 * time.Second

// namespaces names, as paths, a sandbox's network namespace and the user
// namespace that owns it. The sandbox's own processes are in a user namespace
// below that, without a way back.
type namespaces struct{ user, net string }

// rulesStep puts the filter into the sandbox's network namespace.
func (p Plan) rulesStep(ns namespaces) Step {
	return Step{
		Argv:  []string{"nsenter", "--preserve-credentials", "--user=" + ns.user, "--net=" + ns.net, find("nft"), "-f", "-"},
		Stdin: p.insideRules(),
	}
}

// pastaArgs opens nothing from outside in, and nothing to the host: no port is
// forwarded either way, and the gateway's address does not mean the host.
func (p Plan) pastaArgs(ns namespaces) []string {
	return []string{
		"--config-net", "--foreground", "--quiet", "--ipv4-only", "--ns-ifname", InsideName, "--no-map-gw",
		"--tcp-ports", "none", "--udp-ports", "none", "--tcp-ns", "none", "--udp-ns", "none",
		"--no-dhcp", "--no-dhcpv6", "--no-ndp", "--no-ra",
		"--userns", ns.user, "--netns", ns.net,
	}
}

// UpPasta gives the sandbox of p a network without root. The caller stops what
// it returns, and stays on its thread until then: pasta is killed with the
// thread that started it.
func UpPasta(ctx context.Context, p Plan) (_ *Pasta, err error) {
	ns := namespaces{net: fmt.Sprintf("/proc/%d/ns/net", p.PID)}
	netFD, err := unix.Open(ns.net, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the sandbox's network namespace: %w", err)
	}
	defer unix.Close(netFD)
	userFD, err := unix.IoctlRetInt(netFD, unix.NS_GET_USERNS)
	if err != nil {
		return nil, fmt.Errorf("find the owner of the sandbox's network namespace: %w", err)
	}
	defer unix.Close(userFD)
	ns.user = fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), userFD)

	if err := waitForSecond(ctx, p.PID, userFD); err != nil {
		return nil, err
	}
	rules := p.rulesStep(ns)
	if _, err := run(ctx, rules.Argv, rules.Stdin); err != nil {
		return nil, err
	}
	pasta, err := startPasta(p.pastaArgs(ns))
	if err != nil {
		return nil, err
	}
	if err := pasta.wait(ctx, p.PID); err != nil {
		pasta.Stop()
		return nil, fmt.Errorf("%w: %s", err, pasta.said.String())
	}
	return pasta, nil
}

// waitForSecond waits until the process has left the user namespace that owns
// its network for the one below: not before is the first one's table of users
// written, without which nobody has rights in it.
func waitForSecond(ctx context.Context, pid, owner int) error {
	const pause = time.Millisecond
	var first, now unix.Stat_t
	if err := unix.Fstat(owner, &first); err != nil {
		return fmt.Errorf("look at the sandbox's namespaces: %w", err)
	}
	for end := time.Now().Add(pastaReady); time.Now().Before(end); {
		if err := unix.Stat(fmt.Sprintf("/proc/%d/ns/user", pid), &now); err != nil {
			return fmt.Errorf("look at the sandbox's namespaces: %w", err)
		}
		if now.Ino != first.Ino {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
	return fmt.Errorf("bwrap made no second user namespace within %v", pastaReady)
}

func startPasta(args []string) (*Pasta, error) {
	cmd := exec.Command(find("pasta"), args...)
	cmd.Env = []string{}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL}
	// It is read for as long as pasta runs: a closed pipe would end it.
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr, cmd.Stdout = w, w
	err = cmd.Start()
	w.Close()
	if err != nil {
		r.Close()
		return nil, fmt.Errorf("start pasta: %w", err)
	}
	p := &Pasta{cmd: cmd, ended: make(chan struct{})}
	go func() {
		_, _ = io.Copy(&p.said, r)
		r.Close()
		_ = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// wait returns when the sandbox has a default route, which pasta adds last.
func (p *Pasta) wait(ctx context.Context, pid int) error {
	const pause = 2 * time.Millisecond
	for end := time.Now().Add(pastaReady); ; {
		route, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/route", pid))
		if err != nil {
			return err
		}
		if hasDefaultRoute(string(route)) {
			return nil
		}
		select {
		case <-p.ended:
			return errors.New("pasta ended")
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		if time.Now().After(end) {
			return fmt.Errorf("pasta made no route within %v", pastaReady)
		}
	}
}

// hasDefaultRoute reads /proc/net/route: a destination and a mask of zeros.
func hasDefaultRoute(text string) bool {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) > 7 && f[0] == InsideName && f[1] == "00000000" && f[7] == "00000000" {
			return true
		}
	}
	return false
}

// lastWords keeps the end of what a program says.
type lastWords struct {
	mu  sync.Mutex
	buf []byte
}

func (l *lastWords) Write(p []byte) (int, error) {
	const most = 2 << 10
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf = append(l.buf, p...)
	if len(l.buf) > most {
		l.buf = append(l.buf[:0], l.buf[len(l.buf)-most:]...)
	}
	return len(p), nil
}

func (l *lastWords) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.TrimSpace(string(l.buf))
}
