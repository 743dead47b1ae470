package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/config"
)

// app is one invocation: where it reads and writes, and what it was made with.
type app struct {
	stdin  io.Reader // the terminal or the file itself
	input  io.Reader // the same, whose reads end when the command is interrupted
	stdout io.Writer
	words  *words // stderr, shared by the program's output and our own lines
	env    func(string) (string, bool)

	// environ are all the variables that env knows; nil is none.
	environ []string

	// openBackend makes the backend that the settings name.
	openBackend func(*config.Config) (skerry.Backend, error)
	isTerminal  func(any) bool

	configPath string
	settings   *config.Config // once they were loaded
	progress   *progress      // nil where nobody would see it

	mu       sync.Mutex
	restores []func() // the terminal's settings, when they were changed
}

func newApp(stdin io.Reader, stdout, stderr io.Writer, env func(string) (string, bool)) *app {
	a := &app{stdin: stdin, stdout: stdout, env: env, openBackend: openBackend, isTerminal: isTerminal}
	a.words = newWords(stderr, isTerminal(stderr))
	return a
}

// isTerminal says whether a reader or writer is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// run does what args say and gives the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	a.input = &interruptible{ctx, a.stdin}
	a.progress = newProgress(a.words)
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.words)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	if code, ok := errors.AsType[exitCode](err); ok {
		return int(code)
	}
	if isBrokenPipe(err) {
		return exitCancelled
	}
	hint := skerry.HintOf(err)
	if hint == "" {
		hint = remedy(err, cmd)
	}
	r := a.resultOfFailure(cmd)
	r.SetError(err)
	r.Outcome, r.Hint = outcomeOfFailure(err), hint
	if context.Cause(ctx) != nil {
		r.Outcome, r.Reason, r.Hint = skerry.Cancelled, "stopped by the caller", ""
	}
	if r.Hint == "" {
		r.Hint = hintFor(r)
	}
	if wantsResult(cmd) && a.printJSON(r) == nil {
		return codeFor(r)
	}
	if r.Outcome == skerry.Cancelled {
		a.words.fail(outcomeLine(r), "")
	} else {
		a.words.fail(err.Error(), r.Hint)
	}
	return codeFor(r)
}

// remedy is the hint for an error that brings none.
func remedy(err error, cmd *cobra.Command) string {
	_, ours := errors.AsType[*skerry.Error](err)
	_, file := errors.AsType[*fs.PathError](err)
	switch {
	case file:
		return "check the path, and that you may use it"
	case !ours && !isSystemError(err), skerry.KindOf(err) == skerry.Invalid:
		return fmt.Sprintf("see %s --help", cmd.CommandPath())
	}
	return ""
}

// resultOfFailure is the result of a command of which nothing came, with what
// is known of it.
func (a *app) resultOfFailure(cmd *cobra.Command) skerry.Result {
	r := emptyResult()
	if !wantsResult(cmd) {
		return r
	}
	if f := cmd.Flags().Lookup("id"); f != nil {
		r.ID = f.Value.String()
	}
	if cmd.Parent().Name() == "session" {
		r.Session = cmd.Flags().Arg(0)
	}
	if a.settings == nil {
		_, _ = a.config(cmd) // what is wrong with the settings is no news here
	}
	if a.settings != nil {
		r.Org, r.Backend = a.settings.Org, a.settings.Backend
	}
	return r
}

// settingAnnotation ties a flag to the setting that it overrides.
const settingAnnotation = "skerry_setting"

// settingFlag adds a flag that overrides a setting.
func settingFlag(flags *pflag.FlagSet, name, key, usage string) {
	flags.String(name, "", usage)
	if err := flags.SetAnnotation(name, settingAnnotation, []string{key}); err != nil {
		panic(err) // the flag was added in the line above
	}
}

// config loads the settings, with the flags of cmd over them.
func (a *app) config(cmd *cobra.Command) (*config.Config, error) {
	o := config.Options{Path: a.configPath, Env: a.env}
	if cmd.Flags().Changed("config") && a.configPath == "" {
		return nil, skerry.Errorf(skerry.Invalid, "--config", "it is empty")
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if key := f.Annotations[settingAnnotation]; len(key) == 1 {
			o.Flags = append(o.Flags, config.Override{Key: key[0], Flag: "--" + f.Name, Value: f.Value.String()})
		}
	})
	c, err := config.Load(o)
	if err == nil {
		a.settings = c
	}
	return c, err
}

