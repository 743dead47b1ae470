package main

import (
	"github.com/spf13/cobra"

	"github.com/skerry-run/skerry"
)

func (a *app) sessionListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "List the sessions", Args: wantArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.listSandboxes(cmd, skerry.SessionKind, asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a list of objects")
	return cmd
}
