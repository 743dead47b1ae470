package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/skerry-run/skerry/internal/config"
)

type configView struct {
	File     string           `json:"file"`
	Settings []config.Setting `json:"settings"`
}

func (a *app) configCommand() *cobra.Command {
	return group("config", "Look at the settings", a.configShowCommand())
}

func (a *app) configShowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "show", Short: "Print every setting in force and where it comes from", Args: wantArgs(0, 0),
		Long: `Print every setting in force and where it comes from: built-in, a line of the
configuration file, a variable of the environment, or a flag. The later wins:
built-in, file, profile, environment (TERMINAL_* below SKERRY_*), flags.

TERMINAL_ENV is read as SKERRY_BACKEND, TERMINAL_TIMEOUT as
SKERRY_COMMAND_TIMEOUT, and TERMINAL_LIFETIME_SECONDS as SKERRY_IDLE.

The values of environment variables that a profile sets are not shown.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.config(cmd)
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(configView{c.File(), c.Settings()})
			}
			return a.table(func(w *tabwriter.Writer) {
				file := c.File()
				if file == "" {
					file = "none was found"
				}
				fmt.Fprintf(w, "# configuration file: %s\n", oneLine(file))
				fmt.Fprintln(w, "SETTING\tVALUE\tSOURCE\tABOUT")
				for _, s := range c.Settings() {
					value := s.Value
					if value == "" {
						value = "-"
					}
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", s.Key, oneLine(value), oneLine(s.Source), s.About)
				}
			})
		},
	}
	limitFlags(cmd.Flags())
	settingFlag(cmd.Flags(), "timeout", "timeouts.run", "a run's time limit")
	settingFlag(cmd.Flags(), "ttl", "timeouts.ttl", "a session's time to live")
	settingFlag(cmd.Flags(), "idle", "timeouts.idle", "a session's idle time")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one object")
	return cmd
}
