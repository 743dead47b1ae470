package main

import "github.com/spf13/cobra"

func (a *app) sessionLogsCommand() *cobra.Command {
	var follow, raw bool
	cmd := &cobra.Command{
		Use: "logs [-f] NAME CMD", Short: "Print what a command of a session has written", Args: wantArgs(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, command, err := a.openCommand(cmd, args[0], args[1])
			if err != nil {
				return err
			}
			defer s.Close()
			if err := a.printLogs(cmd.Context(), s, command, follow, raw); err != nil {
				return sessionError(args[0], err)
			}
			return nil
		},
	}
	logsFlags(cmd, &follow, &raw)
	return cmd
}
