//go:build linux

package hostnet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Pasta is the process that carries a sandbox's packets for an ordinary user.
type Pasta struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// Stop ends it and waits.
func (p *Pasta) Stop() {
	_ = p.cmd.Process.Kill() // may have ended with the namespace
	<-p.ended
}

// pastaReady is how long pasta may take to set up the interface.
const pastaReady = 10 * time.Second

// rulesStep puts the filter into the sandbox's namespace. The programs of the
// sandbox live in a user namespace below the one that owns it, and can't take
// it away again.
func (p Plan) rulesStep() Step {
	return Step{
		Argv:  []string{"nsenter", "--user=/proc/" + strconv.Itoa(p.PID) + "/ns/user", "--net=/proc/" + strconv.Itoa(p.PID) + "/ns/net", find("nft"), "-f", "-"},
		Stdin: p.insideRules(),
	}
}

// pastaArgs opens nothing from outside in, and nothing to the host: no port is
// forwarded either way, and the gateway's address does not mean the host.
func (p Plan) pastaArgs() []string {
	return []string{
		"--config-net", "--foreground", "--quiet", "--ipv4-only", "--ns-ifname", InsideName, "--no-map-gw",
		"--tcp-ports", "none", "--udp-ports", "none", "--tcp-ns", "none", "--udp-ns", "none",
		"--no-dhcp", "--no-dhcpv6", "--no-ndp", "--no-ra",
		"--userns", "/proc/" + strconv.Itoa(p.PID) + "/ns/user", "--netns", "/proc/" + strconv.Itoa(p.PID) + "/ns/net",
	}
}

// UpPasta gives the sandbox of p a network without root. The caller stops what
// it returns, and stays on its thread until then: pasta is killed with the
// thread that started it.
func UpPasta(ctx context.Context, p Plan) (*Pasta, error) {
	rules := p.rulesStep()
	if _, err := run(ctx, rules.Argv, rules.Stdin); err != nil {
		return nil, err
	}
	cmd := exec.Command(find("pasta"), p.pastaArgs()...)
	cmd.Env = []string{}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL}
	errR, errW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer errR.Close()
	cmd.Stderr, cmd.Stdout = errW, errW
	err = cmd.Start()
	errW.Close()
	if err != nil {
		return nil, fmt.Errorf("start pasta: %w", err)
	}
	pasta := &Pasta{cmd: cmd, ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		close(pasta.ended)
	}()
	if err := pasta.wait(ctx, p.PID); err != nil {
		pasta.Stop()
		const most = 4 << 10
		b := make([]byte, most)
		n, _ := errR.Read(b) // its end is closed, so this does not wait
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(string(b[:n])))
	}
	return pasta, nil
}

// wait returns when the sandbox has a default route, which pasta adds last.
func (q *Pasta) wait(ctx context.Context, pid int) error {
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
		case <-q.ended:
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
