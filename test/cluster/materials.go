//go:build linux

package cluster

import (
	"context"
	"fmt"
	"sync"

	"github.com/skerry-run/skerry/test/cluster/image"
	"github.com/skerry-run/skerry/test/cluster/parts"
)

// materials are what a cluster is made of: built once, kept in the cache.
type materials struct {
	programs *parts.Set
	images   []image.Image // the pause image first
}

// makeMaterials builds what the cache does not have. Images and programs are
// built side by side: the ones wait for the network where the others compute.
func makeMaterials(ctx context.Context, config Config) (m materials, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var both sync.WaitGroup
	both.Go(func() {
		var err error
		if m.programs, err = parts.Build(ctx, parts.Options{Cache: config.Cache, Log: config.Log}); err == nil {
			err = buildOwn(ctx, config.Cache)
		}
		if err != nil {
			cancel(fmt.Errorf("build the cluster's programs: %w", err))
		}
	})
	both.Go(func() {
		var err error
		if m.images, err = image.Build(ctx, image.Options{Cache: config.Cache, Log: config.Log}); err != nil {
			cancel(fmt.Errorf("build the cluster's images: %w", err))
		}
	})
	both.Wait()
	return m, context.Cause(ctx)
}
