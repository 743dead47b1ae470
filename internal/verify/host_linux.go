package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// canaryVariable is in the environment of this process while it verifies.
const canaryVariable = "SKERRY_VERIFY_CANARY"

// host is what was planted on this machine: none of it may be found from
// inside, all of it can be found from here.
type host struct {
	token   string // the secret that everything answers with
	control string // what a sandbox may see, as the proof that it sees at all

	files   []string
	tcp     []string
	udp     []string
	unix    []string
	process string
	shmKey  int
	shmErr  error

	dirs    []string
	closers []io.Closer
	shmID   int
	canary  *exec.Cmd
	wg      sync.WaitGroup
}

func plant(ctx context.Context) (_ *host, err error) {
	h := &host{token: "token-" + randomHex(), control: "control-" + randomHex(), shmID: -1}
	defer func() {
		if err != nil {
			h.close()
		}
	}()
	if err := os.Setenv(canaryVariable, h.token); err != nil {
		return h, err
	}
	for _, parent := range []string{os.TempDir(), "/var/tmp", "/dev/shm"} {
		if err := h.plantFile(parent); err != nil && parent == os.TempDir() {
			return h, err
		}
	}
	if err := h.plantSockets(); err != nil {
		return h, err
	}
	h.process = "86399." + fmt.Sprint(time.Now().UnixNano()%1e9)
	h.canary = exec.CommandContext(context.WithoutCancel(ctx), "sleep", h.process)
	if err := h.canary.Start(); err != nil {
		return h, err
	}
	// Start returns in the middle of the exec, a moment before the arguments
	// can be read.
	for end := time.Now().Add(exchangePatience); h.alive("host-processes") != nil && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	h.shmKey = int(time.Now().UnixNano() & 0x3fffffff)
	h.shmID, h.shmErr = unix.SysvShmGet(h.shmKey, 4096, unix.IPC_CREAT|unix.IPC_EXCL|0o666)
	return h, nil
}

// plantFile makes a file that everybody may read.
func (h *host) plantFile(parent string) error {
	dir, err := os.MkdirTemp(parent, "skerry-verify-")
	if err != nil {
		return err
	}
	h.dirs = append(h.dirs, dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	file := filepath.Join(dir, "canary")
	if err := os.WriteFile(file, []byte(h.token), 0o644); err != nil {
		return err
	}
	h.files = append(h.files, file)
	return nil
}

// plantSockets listens wherever user code could reach for the host.
func (h *host) plantSockets() error {
	socket := filepath.Join(h.dirs[0], "socket")
	for _, address := range []string{socket, "@skerry-verify-" + randomHex()} {
		l, err := net.Listen("unix", address)
		if err != nil {
			return err
		}
		h.serve(l)
		h.unix = append(h.unix, address)
	}
	if err := os.Chmod(socket, 0o777); err != nil {
		return err
	}
	for _, ip := range addresses() {
		l, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
		if err != nil {
			continue // then nobody can connect to it either
		}
		h.serve(l)
		h.tcp = append(h.tcp, l.Addr().String())
		p, err := net.ListenPacket("udp", net.JoinHostPort(ip, "0"))
		if err != nil {
			continue
		}
		h.servePacket(p)
		h.udp = append(h.udp, p.LocalAddr().String())
	}
	if len(h.tcp) == 0 || len(h.udp) == 0 {
		return errors.New("no address of this machine can be listened on")
	}
	return nil
}

// addresses gives this machine's addresses, link-local ones left out: they
// need a zone, which a sandbox would not know.
func addresses() []string {
	list := []string{"127.0.0.1", "::1"}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return list
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
			list = append(list, n.IP.String())
		}
	}
	return list
}

func (h *host) serve(l net.Listener) {
	h.closers = append(h.closers, l)
	h.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			h.wg.Go(func() {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(exchangePatience))
				_, _ = c.Read(make([]byte, 16))
				_, _ = io.WriteString(c, h.token)
			})
		}
	})
}

func (h *host) servePacket(p net.PacketConn) {
	h.closers = append(h.closers, p)
	h.wg.Go(func() {
		buf := make([]byte, 16)
		for {
			_, from, err := p.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = p.WriteTo([]byte(h.token), from)
		}
	})
}

const exchangePatience = 3 * time.Second

// alive is the control of an attack on the host: what it looked for can be
// found from here at this moment.
func (h *host) alive(attack string) error {
	each := func(network string, addresses []string) error {
		for _, a := range addresses {
			if err := h.exchange(network, a); err != nil {
				return fmt.Errorf("%s %s: %w", network, a, err)
			}
		}
		return nil
	}
	switch attack {
	case "host-tcp":
		return each("tcp", h.tcp)
	case "host-udp":
		return each("udp", h.udp)
	case "host-unix":
		return each("unix", h.unix)
	case "host-files":
		for _, f := range h.files {
			if data, err := os.ReadFile(f); err != nil || string(data) != h.token {
				return fmt.Errorf("%s does not hold the token: %v", f, err)
			}
		}
	case "host-environment":
		if os.Getenv(canaryVariable) != h.token {
			return errors.New("the variable is not in our own environment")
		}
	case "host-processes":
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", h.canary.Process.Pid))
		if err != nil || !strings.Contains(string(data), h.process) {
			return fmt.Errorf("the process is not there: %v", err)
		}
	case "host-ipc":
		_, err := unix.SysvShmGet(h.shmKey, 0, 0)
		return err
	case "host-shadow":
		if _, err := os.Stat("/etc/shadow"); err != nil {
			return err
		}
	}
	return nil
}

func (h *host) exchange(network, address string) error {
	c, err := net.DialTimeout(network, address, exchangePatience)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(exchangePatience)); err != nil {
		return err
	}
	if _, err := io.WriteString(c, "hello"); err != nil {
		return err
	}
	buf := make([]byte, 256)
	n, err := c.Read(buf)
	if err != nil {
		return err
	}
	if !bytes.Contains(buf[:n], []byte(h.token)) {
		return errors.New("somebody else answered")
	}
	return nil
}

func (h *host) close() {
	os.Unsetenv(canaryVariable)
	for _, c := range h.closers {
		c.Close()
	}
	h.wg.Wait()
	for _, d := range h.dirs {
		os.RemoveAll(d)
	}
	if h.canary != nil && h.canary.Process != nil {
		_ = h.canary.Process.Kill()
		_ = h.canary.Wait()
	}
	if h.shmID >= 0 {
		_, _ = unix.SysvShmCtl(h.shmID, unix.IPC_RMID, nil)
	}
}
