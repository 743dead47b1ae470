package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/config"
)

func (a *app) sessionExtendCommand() *cobra.Command {
	var ttl string
	cmd := &cobra.Command{
		Use: "extend NAME --ttl TIME", Short: "Set how long a session lives from now", Args: wantArgs(1, 1),
		Long: "Set how long a session lives from now, and print when it will end.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("ttl") {
				return skerry.Errorf(skerry.Invalid, "", "how long is not given").WithHint("skerry session extend %s --ttl 2h", args[0])
			}
			d, err := config.ParseDuration(ttl)
			if err != nil {
				return skerry.Errorf(skerry.Invalid, "--ttl", "%w", err)
			}
			_, s, err := a.openSession(cmd.Context(), cmd, args[0])
			if err != nil {
				return err
			}
			defer s.Close()
			if err := s.Extend(cmd.Context(), d); err != nil {
				return sessionError(args[0], err)
			}
			_, err = io.WriteString(a.stdout, stamp(s.Info().Expires)+"\n")
			return err
		},
	}
	cmd.Flags().StringVar(&ttl, "ttl", "", "time to live from now")
	return cmd
}
