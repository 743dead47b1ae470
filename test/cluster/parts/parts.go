//go:build linux

// Package parts builds the programs of a real Kubernetes node from their Go
// modules, once, into a cache outside the checkout.
//
// Each part is a module of its own under src, with pinned versions, so that
// what one needs never moves another. A part is built again when anything that
// decides its binaries changes: its files, the Go version, the flags, the
// system. Bumping one part rebuilds one.
package parts

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
)

// Options say where the binaries are kept and who hears about it.
type Options struct {
	// Cache is the folder of the built parts. Empty is $SKERRY_CLUSTER_CACHE,
	// or else skerry-cluster in the user's cache folder. It may not lie inside
	// the checkout.
	Cache string

	// Log gets a line when a part begins and ends to be built, and one every
	// 15 seconds meanwhile. Nothing is said about parts that are there
	// already. Nil is silent.
	Log io.Writer

	// Verify reads every binary and compares its checksum, which takes a
	// second or two. Otherwise only sizes and modes are looked at.
	Verify bool
}

// A Set is every program of a node, built. Its zero value has none.
type Set struct {
	programs map[string]string
}

// Path is where the program called name is, for example "kubelet". It panics
// when there is no such program: the names are those of the table in this
// package, and a wrong one is a mistake in the caller.
func (s *Set) Path(name string) string {
	path, ok := s.programs[name]
	if !ok {
		panic(fmt.Sprintf("parts: no program is called %q", name))
	}
	return path
}

// Build returns every program, after building those which the cache does not
// have. The first time that takes many minutes. Any number of processes may
// call it at once: each part is built by one and used by all.
//
// When ctx ends the compilers are stopped and nothing half-built is left to be
// used. Parts that nobody has used for long are removed from the cache.
func Build(ctx context.Context, opts Options) (*Set, error) {
	b, err := newBuilder(ctx, opts)
	if err != nil {
		return nil, err
	}
	return b.build(ctx, all)
}

// Missing names the parts that Build would have to build, in the order it would
// begin them. It changes nothing.
func Missing(ctx context.Context, opts Options) ([]string, error) {
	b, err := newBuilder(ctx, opts)
	if err != nil {
		return nil, err
	}
	return b.missing(all)
}

// A builder knows where things come from and where they go.
type builder struct {
	source   string // the folder with a folder for each part
	cache    string
	tool     goTool
	verify   bool
	progress *progress
}

func newBuilder(ctx context.Context, opts Options) (*builder, error) {
	source, err := findSource()
	if err != nil {
		return nil, err
	}
	cache, err := cacheFolder(opts.Cache, source)
	if err != nil {
		return nil, err
	}
	tool, err := findGo(ctx)
	if err != nil {
		return nil, err
	}
	return &builder{source: source, cache: cache, tool: tool, verify: opts.Verify, progress: newProgress(opts.Log)}, nil
}

// Two, because a build that links or downloads leaves cores idle that another
// can use; more would only take memory (linking the largest needs 3 GB).
const atOnce = 2

func (b *builder) build(ctx context.Context, parts []part) (*Set, error) {
	if err := os.MkdirAll(b.cache, 0o755); err != nil {
		return nil, fmt.Errorf("make the cache %s: %w (%s)", b.cache, err, cacheHint)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer b.progress.stop()

	var (
		wait    sync.WaitGroup
		lanes   = make(chan struct{}, atOnce)
		folders = make([]string, len(parts))
		done    = map[string]chan struct{}{}
	)
	for i, p := range parts {
		// Both waits are here and not in the goroutine: the order of the table
		// is the order of the start, the longest first.
		if first := done[p.after]; first != nil {
			select {
			case <-first:
			case <-ctx.Done():
			}
		}
		select {
		case lanes <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		finished := make(chan struct{})
		done[p.name] = finished
		wait.Go(func() {
			defer close(finished)
			defer func() { <-lanes }()
			folder, err := b.ensure(ctx, p)
			if err != nil {
				cancel(fmt.Errorf("part %s: %w", p.name, err))
				return
			}
			folders[i] = folder
		})
	}
	wait.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}

	set := &Set{programs: map[string]string{}}
	for i, p := range parts {
		for _, name := range p.names() {
			set.programs[name] = filepath.Join(folders[i], name)
		}
	}
	b.evict(parts, folders)
	return set, nil
}

func (b *builder) missing(parts []part) ([]string, error) {
	var names []string
	for _, p := range parts {
		key, err := b.key(p)
		if err != nil {
			return nil, fmt.Errorf("part %s: %w", p.name, err)
		}
		if checkEntry(b.folder(p, key), p, b.verify) != nil {
			names = append(names, p.name)
		}
	}
	return names, nil
}
