package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/skerry-run/skerry"
)

func (a *app) sessionAttachCommand() *cobra.Command {
	var raw bool
	cmd := &cobra.Command{
		Use: "attach NAME CMD", Short: "Follow a command of a session to its end", Args: wantArgs(2, 2),
		Long: "Print what a command of a session has written, from its beginning, and what it writes until it ends;\n" +
			"then end with its exit code. Leaving off (Ctrl-C) does not end the command.",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			s, command, err := a.openCommand(cmd, args[0], args[1])
			if err != nil {
				return err
			}
			defer s.Close()
			err = a.printLogs(ctx, s, command, true, raw)
			if err == nil {
				return a.finishCommand(ctx, s, command)
			}
			if context.Cause(ctx) != nil {
				a.words.note("left off; the command goes on")
				return exitCode(exitCancelled)
			}
			return sessionError(args[0], err)
		},
	}
	cmd.Flags().BoolVar(&raw, "raw", false, "pass control sequences to the terminal")
	return cmd
}

// finishCommand tells how a command ended whose output has been printed.
func (a *app) finishCommand(ctx context.Context, s skerry.Sandbox, c skerry.Command) error {
	exit, err := c.Wait(ctx)
	if err != nil {
		return sessionError(s.Info().Name, err)
	}
	return a.finish(ctx, skerry.ResultOf(s.Info(), c.ID(), exit, nil, nil), false, false)
}
