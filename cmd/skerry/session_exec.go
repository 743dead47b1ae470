package main

import (
	"context"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/config"
)

// execOptions is what the flags and words of "skerry session exec" ask for.
type execOptions struct {
	name       string
	words      []string // after the name
	id         string
	dir        string
	create     bool
	creation   createOptions
	background bool
	timeoutSet bool
	env        environmentFlags
	stdin      stdinFlags
	json       bool
	raw        bool
}

func (a *app) sessionExecCommand() *cobra.Command {
	var o execOptions
	cmd := &cobra.Command{
		Use:   "exec [flags] NAME -- SCRIPT | CMD ARGS… | -",
		Short: "Run a command in a session",
		Long: `Run a command in a session and wait for its end. One word after -- is a shell
script, several are a command and its arguments, and - is a script on stdin.

A script starts from the session's state (working directory, exported variables,
functions, aliases, umask, shopt) and publishes its own when it ends. What it
leaves running lives on until the session ends.

Without --timeout a command may take 120s (timeouts.command); with -b there is
no limit, the command's id is printed at once, and skerry session attach, logs
and kill take it from there. The same --id with the same command is the same
command, never a second one.`,
		Example: `  skerry session exec work -- 'cd src && make'
  skerry session exec work -- ls -l "a file"
  skerry session exec work - <script.sh
  skerry session exec -b work -- 'python3 -m http.server'`,
		Annotations: map[string]string{jsonResultAnnotation: "yes"},
		Args:        wantArgs(1, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("id") && o.id == "" {
				return skerry.Errorf(skerry.Invalid, "--id", "it is empty")
			}
			o.name, o.words, o.timeoutSet = args[0], args[1:], cmd.Flags().Changed("timeout")
			if cmd.ArgsLenAtDash() == 0 { // right for a name with a leading dash alone: exec -- -NAME -- SCRIPT
				if len(o.words) == 0 || o.words[0] != "--" {
					return skerry.Errorf(skerry.Invalid, "", "the session's name stands before --").WithHint("skerry session exec NAME -- SCRIPT")
				}
				o.words = o.words[1:]
			}
			c, err := a.config(cmd)
			if err != nil {
				return err
			}
			return a.doExec(cmd.Context(), c, o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.create, "create", false, "make the session when it does not exist; the flags of session create shape it")
	o.creation.flags(f)
	settingFlag(f, "timeout", "timeouts.command", "end the command after this time, from 1ms to timeouts.max (default 120s, with -b none)")
	f.BoolVarP(&o.background, "background", "b", false, "print the command's id and return")
	environmentFlagsOn(f, &o.env)
	stdinFlagsOn(f, &o.stdin)
	f.StringVarP(&o.dir, "workdir", "w", "", "where the command starts (default the session's working directory)")
	f.StringVar(&o.id, "id", "", "the command's id")
	f.BoolVar(&o.json, "json", false, "print one result object, and nothing else, on stdout")
	f.BoolVar(&o.raw, "raw", false, "pass control sequences to the terminal")
	return cmd
}

// spec turns the options into what is asked of the session.
func (o execOptions) spec(c *config.Config, a *app) (skerry.CommandSpec, error) {
	spec := skerry.CommandSpec{ID: o.id, Dir: o.dir, Grace: c.Timeouts.Grace, Background: o.background}
	if spec.ID == "" {
		spec.ID = "cmd-" + randomID()
	}
	if !o.background || o.timeoutSet {
		spec.Timeout = c.Timeouts.Command
	}
	switch {
	case len(o.words) == 0:
		return spec, skerry.Errorf(skerry.Invalid, "", "there is nothing to run").WithHint("skerry session exec NAME -- SCRIPT, or - for a script on stdin")
	case len(o.words) == 1 && o.words[0] == "-":
		script, err := readBounded(a.input, skerry.MaxScriptBytes, "the script on stdin")
		if err != nil {
			return spec, err
		}
		if len(script) == 0 {
			return spec, skerry.Errorf(skerry.Invalid, "", "the script on stdin is empty")
		}
		spec.Script = string(script)
	case len(o.words) == 1:
		if spec.Script = o.words[0]; spec.Script == "" {
			return spec, skerry.Errorf(skerry.Invalid, "", "the script is empty")
		}
	default:
		spec.Argv = o.words
	}
	env, err := o.env.resolve(nil, a.env)
	if err != nil {
		return spec, err
	}
	spec.Env = env
	return spec, spec.Validate()
}

func (a *app) doExec(ctx context.Context, c *config.Config, o execOptions) error {
	spec, err := o.spec(c, a)
	if err != nil {
		return err
	}
	if o.background && (o.stdin != stdinFlags{}) {
		return skerry.Errorf(skerry.Invalid, "-b", "a command that nobody waits for can't read this input").WithHint("copy it in with skerry session cp")
	}
	taken := len(o.words) == 1 && o.words[0] == "-"
	stdin, closeStdin, err := o.stdin.open(a.input, taken)
	if err != nil {
		return err
	}
	defer closeStdin()
	b, err := a.backendOf(c)
	if err != nil {
		return err
	}
	s, created, err := o.open(ctx, c, b, a)
	if err != nil {
		return err
	}
	defer s.Close()
	if o.background {
		return a.startBackground(ctx, s, spec, o)
	}
	exec := skerry.ExecSpec{Command: spec, Stdin: stdin, InlineBytes: int(c.Output.Each)}
	if o.json {
		return a.finish(ctx, skerry.Exec(ctx, s, exec), true, false)
	}
	out, broken := a.newOutput(o.raw), false
	exec.Output = func(chunk skerry.Chunk) error {
		err := out.write(chunk)
		broken = broken || isBrokenPipe(err)
		return err
	}
	r := skerry.Exec(ctx, s, exec)
	out.close()
	if !created {
		// What is not enforced was told when the session was made, and is in
		// every --json; a person need not read it after each command.
		about := s.Info().Warnings
		r.Warnings = slices.DeleteFunc(r.Warnings, func(w string) bool { return slices.Contains(about, w) })
	}
	return a.finish(ctx, r, false, broken)
}

// open finds the session, or makes it when that was asked for. When somebody
// else makes it at the same moment, theirs is used.
func (o execOptions) open(ctx context.Context, c *config.Config, b skerry.Backend, a *app) (s skerry.Sandbox, created bool, err error) {
	ref := sessionRef(c, o.name)
	s, err = openSessionIn(ctx, b, ref)
	if k := skerry.KindOf(err); !o.create || k != skerry.NotFound && k != skerry.Expired {
		return s, false, err
	}
	spec, err := o.creation.spec(c, o.name, a.env)
	if err != nil {
		return nil, false, err
	}
	s, err = b.Create(ctx, spec)
	if skerry.KindOf(err) == skerry.Conflict {
		s, err = openSessionIn(ctx, b, ref)
		return s, false, err
	}
	if err != nil {
		return nil, false, sessionError(o.name, err)
	}
	return s, true, nil
}

// started is what -b --json prints.
type started struct {
	ID      string `json:"id"`
	Session string `json:"session"`
	Org     string `json:"org"`
	Backend string `json:"backend"`
}

func (a *app) startBackground(ctx context.Context, s skerry.Sandbox, spec skerry.CommandSpec, o execOptions) error {
	command, err := s.Start(ctx, spec)
	if err != nil {
		return sessionError(o.name, err)
	}
	info := s.Info()
	if o.json {
		return a.printJSON(started{command.ID(), info.Name, info.OrgOrDefault(), info.Backend})
	}
	_, err = io.WriteString(a.stdout, oneLine(command.ID())+"\n")
	return err
}
