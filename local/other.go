//go:build !linux

package local

import (
	"context"
	"runtime"

	"github.com/skerry-run/skerry"
)

// Backend exists on Linux only; New never gives one here.
type Backend struct{ skerry.Backend }

// New says which backend to use instead: sandboxes are made of what the Linux
// kernel has.
func New(Config) (*Backend, error) {
	return nil, skerry.Errorf(skerry.Denied, "local backend", "sandboxes on this machine need Linux, this is %s", runtime.GOOS).
		WithHint("use --backend kubernetes or --backend http").WithOutcome(skerry.Refused)
}

// Sweep does nothing here.
func (b *Backend) Sweep(context.Context) error { return nil }
