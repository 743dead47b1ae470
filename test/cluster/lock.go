//go:build linux

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// lockPoll is how often a lock is tried: one of this kind can not be waited
// for together with a context.
const lockPoll = 50 * time.Millisecond

// waitForLock takes the lock that is a file, which release removes.
func waitForLock(ctx context.Context, path string) (release func(), err error) {
	for {
		release, err := tryLock(path)
		if release != nil || err != nil {
			return release, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(lockPoll):
		}
	}
}

// tryLock gives no release and no error when another has the lock. The kernel
// drops it with the process.
func tryLock(path string) (release func(), err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil && isSameFile(file, path) {
		return func() {
			// While it is held, so that nobody else can hold what is removed.
			_ = os.Remove(path)
			_ = file.Close()
		}, nil
	}
	_ = file.Close()
	if err != nil && !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return nil, nil
}

func isSameFile(file *os.File, path string) bool {
	a, errA := file.Stat()
	b, errB := os.Stat(path)
	return errA == nil && errB == nil && os.SameFile(a, b)
}
