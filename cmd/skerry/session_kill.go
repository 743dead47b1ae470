package main

import "github.com/spf13/cobra"

func (a *app) sessionKillCommand() *cobra.Command {
	var signal string
	cmd := &cobra.Command{
		Use: "kill [-s SIGNAL] NAME CMD", Short: "End a command of a session, or signal it", Args: wantArgs(2, 2),
		Long: "End a command of a session and everything it started: TERM, the grace, KILL. With -s only send that\n" +
			"signal, to the command and everything it started. A command that has ended is no error.",
		RunE: func(cmd *cobra.Command, args []string) error {
			number := 0
			if cmd.Flags().Changed("signal") {
				var err error
				if number, err = parseSignal(signal); err != nil {
					return err
				}
			}
			s, command, err := a.openCommand(cmd, args[0], args[1])
			if err != nil {
				return err
			}
			defer s.Close()
			if number == 0 {
				err = command.Cancel(cmd.Context(), "ended with skerry session kill")
			} else {
				err = command.Signal(cmd.Context(), number, true)
			}
			if err != nil {
				return sessionError(args[0], err)
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&signal, "signal", "s", "", "signal to send, by name or number")
	return cmd
}
