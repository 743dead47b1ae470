package main

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/config"
)

// runOptions is what the flags and words of "skerry run" ask for.
type runOptions struct {
	program   programArgs
	id        string
	inputs    []string
	outputDir string
	env       environmentFlags
	stdin     stdinFlags
	json      bool
	detach    bool
	raw       bool
}

func (a *app) runCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run [flags] FILE [ARGS…] | -c CODE [ARGS…] | - [ARGS…] | -- CMD [ARGS…]",
		Short: "Run a program in a fresh sandbox that is gone afterwards",
		Long: `Run one program in a fresh sandbox that is removed when the program ends.

The program is the code in FILE, the code after -c, the code on stdin (-), or a
command of the sandbox (after --). The language is named by -l, or told from the
ending of FILE or the code's first line. Flags stand before FILE: what follows
it belongs to the program.

What the program writes to stdout and stderr goes to stdout and stderr as it is
written. To a pipe or a file it is exact; to a terminal only text and colours
pass, any other control sequence is shown instead of obeyed (--raw passes it).

Files sent with -f land in the workspace, where the program starts: SRC under its
base name, SRC:DEST at DEST. The last colon separates; a SRC with a colon in its
name is written with one more at its end ("a:b:"). A folder lands with all files
below it. What the program leaves under output/ is put into the folder of -o.

The program sees no variable of this environment unless -e names it. In the file
of --env-file each line is NAME=value, taken as it stands; blank lines and lines
that start with # are skipped.`,
		Example: `  skerry run hello.py
  skerry run -l bash -c 'echo $((6*7))'
  skerry run -f data.csv -o results plot.py data.csv
  skerry run --timeout 10s --memory 1Gi -- python3 -m timeit 1+1`,
		Annotations: map[string]string{jsonResultAnnotation: "yes"},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.program.hasCode = cmd.Flags().Changed("code")
			o.program.args, o.program.dash = args, cmd.ArgsLenAtDash()
			if cmd.Flags().Changed("id") && o.id == "" {
				return skerry.Errorf(skerry.Invalid, "--id", "it is empty")
			}
			c, err := a.config(cmd)
			if err != nil {
				return err
			}
			return a.doRun(cmd.Context(), c, o)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false)
	f.StringVarP(&o.program.language, "language", "l", "", "python, bash, node, or one of the configuration; aliases work (py, sh, js)")
	f.StringVarP(&o.program.code, "code", "c", "", "the code itself")
	limitFlags(f)
	settingFlag(f, "timeout", "timeouts.run", "end the program after this time, from 1ms to timeouts.max, within timeouts.max_ttl (default 60s)")
	f.StringArrayVarP(&o.inputs, "file", "f", nil, "send a file or folder: SRC or SRC:DEST (repeatable)")
	f.StringVarP(&o.outputDir, "output", "o", "", "folder for what the program leaves under output/")
	environmentFlagsOn(f, &o.env)
	stdinFlagsOn(f, &o.stdin)
	f.StringVarP(&o.program.dir, "workdir", "w", "", "where the program starts, relative to the workspace")
	f.BoolVar(&o.json, "json", false, "print one result object, and nothing else, on stdout")
	f.StringVar(&o.id, "id", "", "the run's id: the same id and program again is the same run, never a second one")
	f.BoolVar(&o.detach, "detach", false, "print the run's id and return; see skerry runs")
	f.BoolVar(&o.raw, "raw", false, "pass control sequences to the terminal")
	return cmd
}

// limitFlags are the limits that a run and a session share.
func limitFlags(f *pflag.FlagSet) {
	settingFlag(f, "image", "image", "image of the sandbox, for backends with images")
	settingFlag(f, "memory", "limits.memory", "memory limit: 512Mi, 1Gi, 500M (default 512Mi)")
	settingFlag(f, "cpu", "limits.cpu", "cores: 0.5, 500m, 2 (default 1)")
	settingFlag(f, "pids", "limits.pids", "processes and threads (default 256)")
	settingFlag(f, "workspace", "limits.workspace", "size of the workspace (default 1Gi)")
	settingFlag(f, "network", "network", "deny, internet or allow=CIDR[:PORT],… (default deny)")
}

func environmentFlagsOn(f *pflag.FlagSet, e *environmentFlags) {
	f.StringArrayVarP(&e.pairs, "env", "e", nil, "a variable: K=V, or K for its value here (repeatable)")
	f.StringVar(&e.file, "env-file", "", "file of NAME=value lines")
}

// stdinFlags say where the program's standard input comes from; neither is no
// input at all.
type stdinFlags struct {
	file        string
	interactive bool
}

func stdinFlagsOn(f *pflag.FlagSet, s *stdinFlags) {
	f.StringVar(&s.file, "stdin", "", "file that the program reads as its standard input")
	f.BoolVarP(&s.interactive, "interactive", "i", false, "pass this standard input to the program")
}

// open gives the program's input, nil for none. taken says that stdin is used
// already, for the code.
func (s stdinFlags) open(stdin io.Reader, taken bool) (io.Reader, func(), error) {
	switch {
	case s.file != "" && s.interactive:
		return nil, nil, skerry.Errorf(skerry.Invalid, "stdin", "--stdin and -i were both given")
	case s.file == "-" || s.interactive:
		if taken {
			return nil, nil, skerry.Errorf(skerry.Invalid, "stdin", "it is the code already").WithHint("put the code into a file, or the input")
		}
		return stdin, func() {}, nil
	case s.file != "":
		f, err := os.Open(s.file)
		if err != nil {
			return nil, nil, skerry.Errorf(skerry.Invalid, "--stdin", "%w", err)
		}
		if info, err := f.Stat(); err == nil && info.IsDir() {
			f.Close()
			return nil, nil, skerry.Errorf(skerry.Invalid, "--stdin", "%s is a folder", s.file)
		}
		return f, func() { f.Close() }, nil
	}
	return nil, func() {}, nil
}

