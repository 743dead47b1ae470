//go:build !linux

package verify

import (
	"context"

	"github.com/skerry-run/skerry"
)

// Run attacks a sandbox of the backend; it needs Linux.
func Run(context.Context, Config, func(Line)) ([]Line, error) {
	return nil, skerry.Errorf(skerry.Unavailable, "verify", "the attacks and their controls need Linux").WithHint("run it on the Linux machine that the sandboxes live on")
}
