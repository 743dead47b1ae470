package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/skerry-run/skerry/internal/verify"
)

type verifyView struct {
	Backend string        `json:"backend"`
	Passed  bool          `json:"passed"`
	Probes  []verify.Line `json:"probes"`
}

func (a *app) verifyCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "verify [ATTACK...]", Short: "Attack a sandbox of the backend and tell what stopped each attack", Args: wantArgs(0, -1),
		Long: "Attack a fresh sandbox of the backend, from inside and from beside, and tell for each attack what\n" +
			"was tried and what stopped it. Where nothing there would look like blocked, a control outside\n" +
			"shows that there was something. With names only those attacks are made. The exit code is 0 when\n" +
			"all that could be tested was blocked, else 125; what proves nothing counts as not blocked.",
		RunE: func(cmd *cobra.Command, args []string) error {
			_, b, err := a.backend(cmd)
			if err != nil {
				return err
			}
			cfg := verify.Config{Backend: b, SameHost: b.Name() == "local", Only: args}
			const doing = "attacking a sandbox"
			end := a.progress.begin(doing)
			var each func(verify.Line)
			if !asJSON {
				each = func(l verify.Line) {
					end()
					fmt.Fprintf(a.stdout, "%-10s  %-22s %s\n%-10s  %s\n", l.Status, l.Name, oneLine(l.Tried), "", oneLine(l.Detail))
					end = a.progress.begin(doing)
				}
			}
			lines, err := verify.Run(cmd.Context(), cfg, each)
			end()
			if err != nil {
				return named("backend", b.Name(), err, "")
			}
			passed := verify.Passed(lines)
			if asJSON {
				if err := a.printJSON(verifyView{b.Name(), passed, lines}); err != nil {
					return err
				}
			} else {
				fmt.Fprintln(a.stdout, verifySummary(lines))
			}
			if !passed {
				return exitCode(exitOurs)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one object")
	return cmd
}

func verifySummary(lines []verify.Line) string {
	n := map[verify.Status]int{}
	for _, l := range lines {
		n[l.Status]++
	}
	return fmt.Sprintf("%d blocked, %d open, %d unknown, %d not tested", n[verify.Blocked], n[verify.Open], n[verify.Unknown], n[verify.NotTested])
}
