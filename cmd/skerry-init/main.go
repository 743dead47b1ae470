//go:build linux

// Command skerry-init is PID 1 of every sandbox.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/skerry-run/skerry/internal/initd"
	_ "github.com/skerry-run/skerry/internal/keep/early" // a keeper never gets to main
	"github.com/skerry-run/skerry/internal/probe"
	"github.com/skerry-run/skerry/internal/supervise"
)

const exitUsage = 125

const usage = `usage:
  skerry-init serve --config-fd N [--control-fd N] [--listen NAME]
  skerry-init connect NAME
  skerry-init supervise    (started by the local backend only)
  skerry-init probe [ATTACK ARGS...]   (started by skerry verify)
  skerry-init version
`

func main() { os.Exit(run(os.Args[1:], os.Stderr)) }

func run(args []string, stderr io.Writer) int {
	command := ""
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	switch command {
	case "serve":
		return initd.ServeMain(args, stderr)
	case "connect":
		return initd.ConnectMain(args, os.Stdin, os.Stdout, stderr)
	case "supervise":
		return supervise.Main()
	case "probe":
		return probe.Main(args, os.Stdout, stderr)
	case "version":
		fmt.Println(initd.Version)
		return 0
	}
	fmt.Fprint(stderr, usage)
	return exitUsage
}
