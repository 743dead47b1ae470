package sandboxtest

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/skerry-run/skerry"
)

// box is a sandbox inside one test: its helpers end the test when they can't
// do what they are for.
type box struct {
	skerry.Sandbox
	t     *testing.T
	ctx   context.Context
	suite *suite
	ref   skerry.Ref
}

// on gives the same sandbox for a subtest.
func (b *box) on(t *testing.T) *box {
	c := *b
	c.t, c.ctx = t, b.suite.context(t)
	return &c
}

// done is a command that has ended, with all that it wrote.
type done struct {
	t        *testing.T
	what     string
	out, err string
	exit     skerry.Exit
	omitted  int64
}

// script makes the spec of a shell script.
func script(text string) skerry.CommandSpec { return skerry.CommandSpec{Script: text} }

// argv makes the spec of a program.
func argv(words ...string) skerry.CommandSpec { return skerry.CommandSpec{Argv: words} }

// start starts a command; an empty id becomes a new one.
func (b *box) start(spec skerry.CommandSpec) skerry.Command {
	b.t.Helper()
	if spec.ID == "" {
		spec.ID = b.suite.name("command")
	}
	c, err := b.Start(b.ctx, spec)
	if err != nil {
		b.t.Fatalf("start %s: %v (kind %s, outcome %s)", shown(spec), err, skerry.KindOf(err), skerry.OutcomeOf(err))
	}
	return c
}

// do runs a command to its end and takes all of its output.
func (b *box) do(spec skerry.CommandSpec) done {
	b.t.Helper()
	return b.finish(b.start(spec), shown(spec))
}

// sh runs a script to its end.
func (b *box) sh(text string) done {
	b.t.Helper()
	return b.do(script(text))
}

// finish takes a command's output to its end, and its exit.
func (b *box) finish(c skerry.Command, what string) done {
	b.t.Helper()
	d := b.collect(c, skerry.Offsets{}, what)
	exit, err := c.Wait(b.ctx)
	if err != nil {
		b.t.Fatalf("wait for %s: %v", what, err)
	}
	d.exit = exit
	checkExit(b.t, what, exit)
	return d
}

// collect takes a command's output from the offsets on to its end, and checks
// that the offsets of what comes have no hole and no double.
func (b *box) collect(c skerry.Command, from skerry.Offsets, what string) done {
	b.t.Helper()
	d := done{t: b.t, what: what}
	var out, errs bytes.Buffer
	next := map[skerry.Stream]int64{skerry.Stdout: from.Stdout, skerry.Stderr: from.Stderr}
	err := c.Output(b.ctx, from, func(chunk skerry.Chunk) error {
		if want := next[chunk.Stream] + chunk.Omitted; chunk.Offset != want {
			b.t.Errorf("output of %s: a chunk of %s at offset %d with %d omitted, want offset %d", what, chunk.Stream, chunk.Offset, chunk.Omitted, want)
		}
		next[chunk.Stream] = chunk.Offset + int64(len(chunk.Data))
		d.omitted += chunk.Omitted
		switch chunk.Stream {
		case skerry.Stdout:
			out.Write(chunk.Data)
		case skerry.Stderr:
			errs.Write(chunk.Data)
		default:
			b.t.Errorf("output of %s: a chunk of %v", what, chunk.Stream)
		}
		return nil
	})
	if err != nil {
		b.t.Fatalf("output of %s: %v", what, err)
	}
	d.out, d.err = out.String(), errs.String()
	return d
}

// wait waits for a command's end.
func (b *box) wait(c skerry.Command) skerry.Exit {
	b.t.Helper()
	exit, err := c.Wait(b.ctx)
	if err != nil {
		b.t.Fatalf("wait for %s: %v", c.ID(), err)
	}
	checkExit(b.t, c.ID(), exit)
	return exit
}

// until calls look every little while until it gives true. It is for what only
// the sandbox can see; nothing here depends on how long it takes.
func (b *box) until(what string, look func() bool) {
	b.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !look() {
		select {
		case <-b.ctx.Done():
			b.t.Fatalf("waiting until %s: %v", what, context.Cause(b.ctx))
		case <-tick.C:
		}
	}
}

// hasFile says whether a file is there.
func (b *box) hasFile(path string) bool {
	_, err := b.Files().Stat(b.ctx, path)
	return err == nil
}

// write puts text in a file.
func (b *box) write(path, text string) skerry.FileInfo {
	b.t.Helper()
	info, err := b.Files().Write(b.ctx, path, strings.NewReader(text), skerry.WriteOptions{})
	if err != nil {
		b.t.Fatalf("write %q: %v", path, err)
	}
	return info
}

// read gives the text of a file.
func (b *box) read(path string) string {
	b.t.Helper()
	var w bytes.Buffer
	if _, err := b.Files().Read(b.ctx, path, 0, -1, &w); err != nil {
		b.t.Fatalf("read %q: %v", path, err)
	}
	return w.String()
}

