package local

import (
	"context"

	"github.com/skerry-run/skerry"
)

// Check looks.
func (b *Backend) Check(ctx context.Context) (skerry.Report, error) { return nil, nil }
