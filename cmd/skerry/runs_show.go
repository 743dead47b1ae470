package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/skerry-run/skerry"
)

func (a *app) runsShowCommand() *cobra.Command {
	var asJSON bool
	var outputDir string
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show how a run is doing, or how it ended", Args: wantArgs(1, 1),
		Long: "Show how a run is doing, or how it ended. With -o also fetch what it left under output/.\n" +
			"The exit code is 0 when the run was found, however it ended.",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			s, command, err := a.openRun(ctx, cmd, args[0])
			if err != nil {
				return err
			}
			defer s.Close()
			v, err := viewCommand(ctx, s, command, args[0], skerry.DefaultInlineOutputBytes)
			if err != nil {
				return runError(args[0], err)
			}
			if outputDir != "" {
				if err := a.fetchArtifacts(cmd, s, outputDir, &v); err != nil {
					return err
				}
			}
			if asJSON {
				return a.printJSON(v)
			}
			return a.table(func(w *tabwriter.Writer) { writeCommandView(w, v) })
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one object: the result and the state")
	cmd.Flags().StringVarP(&outputDir, "output", "o", "", "folder for what the program left under output/")
	return cmd
}

func (a *app) fetchArtifacts(cmd *cobra.Command, s skerry.Sandbox, dir string, v *commandView) error {
	if v.State != stateEnded {
		return skerry.Errorf(skerry.Conflict, "-o", "the run has not ended yet").WithHint("follow it with skerry runs logs -f %s", v.ID)
	}
	c, err := a.config(cmd)
	if err != nil {
		return err
	}
	dst, err := openArtifacts(dir)
	if err != nil {
		return err
	}
	defer dst.close()
	end := a.progress.begin("fetching artifacts")
	files, warnings, err := skerry.Collect(cmd.Context(), s, skerry.RunSpec{
		Artifact: dst.create, ArtifactBytes: c.Artifacts.Each, ArtifactsBytes: c.Artifacts.Total,
	})
	end()
	if err != nil {
		return runError(v.ID, err)
	}
	v.Files, v.Warnings = files, append(v.Warnings, warnings...)
	return nil
}

func writeCommandView(w *tabwriter.Writer, v commandView) {
	fmt.Fprintf(w, "id\t%s\n", oneLine(v.ID))
	fmt.Fprintf(w, "state\t%s\n", v.State)
	fmt.Fprintf(w, "started\t%s\n", v.Started)
	if v.State == stateEnded {
		fmt.Fprintf(w, "outcome\t%s\n", v.Outcome)
		if v.ExitCode != nil {
			fmt.Fprintf(w, "exit code\t%d\n", *v.ExitCode)
		}
		if v.Signal != 0 {
			fmt.Fprintf(w, "signal\t%d (%s)\n", v.Signal, signalName(v.Signal))
		}
		if v.Reason != "" {
			fmt.Fprintf(w, "reason\t%s\n", oneLine(v.Reason))
		}
		fmt.Fprintf(w, "duration\t%d ms\n", v.DurationMS)
	}
	for _, f := range v.Files {
		fmt.Fprintf(w, "file\t%s (%d bytes)\n", oneLine(f.Path), f.Size)
	}
	for _, n := range v.Warnings {
		fmt.Fprintf(w, "note\t%s\n", oneLine(n))
	}
}
