package main

import (
	"github.com/spf13/cobra"

	"github.com/skerry-run/skerry"
)

// completeFlags tells the shell the words of flags that have few.
func (a *app) completeFlags(cmd *cobra.Command) {
	for name, words := range map[string]func(*cobra.Command) []string{
		"language": func(cmd *cobra.Command) []string {
			c, err := a.config(cmd)
			if err != nil {
				return nil
			}
			return c.Languages.Names()
		},
		"profile": func(cmd *cobra.Command) []string {
			c, err := a.config(cmd)
			if err != nil {
				return nil
			}
			return c.ProfileNames()
		},
		"backend": func(*cobra.Command) []string { return []string{"local"} },
		"network": func(*cobra.Command) []string { return []string{"deny", "internet", "allow="} },
	} {
		if cmd.Flags().Lookup(name) == nil && cmd.PersistentFlags().Lookup(name) == nil {
			continue
		}
		err := cmd.RegisterFlagCompletionFunc(name, func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return words(cmd), cobra.ShellCompDirectiveNoFileComp
		})
		if err != nil {
			panic(err) // the flag was looked up above
		}
	}
	for _, sub := range cmd.Commands() {
		a.completeFlags(sub)
	}
}

// completeNames tells the shell the names of sandboxes as the first word, or
// as every word.
func (a *app) completeNames(kind skerry.SandboxKind, every bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 && !every {
			return nil, cobra.ShellCompDirectiveDefault
		}
		c, b, err := a.backend(cmd)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		infos, err := b.List(cmd.Context(), skerry.Filter{Kind: kind, Org: c.Org})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []string
		for _, i := range infos {
			names = append(names, oneLine(i.Name))
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
