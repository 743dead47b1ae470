package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/skerry-run/skerry"
)

func (a *app) runsCommand() *cobra.Command {
	cmd := group("runs", "Look at runs that were detached, and end them",
		a.runsListCommand(), a.runsShowCommand(), a.runsLogsCommand(), a.runsCancelCommand(), a.runsRmCommand())
	for _, c := range cmd.Commands() {
		if c.Name() != "list" {
			c.ValidArgsFunction = a.completeNames(skerry.RunKind, c.Name() == "rm")
		}
	}
	return cmd
}

// openRun finds a run by its id. Its errors name the run.
func (a *app) openRun(ctx context.Context, cmd *cobra.Command, id string) (skerry.Sandbox, skerry.Command, error) {
	c, b, err := a.backend(cmd)
	if err != nil {
		return nil, nil, err
	}
	s, err := b.Open(ctx, skerry.Ref{Kind: skerry.RunKind, Org: c.Org, Name: id})
	if err != nil {
		return nil, nil, named("run", id, err, "see skerry runs list")
	}
	command, err := s.Command(ctx, skerry.RunCommandID)
	if err != nil {
		_ = s.Close() // err says what is wrong with the run
		return nil, nil, named("run", id, err, "")
	}
	return s, command, nil
}

// runError adds which run an error is about. A reader that went away is left
// to the exit code.
func runError(id string, err error) error {
	if isBrokenPipe(err) {
		return err
	}
	return named("run", id, err, "")
}

// named adds what an error is about, and a hint where it has none.
func named(what, name string, err error, hint string) error {
	e := skerry.Errorf(skerry.KindOf(err), what+" "+name, "%w", err)
	if o := skerry.OutcomeOf(err); o != skerry.Lost {
		e.Outcome = o
	}
	if e.Hint = skerry.HintOf(err); e.Hint == "" && skerry.KindOf(err) == skerry.NotFound {
		e.Hint = hint
	}
	return e
}

// stamp writes a time the same way everywhere, "" for none.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
