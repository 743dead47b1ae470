//go:build linux

package keeper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Kill ends the keeper that owns folder, if one lives, with all that runs in
// its namespaces, and removes the cgroup. It returns when nothing is left.
func Kill(ctx context.Context, folder, cgroup string) error {
	for {
		gone, err := killOnce(ctx, folder)
		if err != nil {
			return err
		}
		if gone {
			break
		}
	}
	return removeCgroup(cgroup)
}

func killOnce(ctx context.Context, folder string) (gone bool, err error) {
	pid, err := PID(folder)
	if err != nil || pid == 0 {
		return err == nil, err
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("open process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	// The number may have become another's between the question and the open.
	if again, err := PID(folder); err != nil || again != pid {
		return false, err
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return false, fmt.Errorf("kill the keeper, process %d: %w", pid, err)
	}
	for {
		wait := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(wait, int((100 * time.Millisecond).Milliseconds()))
		switch {
		case err != nil && !errors.Is(err, unix.EINTR):
			return false, fmt.Errorf("wait for the keeper, process %d: %w", pid, err)
		case n > 0:
			return false, nil
		case ctx.Err() != nil:
			return false, fmt.Errorf("wait for the keeper, process %d: %w", pid, context.Cause(ctx))
		}
	}
}
