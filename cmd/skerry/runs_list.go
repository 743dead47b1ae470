package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/skerry-run/skerry"
)

// sandboxView is a sandbox as --json prints it.
type sandboxView struct {
	Name       string   `json:"name"`
	Kind       string   `json:"kind"`
	Org        string   `json:"org"`
	Backend    string   `json:"backend"`
	Created    string   `json:"created"`
	Expires    string   `json:"expires"`
	Idle       string   `json:"idle,omitempty"`
	Persistent bool     `json:"persistent"`
	Network    string   `json:"network"`
	Memory     int64    `json:"memory_bytes"`
	MilliCPU   int64    `json:"milli_cpu"`
	PIDs       int64    `json:"pids"`
	Warnings   []string `json:"warnings"`
}

func viewOf(i skerry.SandboxInfo) sandboxView {
	v := sandboxView{
		Name: i.Name, Kind: string(i.Kind), Org: i.OrgOrDefault(), Backend: i.Backend,
		Created: stamp(i.Created), Expires: stamp(i.Expires), Persistent: i.Persistent, Network: i.Network.String(),
		Memory: i.Limits.MemoryBytes, MilliCPU: i.Limits.MilliCPU, PIDs: i.Limits.PIDs,
		Warnings: append([]string{}, i.Warnings...),
	}
	if i.Kind == skerry.SessionKind && i.Idle > 0 {
		v.Idle = i.Idle.String()
	}
	return v
}

func (a *app) runsListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "List the runs that can still be looked at", Args: wantArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.listSandboxes(cmd, skerry.RunKind, asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a list of objects")
	return cmd
}

// listSandboxes prints the sandboxes of one kind that the org has.
func (a *app) listSandboxes(cmd *cobra.Command, kind skerry.SandboxKind, asJSON bool) error {
	c, b, err := a.backend(cmd)
	if err != nil {
		return err
	}
	infos, err := b.List(cmd.Context(), skerry.Filter{Kind: kind, Org: c.Org})
	if err != nil {
		return err
	}
	views := make([]sandboxView, 0, len(infos))
	for _, i := range infos {
		views = append(views, viewOf(i))
	}
	if asJSON {
		return a.printJSON(views)
	}
	if len(views) == 0 && a.isTerminal(a.stdout) {
		a.words.note(fmt.Sprintf("there are no %ss in org %s", kind, c.Org))
	}
	return a.table(func(w *tabwriter.Writer) {
		fmt.Fprintln(w, "NAME\tCREATED\tEXPIRES\tNETWORK\tPERSISTENT")
		for _, v := range views {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%t\n", oneLine(v.Name), v.Created, v.Expires, v.Network, v.Persistent)
		}
	})
}

// table prints aligned columns to stdout.
func (a *app) table(rows func(*tabwriter.Writer)) error {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	rows(w)
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := a.stdout.Write([]byte(b.String()))
	return err
}
