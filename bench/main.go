//go:build linux

// Command bench measures the speed that Skerry is after, as ratios and
// differences, all in one run on one machine, medians of many. It says for each
// line what the goal is and whether it was met; the exit code is 0 unless
// something could not be measured.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/local"
)

func main() {
	bin := flag.String("bin", "bin", "folder with skerry and skerry-init")
	runs := flag.Int("runs", 1000, "how many runs look for what is left behind")
	only := flag.String("only", "", "measure only this: start, commands, cli, output or leftovers")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := bench(ctx, *bin, *runs, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

// setting is what every measurement has.
type setting struct {
	skerry, init string // paths of the programs
	state        string // the backend's folder
	backend      *local.Backend
	table        *tabwriter.Writer
}

func bench(ctx context.Context, bin string, runs int, only string) error {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "skerry-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o711); err != nil { // sandboxes' users pass through it
		return err
	}
	s := &setting{
		skerry: filepath.Join(bin, "skerry"), init: filepath.Join(bin, "skerry-init"), state: filepath.Join(dir, "state"),
		table: tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0),
	}
	if s.backend, err = local.New(local.Config{StateDir: s.state, Init: s.init}); err != nil {
		return err
	}
	fmt.Fprintln(s.table, "what\tmeasured\tgoal\tverdict")
	defer s.table.Flush()
	for _, m := range []struct {
		name    string
		measure func(context.Context, *setting) error
	}{
		{"start", measureStart},
		{"commands", measureCommands},
		{"cli", measureCLI},
		{"output", measureOutput},
		{"leftovers", func(ctx context.Context, s *setting) error { return measureLeftovers(ctx, s, runs) }},
	} {
		if only != "" && only != m.name {
			continue
		}
		fmt.Fprintf(os.Stderr, "measuring %s …\n", m.name)
		if err := m.measure(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

// row prints one line.
func (s *setting) row(what, measured, goal string, met bool) {
	verdict := "met"
	if !met {
		verdict = "missed"
	}
	fmt.Fprintf(s.table, "%s\t%s\t%s\t%s\n", what, measured, goal, verdict)
}

// session makes a session and gives a function that removes it.
func (s *setting) session(ctx context.Context, name string) (skerry.Sandbox, func(), error) {
	ref := skerry.Ref{Kind: skerry.SessionKind, Name: name}
	box, err := s.backend.Create(ctx, skerry.SandboxSpec{Ref: ref, TTL: 30 * time.Minute})
	if err != nil {
		return nil, nil, err
	}
	return box, func() {
		const grace = 20 * time.Second
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		box.Close()
		_ = s.backend.Delete(ctx, ref, skerry.DeleteOptions{Purge: true})
	}, nil
}