// spec turns the options into what is asked of the backend. Everything that
// can be wrong is found here, before anything is made.
func (o runOptions) spec(c *config.Config, a *app) (spec skerry.RunSpec, notes []string, err error) {
	p, err := resolveProgram(o.program, c.Languages, a.input)
	if err != nil {
		return spec, nil, err
	}
	env, err := o.env.resolve(c.Env, a.env)
	if err != nil {
		return spec, nil, err
	}
	inputs, notes, err := resolveInputs(o.inputs, c.Inputs.Total)
	if err != nil {
		return spec, nil, err
	}
	spec = skerry.RunSpec{
		Sandbox: sandboxSpec(c, p.language),
		Command: skerry.CommandSpec{
			ID: skerry.RunCommandID, Argv: p.argv, Dir: o.program.dir, Env: env, Files: p.files,
			Timeout: c.Timeouts.Run, Grace: c.Timeouts.Grace, Missing: p.missingHint(),
		},
		Language:      p.language.Name,
		Inputs:        inputs,
		InlineBytes:   int(c.Output.Each),
		ArtifactBytes: c.Artifacts.Each, ArtifactsBytes: c.Artifacts.Total, InputsBytes: c.Inputs.Total,
	}
	spec.Sandbox.Kind, spec.Sandbox.Name = skerry.RunKind, o.id
	if o.id == "" {
		spec.Sandbox.Name = "run-" + randomID()
	} else {
		spec.Sandbox.Remember = c.Timeouts.Remember
	}
	if o.detach {
		spec.Sandbox.Detached, spec.Sandbox.Retention = true, c.Timeouts.Retention
	}
	if err := spec.Sandbox.Validate(); err != nil {
		return spec, nil, err
	}
	return spec, notes, spec.Command.Validate()
}

// sandboxSpec is what the settings say about any sandbox.
func sandboxSpec(c *config.Config, l skerry.Language) skerry.SandboxSpec {
	spec := skerry.SandboxSpec{
		Ref: skerry.Ref{Org: c.Org}, Profile: c.Profile, Limits: c.Limits, Network: c.Network,
	}
	// A local sandbox has no image. One that the settings name for other
	// backends is no reason to refuse the run, one that the caller asks for is.
	if c.Backend != "local" || c.ImageAsked() {
		spec.Image = c.ImageFor(l)
	}
	return spec
}

func (a *app) doRun(ctx context.Context, c *config.Config, o runOptions) error {
	spec, notes, err := o.spec(c, a)
	if err != nil {
		return err
	}
	if o.detach {
		if err := o.checkDetach(); err != nil {
			return err
		}
	}
	b, err := a.backendOf(c)
	if err != nil {
		return err
	}
	if !o.json {
		for _, n := range notes {
			a.words.note(n)
		}
	}
	spec.Sandbox.Progress = a.progress.phase
	defer a.progress.endPhase()
	if o.detach {
		return a.doDetach(ctx, b, spec, o)
	}
	taken := !o.program.hasCode && o.program.dash != 0 && len(o.program.args) > 0 && o.program.args[0] == "-"
	stdin, closeStdin, err := o.stdin.open(a.input, taken)
	if err != nil {
		return err
	}
	defer closeStdin()
	spec.Stdin = stdin
	if o.outputDir != "" {
		dst, err := openArtifacts(o.outputDir)
		if err != nil {
			return err
		}
		defer dst.close()
		spec.Artifact = dst.create
	}
	broken := false
	if !o.json {
		out := a.newOutput(o.raw)
		spec.Output = func(chunk skerry.Chunk) error {
			err := out.write(chunk)
			broken = broken || isBrokenPipe(err)
			return err
		}
		r := skerry.Run(ctx, b, spec)
		a.progress.endPhase()
		out.close()
		return a.finish(ctx, r, false, broken)
	}
	r := skerry.Run(ctx, b, spec)
	a.progress.endPhase()
	r.Warnings = append(r.Warnings, notes...)
	return a.finish(ctx, r, true, false)
}

// detached is what --detach --json prints.
type detached struct {
	ID      string `json:"id"`
	Org     string `json:"org"`
	Backend string `json:"backend"`
	Expires string `json:"expires"`
}

// checkDetach refuses what only somebody who waits can do.
func (o runOptions) checkDetach() error {
	switch {
	case o.outputDir != "":
		return skerry.Errorf(skerry.Invalid, "--detach", "-o needs somebody who waits for the files").WithHint("fetch them later: skerry runs show -o DIR ID")
	case o.stdin != stdinFlags{}:
		return skerry.Errorf(skerry.Invalid, "--detach", "a run that nobody waits for can't read this input").WithHint("send it as a file with -f")
	}
	return nil
}

func (a *app) doDetach(ctx context.Context, b skerry.Backend, spec skerry.RunSpec, o runOptions) error {
	info, err := skerry.Detach(ctx, b, spec)
	a.progress.endPhase()
	if err != nil {
		return runError(spec.Sandbox.Name, err)
	}
	if o.json {
		return a.printJSON(detached{info.Name, info.OrgOrDefault(), info.Backend, stamp(info.Expires)})
	}
	for _, w := range info.Warnings {
		a.words.note(w)
	}
	_, err = io.WriteString(a.stdout, info.Name+"\n")
	return err
}
