//go:build linux

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/skerry-run/skerry"
)

// measureCommands measures a command in an open session, started and waited
// for through the library.
func measureCommands(ctx context.Context, s *setting) error {
	box, remove, err := s.session(ctx, "commands")
	if err != nil {
		return err
	}
	defer remove()
	for _, m := range []struct {
		what  string
		spec  skerry.CommandSpec
		times int
		goal  time.Duration
	}{
		{"argv true in an open session", skerry.CommandSpec{Argv: []string{"true"}}, 500, 3 * time.Millisecond},
		{"script true in an open session, state kept", skerry.CommandSpec{Script: "true"}, 300, 10 * time.Millisecond},
	} {
		var took []time.Duration
		for i := range m.times {
			spec := m.spec
			spec.ID = fmt.Sprintf("%s %d", m.what, i)
			d, err := timed(func() error { return complete(ctx, box, spec) })
			if err != nil {
				return err
			}
			took = append(took, d)
		}
		s.row(m.what, fmt.Sprintf("%s (p95 %s)", ms(median(took)), ms(at(took, 0.95))), "≤ "+ms(m.goal), median(took) <= m.goal)
	}
	return nil
}

// complete runs a command to its end.
func complete(ctx context.Context, box skerry.Sandbox, spec skerry.CommandSpec) error {
	c, err := box.Start(ctx, spec)
	if err != nil {
		return err
	}
	exit, err := c.Wait(ctx)
	if err != nil {
		return err
	}
	if exit.ExitCode == nil || *exit.ExitCode != 0 {
		return fmt.Errorf("%s ended as %s %s", spec.ID, exit.Outcome, exit.Reason)
	}
	return nil
}

// measureCLI compares a command in a session with starting the command line
// alone.
func measureCLI(ctx context.Context, s *setting) error {
	const times, goal = 60, 3.0
	_, remove, err := s.session(ctx, "cli")
	if err != nil {
		return err
	}
	defer remove()
	var alone, exec []time.Duration
	for range times {
		// Not version: that starts skerry-init too, to ask for its own.
		d, err := timed(s.command(ctx, "--help").Run)
		if err != nil {
			return fmt.Errorf("skerry --help: %w", err)
		}
		alone = append(alone, d)
		d, err = timed(s.command(ctx, "session", "exec", "cli", "--", "true").Run)
		if err != nil {
			return fmt.Errorf("skerry session exec: %w", err)
		}
		exec = append(exec, d)
	}
	ratio := float64(median(exec)) / float64(median(alone))
	s.row("skerry session exec against skerry --help", fmt.Sprintf("%.1f× (%s, %s)", ratio, ms(median(exec)), ms(median(alone))), "≤ 3×", ratio <= goal)
	return nil
}
