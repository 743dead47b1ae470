package main

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/skerry-run/skerry"
)

func (a *app) sessionShellCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "shell NAME [-- CMD ARGS…]", Short: "Open a terminal in a session", Args: wantArgs(1, -1),
		Long: `Open a terminal in a session, with bash or the given command. It ends with the
command's exit code; when this program is ended, so is the command.

A terminal passes what the program writes as it is: control sequences act on
this terminal. Of this environment only TERM is passed.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			in, ok := a.stdin.(*os.File)
			if !ok || !a.isTerminal(a.stdin) {
				return skerry.Errorf(skerry.Invalid, "session "+args[0], "stdin is not a terminal").WithHint("use skerry session exec %s -- SCRIPT", args[0])
			}
			argv := args[1:]
			if len(argv) == 0 {
				argv = []string{"bash", "-i"}
			}
			_, s, err := a.openSession(cmd.Context(), cmd, args[0])
			if err != nil {
				return err
			}
			defer s.Close()
			return a.shell(cmd.Context(), s, in, argv)
		},
	}
	return cmd
}

func (a *app) shell(ctx context.Context, s skerry.Sandbox, in *os.File, argv []string) error {
	fd := int(in.Fd())
	spec := skerry.CommandSpec{ID: "shell-" + randomID(), Argv: argv, TTY: new(terminalSize(fd)), Env: map[string]string{"TERM": "xterm"}}
	if t, ok := a.env("TERM"); ok && t != "" {
		spec.Env["TERM"] = t
	}
	if err := spec.Validate(); err != nil {
		return err
	}
	name := s.Info().Name
	command, err := s.Start(ctx, spec)
	if err != nil {
		return sessionError(name, err)
	}
	state, err := term.MakeRaw(fd)
	if err != nil {
		return sessionError(name, err)
	}
	a.onRestore(func() { _ = term.Restore(fd, state) })
	defer a.restore()
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	stopResize := watchResize(func() {
		_ = command.Resize(inner, terminalSize(fd)) // the next change will tell the size again
	})
	defer stopResize()
	stdin, err := command.Stdin(inner)
	if err != nil {
		return sessionError(name, err)
	}
	// The copy ends with the process: a read of the terminal can't be undone.
	go func() { _, _ = io.Copy(stdin, in) }()
	err = command.Output(inner, skerry.Offsets{}, func(c skerry.Chunk) error {
		_, err := a.stdout.Write(c.Data)
		return err
	})
	if err != nil {
		ending, done := context.WithTimeout(context.WithoutCancel(ctx), cancelPatience)
		defer done()
		_ = command.Cancel(ending, "the terminal has gone") // err tells what happened
		a.restore()
		if context.Cause(ctx) != nil {
			return exitCode(exitCancelled)
		}
		return sessionError(name, err)
	}
	exit, err := command.Wait(ctx)
	a.restore()
	if err != nil {
		return sessionError(name, err)
	}
	return a.finish(ctx, skerry.ResultOf(s.Info(), command.ID(), exit, nil, nil), false, false)
}

func terminalSize(fd int) skerry.TerminalSize {
	cols, rows, err := term.GetSize(fd)
	if err != nil || cols <= 0 || rows <= 0 || cols > 0xffff || rows > 0xffff {
		return skerry.TerminalSize{}
	}
	return skerry.TerminalSize{Cols: uint16(cols), Rows: uint16(rows)}
}
