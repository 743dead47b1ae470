//go:build linux

package sandboxfs

import (
	"context"
	"slices"

	"github.com/skerry-run/skerry"
)

// Glob gives the paths below dir that match pattern, files and folders, sorted
// by bytes. When there are more than limit the first ones count.
func (f *FS) Glob(ctx context.Context, dir, pattern string, limit int) (skerry.GlobResult, error) {
	const op = "glob"
	if dir == "" {
		dir = "."
	}
	p, err := f.resolve(op, dir)
	if err != nil {
		return skerry.GlobResult{}, err
	}
	pat, err := parsePattern(pattern)
	if err != nil {
		return skerry.GlobResult{}, skerry.Errorf(skerry.Invalid, op, "pattern %q: %w", pattern, err).WithHint(`write something like "src/**/*.py"`)
	}
	if limit, err = limitOf(op, limit, defaultListLimit, maxListLimit); err != nil {
		return skerry.GlobResult{}, err
	}
	d, err := f.openFolder(p)
	if err != nil {
		return skerry.GlobResult{}, failed(op, dir, p.root, err)
	}
	defer d.close()
	var found skerry.GlobResult
	cut := func() {
		slices.Sort(found.Paths)
		if len(found.Paths) > limit {
			found.Paths, found.Truncated = found.Paths[:limit], true
		}
	}
	err = f.walkPattern(ctx, d, pat, func(e entry) error {
		found.Paths = append(found.Paths, e.path)
		if len(found.Paths) > 2*limit { // the lowest so far are enough, and memory stays bounded
			cut()
		}
		return nil
	})
	if err != nil {
		return skerry.GlobResult{}, failed(op, dir, p.root, err)
	}
	cut()
	return found, nil
}

// walkPattern visits what matches, and goes only where something can. A nil
// pattern is everything.
func (f *FS) walkPattern(ctx context.Context, d *folder, pat *pattern, visit func(entry) error) error {
	if pat == nil {
		w := walker{fs: f, ctx: ctx, visit: visit}
		return w.walk(d)
	}
	// states[n] holds at the folder of depth n that the walk is in.
	states := []state{pat.start()}
	var next state
	w := walker{fs: f, ctx: ctx}
	w.visit = func(e entry) error {
		var matched bool
		states = states[:e.depth+1]
		next, matched = pat.step(states[e.depth], e.name, e.isFolder())
		if matched {
			return visit(e)
		}
		return nil
	}
	w.enter = func(e entry) bool {
		if len(next) > 0 {
			states = append(states, next)
		}
		return len(next) > 0
	}
	return w.walk(d)
}