// backend loads the settings and makes the backend they name.
func (a *app) backend(cmd *cobra.Command) (*config.Config, skerry.Backend, error) {
	c, err := a.config(cmd)
	if err != nil {
		return nil, nil, err
	}
	b, err := a.backendOf(c)
	return c, b, err
}

func (a *app) backendOf(c *config.Config) (skerry.Backend, error) {
	b, err := a.openBackend(c)
	if err != nil {
		return nil, err
	}
	return &patient{Backend: b, limit: c.Timeouts.Start, progress: a.progress}, nil
}

func (a *app) onRestore(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.restores = append(a.restores, f)
}

// restore gives the terminal back as it was.
func (a *app) restore() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, f := range a.restores {
		f()
	}
	a.restores = nil
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "skerry",
		Short: "Run code that nobody has vetted in isolated sandboxes",
		Long: "Skerry runs code that nobody has vetted in isolated sandboxes: a run in a fresh one\n" +
			"that is gone afterwards, a session in one that lasts.",
		SilenceErrors:              true,
		SilenceUsage:               true,
		SuggestionsMinimumDistance: 2,
		Args:                       unknownCommand,
		PersistentPreRun:           a.noteUnknownVariables,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetHelpFunc(withExitCodes(root.HelpFunc()))
	root.PersistentFlags().StringVar(&a.configPath, "config", "", "configuration file (default $SKERRY_CONFIG, ~/.config/skerry/skerry.yaml, /etc/skerry/skerry.yaml)")
	settingFlag(root.PersistentFlags(), "backend", "backend", "where sandboxes live: local")
	settingFlag(root.PersistentFlags(), "org", "org", "the tenant whose sandboxes these are")
	settingFlag(root.PersistentFlags(), "profile", "profile", "a profile of the configuration")
	root.AddCommand(
		a.runCommand(), a.runsCommand(), a.sessionCommand(),
		a.doctorCommand(), a.verifyCommand(), a.configCommand(), a.versionCommand(),
	)
	a.completeFlags(root)
	root.InitDefaultCompletionCmd()
	return root
}

// withExitCodes adds the exit codes to help. Not by a template: text/template
// in a program keeps every method of every type in it.
func withExitCodes(help func(*cobra.Command, []string)) func(*cobra.Command, []string) {
	return func(cmd *cobra.Command, args []string) {
		help(cmd, args)
		_, _ = io.WriteString(cmd.OutOrStdout(), exitCodesHelp) // a reader that has gone needs no help
	}
}

// noteUnknownVariables tells of variables that look like settings of ours.
func (a *app) noteUnknownVariables(cmd *cobra.Command, _ []string) {
	if name := cmd.Name(); name == cobra.ShellCompRequestCmd || name == cobra.ShellCompNoDescRequestCmd {
		return // somebody is typing
	}
	if text := config.UnknownVariables(a.environ); text != "" {
		a.words.note(text)
	}
}

// unknownCommand refuses a word where a command is wanted, and names the
// nearest ones.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := skerry.Errorf(skerry.Invalid, "", "%q has no command %q", cmd.CommandPath(), args[0])
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return err.WithHint("did you mean %s?", strings.Join(near, " or "))
	}
	return err.WithHint("see %s --help", cmd.CommandPath())
}

// wantArgs refuses fewer words than least, or more than most unless that is
// negative.
func wantArgs(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		what := ""
		switch {
		case len(args) < least:
			what = "something is missing"
		case most >= 0 && len(args) > most:
			what = fmt.Sprintf("%q is one word too many", args[most])
		default:
			return nil
		}
		return skerry.Errorf(skerry.Invalid, "", "%s: want %s", what, cmd.UseLine()).WithHint("see %s --help", cmd.CommandPath())
	}
}

// group is a command that only holds others.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{
		Use: use, Short: short, Args: unknownCommand, SuggestionsMinimumDistance: 2,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return skerry.Errorf(skerry.Invalid, "", "%q needs a command", cmd.CommandPath()).WithHint("see %s --help", cmd.CommandPath())
		},
	}
	g.AddCommand(commands...)
	return g
}
