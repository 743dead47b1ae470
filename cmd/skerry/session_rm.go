package main

import (
	"github.com/spf13/cobra"

	"github.com/skerry-run/skerry"
)

func (a *app) sessionRmCommand() *cobra.Command {
	var purge bool
	cmd := &cobra.Command{
		Use: "rm NAME…", Short: "End sessions and remove them", Args: wantArgs(1, -1),
		Long: "End everything in the sessions and remove them. The files of a persistent session stay unless --purge.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.removeSandboxes(cmd, skerry.SessionKind, args, skerry.DeleteOptions{Purge: purge})
		},
	}
	cmd.Flags().BoolVar(&purge, "purge", false, "also remove the files of a persistent session")
	return cmd
}