// needProgram skips the test where the sandbox lacks a program.
func (b *box) needProgram(name string) {
	b.t.Helper()
	if d := b.sh("command -v " + name); d.exit.ExitCode == nil || *d.exit.ExitCode != 0 {
		b.t.Skipf("the sandbox has no %s", name)
	}
}

// processes counts the processes whose command line starts with prefix.
func (b *box) processes(prefix string) string {
	b.t.Helper()
	// The pattern is matched by the shell itself, so no process of the count
	// holds the prefix at the start of its own command line.
	d := b.do(argv("bash", "-c", `n=0; for p in /proc/[0-9]*; do c=$(tr '\0' ' ' <$p/cmdline 2>/dev/null) || continue; case $c in "$1"*) n=$((n+1));; esac; done; echo $n`, "count", prefix))
	return strings.TrimSpace(d.want(0).out)
}

// want checks that the command exited with code.
func (d done) want(code int) done {
	d.t.Helper()
	if d.exit.Outcome != skerry.Exited || d.exit.ExitCode == nil || *d.exit.ExitCode != code {
		d.t.Fatalf("%s: %s, want exit code %d\nstdout: %.2000q\nstderr: %.2000q", d.what, exitText(d.exit), code, d.out, d.err)
	}
	return d
}

// wantOut checks that the command exited with 0 and wrote exactly out.
func (d done) wantOut(out string) done {
	d.t.Helper()
	d.want(0)
	if d.out != out {
		d.t.Fatalf("%s: stdout %.2000q, want %.2000q (stderr %.500q)", d.what, d.out, out, d.err)
	}
	return d
}

// wantOutcome checks how the command ended.
func (d done) wantOutcome(o skerry.Outcome) done {
	d.t.Helper()
	if d.exit.Outcome != o {
		d.t.Fatalf("%s: %s, want outcome %s\nstdout: %.2000q\nstderr: %.2000q", d.what, exitText(d.exit), o, d.out, d.err)
	}
	return d
}

// checkExit checks what holds for every end of a command.
func checkExit(t *testing.T, what string, e skerry.Exit) {
	t.Helper()
	if !e.Outcome.Valid() {
		t.Errorf("%s: outcome %q is none", what, e.Outcome)
	}
	if timeout := e.Outcome == skerry.Timeout; timeout && !e.Limit.Valid() || !timeout && e.Limit != "" {
		t.Errorf("%s: outcome %q by the limit %q", what, e.Outcome, e.Limit)
	}
	if (e.ExitCode != nil) != (e.Outcome == skerry.Exited) { // B038
		t.Errorf("%s: outcome %s with exit code %v; a code belongs to exited, and to nothing else", what, e.Outcome, e.ExitCode)
	}
	if e.ExitCode != nil && (*e.ExitCode < 0 || *e.ExitCode > 255) {
		t.Errorf("%s: exit code %d", what, *e.ExitCode)
	}
	if (e.Signal != 0) != (e.Outcome == skerry.Signaled) {
		t.Errorf("%s: outcome %s with signal %d", what, e.Outcome, e.Signal)
	}
	if e.Duration < 0 {
		t.Errorf("%s: duration %v", what, e.Duration)
	}
	if e.Reason == "" && e.Outcome != skerry.Exited && e.Outcome != skerry.Signaled {
		t.Errorf("%s: outcome %s without a reason", what, e.Outcome)
	}
}

// wantKind checks the kind of an error.
func wantKind(t *testing.T, what string, err error, kinds ...skerry.Kind) {
	t.Helper()
	got := skerry.KindOf(err)
	for _, k := range kinds {
		if got == k {
			if _, typed := errors.AsType[*skerry.Error](err); !typed {
				t.Errorf("%s: %v carries no kind", what, err)
			}
			return
		}
	}
	t.Fatalf("%s: error %v of kind %q, want one of %q", what, err, got, kinds)
}

func exitText(e skerry.Exit) string {
	var b strings.Builder
	b.WriteString(string(e.Outcome))
	if e.ExitCode != nil {
		b.WriteString(" " + itoa(*e.ExitCode))
	}
	if e.Signal != 0 {
		b.WriteString(" by signal " + itoa(e.Signal))
	}
	if e.Reason != "" {
		b.WriteString(" (" + e.Reason + ")")
	}
	return b.String()
}

// shown gives a command in a form short enough for a message.
func shown(spec skerry.CommandSpec) string {
	text := spec.Script
	if len(spec.Argv) > 0 {
		text = strings.Join(spec.Argv, " ")
	}
	const enough = 200
	if len(text) > enough {
		text = text[:enough] + "…"
	}
	return "`" + text + "`"
}
