package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/skerry-run/skerry"
)

// commandLine is one command of a session as it is listed.
type commandLine struct {
	ID          string         `json:"id"`
	State       string         `json:"state"`
	Background  bool           `json:"background"`
	Started     string         `json:"started"`
	Outcome     skerry.Outcome `json:"outcome"`
	ExitCode    *int           `json:"exit_code,omitempty"`
	StdoutBytes int64          `json:"stdout_bytes"`
	StderrBytes int64          `json:"stderr_bytes"`
}

type sessionView struct {
	sandboxView
	Usage    skerry.Usage  `json:"usage"`
	Commands []commandLine `json:"commands"`
}

func (a *app) sessionShowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Show a session, what it uses and its commands", Args: wantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			_, s, err := a.openSession(ctx, cmd, args[0])
			if err != nil {
				return err
			}
			defer s.Close()
			v := sessionView{sandboxView: viewOf(s.Info()), Commands: []commandLine{}}
			if v.Usage, err = s.Usage(ctx); err != nil {
				return sessionError(args[0], err)
			}
			infos, err := s.Commands(ctx)
			if err != nil {
				return sessionError(args[0], err)
			}
			for _, i := range infos {
				v.Commands = append(v.Commands, lineOf(i))
			}
			if asJSON {
				return a.printJSON(v)
			}
			return a.table(func(w *tabwriter.Writer) { writeSession(w, v) })
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one object")
	return cmd
}

func lineOf(i skerry.CommandInfo) commandLine {
	l := commandLine{
		ID: i.ID, State: stateRunning, Background: i.Background, Started: stamp(i.Started),
		StdoutBytes: i.Stdout, StderrBytes: i.Stderr,
	}
	if i.Exit != nil {
		l.State, l.Outcome, l.ExitCode = stateEnded, i.Exit.Outcome, i.Exit.ExitCode
	}
	return l
}

func writeSession(w *tabwriter.Writer, v sessionView) {
	fmt.Fprintf(w, "name\t%s\n", oneLine(v.Name))
	fmt.Fprintf(w, "org\t%s\n", oneLine(v.Org))
	fmt.Fprintf(w, "backend\t%s\n", v.Backend)
	fmt.Fprintf(w, "created\t%s\n", v.Created)
	fmt.Fprintf(w, "expires\t%s\n", v.Expires)
	fmt.Fprintf(w, "idle\t%s\n", v.Idle)
	fmt.Fprintf(w, "persistent\t%t\n", v.Persistent)
	fmt.Fprintf(w, "network\t%s\n", v.Network)
	fmt.Fprintf(w, "memory\t%d of %d bytes\n", v.Usage.MemoryBytes, v.Memory)
	fmt.Fprintf(w, "cpu\t%.2f s used, limit %d m\n", v.Usage.CPUSeconds, v.MilliCPU)
	for _, n := range v.Warnings {
		fmt.Fprintf(w, "note\t%s\n", oneLine(n))
	}
	for _, c := range v.Commands {
		end := c.State
		if c.State == stateEnded {
			end = string(c.Outcome)
			if c.ExitCode != nil {
				end = fmt.Sprintf("%s %d", end, *c.ExitCode)
			}
		}
		if c.Background {
			end += ", background"
		}
		fmt.Fprintf(w, "command\t%s\t%s\t%s\n", oneLine(c.ID), c.Started, end)
	}
}
