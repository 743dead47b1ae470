package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/skerry-run/skerry"
)

func (a *app) runsRmCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rm ID…", Short: "End runs and remove what is left of them", Args: wantArgs(1, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.removeSandboxes(cmd, skerry.RunKind, args, skerry.DeleteOptions{})
		},
	}
}

// removeSandboxes removes all that are named. One that can't be removed does
// not keep the others.
func (a *app) removeSandboxes(cmd *cobra.Command, kind skerry.SandboxKind, names []string, opts skerry.DeleteOptions) error {
	c, b, err := a.backend(cmd)
	if err != nil {
		return err
	}
	failed := false
	for _, name := range names {
		ref := skerry.Ref{Kind: kind, Org: c.Org, Name: name}
		err := ref.Validate()
		if err == nil && kind == skerry.RunKind {
			opts.Ended = endOf(cmd.Context(), b, ref)
		}
		if err == nil {
			err = b.Delete(cmd.Context(), ref, opts)
		}
		if err != nil {
			hint := "see skerry runs list"
			if kind == skerry.SessionKind {
				hint = "see skerry session list"
			}
			err = named(string(kind), name, err, hint)
			a.words.fail(err.Error(), skerry.HintOf(err))
			failed = true
		}
	}
	if failed {
		return exitCode(exitOurs)
	}
	return nil
}

// endOf gives how a run ended, for the note that stays of it; nil when it has
// not ended or can't be asked.
func endOf(ctx context.Context, b skerry.Backend, ref skerry.Ref) *skerry.Exit {
	s, err := b.Open(ctx, ref)
	if err != nil {
		return nil
	}
	defer s.Close()
	info, err := commandInfo(ctx, s, skerry.RunCommandID)
	if err != nil {
		return nil
	}
	return info.Exit
}
