package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/config"
)

// createOptions are the flags that shape a new session.
type createOptions struct {
	persistent bool
	env        environmentFlags
}

func (a *app) sessionCreateCommand() *cobra.Command {
	var o createOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Make a session", Args: wantArgs(1, 1),
		Long: `Make a session: a sandbox that lasts, with the state of a shell. It ends at its
time to live (--ttl), when nothing happens in it for --idle, or with
skerry session rm. A name that exists is refused, and so is one that holds a
colon or a slash: skerry session cp writes NAME:PATH.

A persistent session keeps its workspace and HOME when it ends; the next create
of the same name finds them again.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.config(cmd)
			if err != nil {
				return err
			}
			spec, err := o.spec(c, args[0], a.env)
			if err != nil {
				return err
			}
			b, err := a.backendOf(c)
			if err != nil {
				return err
			}
			info, err := createSession(cmd.Context(), b, spec)
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(viewOf(info))
			}
			for _, w := range info.Warnings {
				a.words.note(w)
			}
			_, err = io.WriteString(a.stdout, oneLine(info.Name)+"\n")
			return err
		},
	}
	o.flags(cmd.Flags())
	environmentFlagsOn(cmd.Flags(), &o.env)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one object")
	return cmd
}

func (o *createOptions) flags(f *pflag.FlagSet) {
	limitFlags(f)
	settingFlag(f, "ttl", "timeouts.ttl", "end the session after this time (default 4h)")
	settingFlag(f, "idle", "timeouts.idle", "end the session when nothing happens in it for this long (default 30m)")
	f.BoolVar(&o.persistent, "persistent", false, "keep the workspace and HOME when the session ends")
}

func (o createOptions) spec(c *config.Config, name string, caller func(string) (string, bool)) (skerry.SandboxSpec, error) {
	spec := sandboxSpec(c, skerry.Language{})
	spec.Kind, spec.Name = skerry.SessionKind, name
	if err := spec.Ref.Validate(); err != nil {
		return skerry.SandboxSpec{}, err
	}
	spec.TTL, spec.Idle, spec.Persistent = c.Timeouts.TTL, c.Timeouts.Idle, o.persistent
	// A session that is past its time is told apart from one that never was.
	spec.Remember = c.Timeouts.Remember
	var err error
	if spec.Env, err = o.env.resolve(c.Env, caller); err != nil {
		return spec, err
	}
	return spec, spec.Validate()
}

func createSession(ctx context.Context, b skerry.Backend, spec skerry.SandboxSpec) (skerry.SandboxInfo, error) {
	s, err := b.Create(ctx, spec)
	if err != nil {
		err = named("session", spec.Name, err, "")
		if skerry.KindOf(err) == skerry.Conflict && skerry.HintOf(err) == "" {
			return skerry.SandboxInfo{}, skerry.Errorf(skerry.Conflict, "", "%w", err).WithHint("use another name, work in it with skerry session exec, or remove it with skerry session rm")
		}
		return skerry.SandboxInfo{}, err
	}
	info := s.Info()
	return info, s.Close()
}
