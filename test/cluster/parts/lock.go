//go:build linux

package parts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// How often a process that waits for another's build looks again. flock cannot
// be waited for together with a context.
const lockPoll = 200 * time.Millisecond

var errLocked = errors.New("locked by another process")

// lock takes the file at path for this process, waiting for whoever has it; a
// process that dies gives it back. waiting is called once if there is a wait.
// The caller calls the returned function to give it back.
func lock(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	for {
		unlock, err := tryLock(path)
		if !errors.Is(err, errLocked) {
			return unlock, err
		}
		if waiting != nil {
			waiting()
			waiting = nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(lockPoll):
		}
	}
}

// tryLock is lock without the wait: errLocked when somebody has it.
func tryLock(path string) (unlock func(), err error) {
	for {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			return nil, fmt.Errorf("make a lock in the cache: %w (%s)", err, cacheHint)
		}
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EINTR) {
			file.Close()
			continue
		}
		if errors.Is(err, syscall.EWOULDBLOCK) {
			file.Close()
			return nil, errLocked
		}
		if err != nil {
			file.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		// Whoever removes an old part removes its lock too: one taken on a file
		// that is no longer there keeps nobody out.
		mine, err := file.Stat()
		if err == nil {
			if now, err := os.Stat(path); err == nil && os.SameFile(mine, now) {
				return func() { file.Close() }, nil
			}
		}
		file.Close()
	}
}
