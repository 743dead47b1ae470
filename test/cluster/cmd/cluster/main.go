//go:build linux

// Command cluster boots and ends a real Kubernetes cluster of one node on this
// machine.
//
//	cluster up       boot it; the last line on stdout sets KUBECONFIG
//	cluster down     end it and remove everything of it
//	cluster status   list its programs
//	cluster logs P   print what program P said; -f goes on
//	cluster import F make the images of an archive known to the node
//
// -name chooses another cluster than the default one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/skerry-run/skerry/test/cluster"
)

const usage = `usage: cluster [-name NAME] up [-metrics] | down | status | logs [-f] PROGRAM | import ARCHIVE

  up      boot the cluster (or find it running) and wait until its node and its
          DNS are ready; -metrics waits for the metrics API as well
  down    end it and remove everything of it
  status  list its programs
  logs    print what one of its programs said; -f goes on until interrupted
  import  make the images of an OCI or Docker archive known to the node
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if errors.Is(err, errUsage) {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "cluster: error: %v\n", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("the arguments are not understood")

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("cluster", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	name := flags.String("name", "", "")
	if err := flags.Parse(args); err != nil || flags.NArg() == 0 {
		return errUsage
	}
	command := flags.Arg(0)
	sub := flag.NewFlagSet(command, flag.ContinueOnError)
	sub.SetOutput(io.Discard)
	metrics, follow := new(bool), new(bool)
	wanted := 0
	switch command {
	case "up":
		metrics = sub.Bool("metrics", false, "")
	case "logs":
		follow = sub.Bool("f", false, "")
		wanted = 1
	case "import":
		wanted = 1
	case "down", "status":
	default:
		return errUsage
	}
	if err := sub.Parse(flags.Args()[1:]); err != nil || sub.NArg() != wanted {
		return errUsage
	}

	switch command {
	case "up":
		return up(ctx, *name, *metrics)
	case "down":
		return cluster.Down(ctx, *name)
	}
	c, err := cluster.Open(*name)
	if err != nil {
		return err
	}
	switch command {
	case "logs":
		return logs(ctx, c, sub.Arg(0), *follow)
	case "import":
		return c.ImportImages(ctx, sub.Arg(0))
	default:
		return status(ctx, c)
	}
}

func up(ctx context.Context, name string, metrics bool) error {
	c, err := cluster.Up(ctx, cluster.Config{Name: name, Log: os.Stderr})
	if err != nil {
		return err
	}
	if metrics {
		if err := c.WaitMetrics(ctx); err != nil {
			return err
		}
	}
	_, err = fmt.Printf("export KUBECONFIG=%s\n", c.Kubeconfig())
	return err
}

func status(ctx context.Context, c *cluster.Cluster) error {
	components, err := c.Keeper().Status(ctx)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PROGRAM\tSTATE\tSINCE\tSTARTS\tLAST END")
	for _, s := range components {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", s.Name, s.State, time.Since(s.Since).Round(time.Second), s.Starts, s.LastExit)
	}
	return w.Flush()
}
