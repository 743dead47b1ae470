package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/config"
)

func (a *app) sessionCommand() *cobra.Command {
	cmd := group("session", "Work in a sandbox that lasts",
		a.sessionCreateCommand(), a.sessionExecCommand(), a.sessionListCommand(), a.sessionShowCommand(),
		a.sessionShellCommand(), a.sessionAttachCommand(), a.sessionLogsCommand(), a.sessionKillCommand(),
		a.sessionCpCommand(), a.sessionLsCommand(), a.sessionExtendCommand(), a.sessionRmCommand())
	cmd.Aliases = []string{"sessions"}
	for _, c := range cmd.Commands() {
		if c.Name() != "create" && c.Name() != "list" && c.Name() != "cp" {
			c.ValidArgsFunction = a.completeNames(skerry.SessionKind, c.Name() == "rm")
		}
	}
	return cmd
}

func sessionRef(c *config.Config, name string) skerry.Ref {
	return skerry.Ref{Kind: skerry.SessionKind, Org: c.Org, Name: name}
}

// openSession finds a session by its name. Its errors name it.
func (a *app) openSession(ctx context.Context, cmd *cobra.Command, name string) (*config.Config, skerry.Sandbox, error) {
	c, b, err := a.backend(cmd)
	if err != nil {
		return nil, nil, err
	}
	s, err := openSessionIn(ctx, b, sessionRef(c, name))
	return c, s, err
}

func openSessionIn(ctx context.Context, b skerry.Backend, ref skerry.Ref) (skerry.Sandbox, error) {
	if err := ref.Validate(); err != nil {
		return nil, err
	}
	s, err := b.Open(ctx, ref)
	if err != nil {
		return nil, named("session", ref.Name, err, "make it with skerry session create, or see skerry session list")
	}
	return s, nil
}

// sessionError adds which session an error is about. A reader that went away
// is left to the exit code.
func sessionError(name string, err error) error {
	if isBrokenPipe(err) {
		return err
	}
	return named("session", name, err, "")
}

// openCommand finds a command of a session.
func (a *app) openCommand(cmd *cobra.Command, name, id string) (skerry.Sandbox, skerry.Command, error) {
	ctx := cmd.Context()
	_, s, err := a.openSession(ctx, cmd, name)
	if err != nil {
		return nil, nil, err
	}
	command, err := s.Command(ctx, id)
	if err != nil {
		_ = s.Close() // err says what is wrong with the command
		if skerry.HintOf(err) == "" && skerry.KindOf(err) == skerry.NotFound {
			err = skerry.Errorf(skerry.NotFound, "command "+id, "%w", err).WithHint("see skerry session show %s", name)
		}
		return nil, nil, sessionError(name, err)
	}
	return s, command, nil
}

// sessionPath is NAME:PATH. The name ends at the first colon; a word with a
// slash before its first colon, or without a colon, is a path of this machine,
// and so is a drive letter of Windows.
type sessionPath struct {
	session string // "" for a path of this machine
	path    string
}

func parseSessionPath(s, goos string) sessionPath {
	i := strings.IndexByte(s, ':')
	if i <= 0 || strings.ContainsAny(s[:i], `/\`) || isDriveColon(s, i, goos) {
		return sessionPath{path: s}
	}
	return sessionPath{session: s[:i], path: s[i+1:]}
}
