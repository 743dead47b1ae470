package attach

import (
	"math/rand/v2"
	"sync"
	"time"
)

// budget counts the attempts to open a stream that are left, so that a sandbox
// whose stream is cut again and again from inside is given up.
type budget struct {
	limit Reconnect

	mu       sync.Mutex
	left     int
	refilled time.Time // when time last gave an attempt back
	bytes    int64     // of progress that has not given one back yet
	failures int       // attempts in a row without progress
}

func newBudget(limit Reconnect) *budget {
	return &budget{limit: limit, left: limit.Attempts, refilled: time.Now()}
}

// take uses one attempt up and says how long to wait before it; ok is false
// when none is left.
func (b *budget) take() (wait time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := int(time.Since(b.refilled) / RefillInterval); n > 0 {
		b.refilled = b.refilled.Add(time.Duration(n) * RefillInterval)
		b.give(n)
	}
	if b.left <= 0 {
		return 0, false
	}
	b.left--
	if b.failures > 0 {
		wait = b.limit.BackoffMin << min(b.failures-1, 20)
		if wait > b.limit.BackoffMax || wait <= 0 {
			wait = b.limit.BackoffMax
		}
		wait -= time.Duration(rand.Int64N(int64(wait)/2 + 1))
	}
	b.failures++
	return wait, true
}

// answered notes an answer that was right.
func (b *budget) answered() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures = 0
	b.give(1)
}

// delivered notes n bytes of data.
func (b *budget) delivered(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures = 0
	b.bytes += int64(n)
	if b.bytes >= ProgressBytes {
		b.give(int(b.bytes / ProgressBytes))
		b.bytes %= ProgressBytes
	}
}

func (b *budget) give(n int) { b.left = min(b.left+n, b.limit.Attempts) }
