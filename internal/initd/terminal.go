//go:build linux

package initd

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry"
)

// inputPipe makes a pipe for a program's input: w is ours, r the program's.
func inputPipe() (r, w *os.File, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("pipe: %w", err)
	}
	if err := unix.SetNonblock(p[1], true); err != nil {
		unix.Close(p[0])
		unix.Close(p[1])
		return nil, nil, fmt.Errorf("pipe: %w", err)
	}
	return os.NewFile(uintptr(p[0]), "input"), os.NewFile(uintptr(p[1]), "input"), nil
}

// prepareTerminal makes one terminal for all three streams.
func (p *prepared) prepareTerminal(size skerry.TerminalSize) error {
	master, slave, err := openTerminal(size)
	if err != nil {
		return err
	}
	p.give(slave, 0, 1, 2)
	p.req.TTY = true
	p.tty = master
	p.pumps = append(p.pumps, newPump(master, p.out[0], true))
	p.out[1].close()
	p.stdin = newStdin(master, true)
	return nil
}

func openTerminal(size skerry.TerminalSize) (master, slave *os.File, err error) {
	m, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("terminal: %w", err)
	}
	master = os.NewFile(uintptr(m), "terminal")
	defer func() {
		if err != nil {
			master.Close()
		}
	}()
	if err := unix.IoctlSetPointerInt(m, unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, fmt.Errorf("terminal: %w", err)
	}
	n, err := unix.IoctlGetInt(m, unix.TIOCGPTN)
	if err != nil {
		return nil, nil, fmt.Errorf("terminal: %w", err)
	}
	if err := resizeTerminal(master, size); err != nil {
		return nil, nil, err
	}
	f, err := unix.Open("/dev/pts/"+strconv.Itoa(n), unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("terminal: %w", err)
	}
	return master, os.NewFile(uintptr(f), "terminal"), nil
}

func resizeTerminal(master *os.File, size skerry.TerminalSize) error {
	size = size.OrDefaults()
	c, err := master.SyscallConn()
	if err != nil {
		return fmt.Errorf("terminal: %w", err)
	}
	var set error
	if err := c.Control(func(fd uintptr) {
		set = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Col: size.Cols, Row: size.Rows})
	}); err != nil {
		return fmt.Errorf("terminal: %w", err)
	}
	if set != nil {
		return fmt.Errorf("terminal: %w", set)
	}
	return nil
}
