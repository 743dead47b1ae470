//go:build linux

// Package image builds the container images that a cluster for tests needs,
// without a container engine and without a registry: the pause image, the image
// with skerry-init, and the runtime images of images/runtime.json from Debian
// packages.
//
// The same input gives the same digest: the binaries do not know where they
// were built, and the entries of an archive have fixed times, owners and order.
// Of the runtime images the input includes what the Debian archive serves at
// the time; they are built once and kept, so that it does not matter later.
package image

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// repository is what the names of all images begin with. Nothing listens there:
// an image that was not imported can't be pulled by mistake.
const repository = "skerry.test/"

// The images that are not runtimes, by their names on the node. The runtimes
// are called after images/runtime.json, skerry.test/python:3.11 for example.
const (
	Pause = repository + "pause:1"
	Init  = repository + "skerry-init:test"
)

// Options say from what images are built, where they are kept and who hears
// about it.
type Options struct {
	// Cache is the folder of the built images. Empty is
	// $SKERRY_CLUSTER_CACHE, or else skerry-cluster in the user's cache
	// folder. It may not lie inside of Root.
	Cache string

	// Log gets a line when the runtime images begin and end to be built, and
	// what is being done meanwhile. Nil is silent.
	Log io.Writer

	// Root is the checkout. Empty is the one this package was compiled from.
	Root string
}

// An Image is one that lies in an archive.
type Image struct {
	// Name is what pods call it.
	Name string
	// Path is an OCI archive that `ctr -n k8s.io images import` takes. It may
	// hold several images, so that they share their layers: import each path
	// once.
	Path string
	// Digest is that of its manifest, sha256:….
	Digest string
}

// Pinned is the name that admits this very image and no other. The archive
// brings it along.
func (i Image) Pinned() string { return pinned(i.Name, i.Digest) }

// Build returns every image, after building those which the cache does not
// have: a second for the binaries, a minute or so for the runtimes. Any number
// of processes may call it at once. When ctx ends, nothing half-built is left
// to be used.
func Build(ctx context.Context, opts Options) ([]Image, error) {
	b, err := newBuilder(opts)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	jobs := []struct {
		name  string
		build func(context.Context) ([]Image, error)
	}{
		{"pause", b.pause},
		{"skerry-init", b.init},
		{"runtime", b.runtimes},
	}
	built := make([][]Image, len(jobs))
	var wait sync.WaitGroup
	for i, job := range jobs {
		wait.Go(func() {
			images, err := job.build(ctx)
			if err != nil {
				cancel(fmt.Errorf("image %s: %w", job.name, err))
				return
			}
			built[i] = images
		})
	}
	wait.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return slices.Concat(built...), nil
}

// BuildPause returns the pause image alone, which a node needs first.
func BuildPause(ctx context.Context, opts Options) (Image, error) {
	b, err := newBuilder(opts)
	if err != nil {
		return Image{}, err
	}
	images, err := b.pause(ctx)
	if err != nil {
		return Image{}, fmt.Errorf("image pause: %w", err)
	}
	return images[0], nil
}

// A builder knows where things come from and where they go.
type builder struct {
	root  string
	cache string
	log   *log
}

func newBuilder(opts Options) (*builder, error) {
	root, err := checkout(opts.Root)
	if err != nil {
		return nil, err
	}
	cache, err := cacheFolder(opts.Cache, root)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, fmt.Errorf("make the cache of images: %w (set %s to a folder that can be written)", err, cacheVariable)
	}
	return &builder{root: root, cache: cache, log: &log{to: opts.Log}}, nil
}

// A log is lines from several goroutines.
type log struct {
	mu sync.Mutex
	to io.Writer
}

func (l *log) printf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.to != nil {
		fmt.Fprintf(l.to, "images: "+format+"\n", args...)
	}
}

// source is a path in the checkout.
func (b *builder) source(elem ...string) string {
	return filepath.Join(append([]string{b.root}, elem...)...)
}
