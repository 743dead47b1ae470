//go:build linux

package hostnet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// stepLimit bounds one program.
const stepLimit = 20 * time.Second

// places is where the programs are looked for: a supervisor has no PATH.
var places = []string{"/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/sbin", "/usr/local/bin", "/run/current-system/sw/bin"}

// find gives the path of a program, or "".
func find(name string) string {
	for _, dir := range places {
		p := filepath.Join(dir, name)
		if fi, err := os.Stat(p); err == nil && fi.Mode().IsRegular() && unix.Access(p, unix.X_OK) == nil {
			return p
		}
	}
	return ""
}

var errMissing = errors.New("not installed")

// run runs one program without environment.
func run(ctx context.Context, argv []string, stdin string) (string, error) {
	path := find(argv[0])
	if path == "" {
		return "", fmt.Errorf("%s: %w", argv[0], errMissing)
	}
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, argv[1:]...)
	cmd.Env = []string{"LC_ALL=C"}
	cmd.Dir = "/"
	cmd.Stdin = strings.NewReader(stdin)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil {
		return text, fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, firstLines(text))
	}
	return text, nil
}

func firstLines(s string) string {
	const most = 400
	return s[:min(len(s), most)]
}

// inside runs f on a thread of its own in the network namespace of a process.
// The thread ends with f, so nothing else ever runs in that namespace.
func inside(pid int, f func() error) error {
	ns, err := unix.Open(fmt.Sprintf("/proc/%d/ns/net", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open network namespace: %w", err)
	}
	defer unix.Close(ns)
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread is thrown away
		if err := unix.Setns(ns, unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("enter network namespace: %w", err)
			return
		}
		done <- f()
	}()
	return <-done
}
