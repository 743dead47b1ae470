package main

import "github.com/spf13/cobra"

func (a *app) runsCancelCommand() *cobra.Command {
	return &cobra.Command{
		Use: "cancel ID", Short: "End a run and wait for its end", Args: wantArgs(1, 1),
		Long: "End a run: TERM, the grace, KILL, for everything it started. A run that has ended is left as it is.",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, command, err := a.openRun(cmd.Context(), cmd, args[0])
			if err != nil {
				return err
			}
			defer s.Close()
			if err := command.Cancel(cmd.Context(), "cancelled with skerry runs cancel"); err != nil {
				return runError(args[0], err)
			}
			return nil
		},
	}
}
