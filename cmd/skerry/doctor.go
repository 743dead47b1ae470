package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/skerry-run/skerry"
)

type findingView struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Detail string `json:"detail"`
	Remedy string `json:"remedy,omitempty"`
}

type doctorView struct {
	Backend  string        `json:"backend"`
	Failed   bool          `json:"failed"`
	Findings []findingView `json:"findings"`
}

func (a *app) doctorCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "doctor", Short: "Find out whether sandboxes work here, and what is not enforced", Args: wantArgs(0, 0),
		Long: "Find out whether sandboxes work here, and what can't be enforced. The exit code is 0 unless a\n" +
			"finding says that sandboxes can't work; then it is 125.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, b, err := a.backend(cmd)
			if err != nil {
				return err
			}
			report, err := b.Check(cmd.Context())
			if err != nil {
				return named("backend", b.Name(), err, "")
			}
			if err := a.printReport(b.Name(), report, asJSON); err != nil {
				return err
			}
			if report.Failed() {
				return exitCode(exitOurs)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one object")
	return cmd
}

func (a *app) printReport(backend string, report skerry.Report, asJSON bool) error {
	v := doctorView{Backend: backend, Failed: report.Failed(), Findings: []findingView{}}
	for _, f := range report {
		v.Findings = append(v.Findings, findingView{f.Name, string(f.Status), f.Detail, f.Remedy})
	}
	if asJSON {
		return a.printJSON(v)
	}
	return a.table(func(w *tabwriter.Writer) {
		fmt.Fprintf(w, "backend %s\n", backend)
		for _, f := range v.Findings {
			fmt.Fprintf(w, "%s\t%s\t%s\n", f.Status, f.Name, oneLine(f.Detail))
			if f.Remedy != "" {
				fmt.Fprintf(w, "\t\tremedy: %s\n", oneLine(f.Remedy))
			}
		}
		if v.Failed {
			fmt.Fprintln(w, "sandboxes can't work here until what failed is mended")
		}
	})
}
