//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/bwrap"
)

// measureStart compares a run with a bare bwrap that mounts the same.
func measureStart(ctx context.Context, s *setting) error {
	const times, goal = 60, 40 * time.Millisecond
	path, err := bwrap.Find("")
	if err != nil {
		return err
	}
	bare := append(bareArgs(s.init), "bash", "-c", "true")
	var plain, ours []time.Duration
	for range times { // in turn, so that both have the same neighbours
		d, err := timed(exec.CommandContext(ctx, path, bare...).Run)
		if err != nil {
			return fmt.Errorf("bare bwrap: %w", err)
		}
		plain = append(plain, d)
		d, err = timed(s.command(ctx, "run", "-l", "bash", "-c", "true").Run)
		if err != nil {
			return fmt.Errorf("skerry run: %w", err)
		}
		ours = append(ours, d)
	}
	more := median(ours) - median(plain)
	s.row("skerry run -l bash -c true, more than bare bwrap", fmt.Sprintf("%s (%s, bare %s)", ms(more), ms(median(ours)), ms(median(plain))), "≤ 40 ms", more <= goal)
	return nil
}

// bareArgs gives the options of a bwrap that mounts what the backend does, but
// has no init, no filter and nobody who listens.
func bareArgs(init string) []string {
	l := skerry.DefaultLimits
	args := bwrap.Args(bwrap.Spec{
		Layout: bwrap.ReadLayout("/"), Init: init, HoldFD: -1,
		WorkspaceBytes: l.WorkspaceBytes, HomeBytes: l.WorkspaceBytes, TmpBytes: l.TmpBytes, ShmBytes: l.ShmBytes,
	})
	for _, option := range []string{"--seccomp", "--json-status-fd"} {
		if i := slices.Index(args, option); i >= 0 {
			args = slices.Delete(args, i, i+2)
		}
	}
	return append(args, "--setenv", "PATH", "/usr/bin:/bin")
}

// command gives a call of the command line.
func (s *setting) command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, s.skerry, args...)
	c.Env = append(os.Environ(), "SKERRY_STATE_DIR="+s.state, "SKERRY_INIT="+s.init)
	return c
}
