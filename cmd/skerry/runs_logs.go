package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/skerry-run/skerry"
)

func (a *app) runsLogsCommand() *cobra.Command {
	var follow, raw bool
	cmd := &cobra.Command{
		Use: "logs [-f] ID", Short: "Print what a run has written", Args: wantArgs(1, 1),
		Long: "Print what a run has written so far, or with -f until it ends. Leaving off does not end the run.",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, command, err := a.openRun(cmd.Context(), cmd, args[0])
			if err != nil {
				return err
			}
			defer s.Close()
			if err := a.printLogs(cmd.Context(), s, command, follow, raw); err != nil {
				return runError(args[0], err)
			}
			return nil
		},
	}
	logsFlags(cmd, &follow, &raw)
	return cmd
}

func logsFlags(cmd *cobra.Command, follow, raw *bool) {
	cmd.Flags().BoolVarP(follow, "follow", "f", false, "go on until it ends")
	cmd.Flags().BoolVar(raw, "raw", false, "pass control sequences to the terminal")
}

// printLogs prints a command's output from its beginning.
func (a *app) printLogs(ctx context.Context, s skerry.Sandbox, c skerry.Command, follow, raw bool) error {
	out := a.newOutput(raw)
	defer out.close()
	if follow {
		return c.Output(ctx, skerry.Offsets{}, out.write)
	}
	info, err := commandInfo(ctx, s, c.ID())
	if err != nil {
		return err
	}
	return readSoFar(ctx, c, info, out.write)
}
