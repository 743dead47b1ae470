//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/skerry-run/skerry"
)

// step is one command of a console block in a document, with what the document
// says it prints. "…" stands for any text within a line, "[exit N]" for an exit
// code other than 0.
type step struct {
	line    int
	command string
	want    []string
	exit    int
}

var exitLine = regexp.MustCompile(`^\[exit (\d+)\]$`)

// steps reads the console blocks of a document.
func steps(text string) []step {
	var all []step
	in := false
	heredoc := false
	for i, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			in = line == "```console"
		case !in:
		case heredoc:
			last := &all[len(all)-1]
			last.command += "\n" + line
			heredoc = line != "END"
		case strings.HasPrefix(line, "$ "):
			all = append(all, step{line: i + 1, command: strings.TrimPrefix(line, "$ ")})
			heredoc = strings.HasSuffix(line, "<<'END'")
		default:
			last := &all[len(all)-1]
			if m := exitLine.FindStringSubmatch(line); m != nil {
				fmt.Sscan(m[1], &last.exit)
				continue
			}
			last.want = append(last.want, line)
		}
	}
	return all
}

// TestTheDocumentsTellTheTruth runs every console block of the README and of
// docs/, in order and in one folder for each document, and compares what comes out.
func TestTheDocumentsTellTheTruth(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	bin := binaries(t)
	documents, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range append(documents, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		all := steps(string(text))
		if len(all) == 0 {
			continue
		}
		t.Run(filepath.Base(document), func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(filepath.Join(dir, "examples"), os.DirFS(filepath.Join(root, "examples"))); err != nil {
				t.Fatal(err)
			}
			shell := newShell(t, dir, bin)
			for _, s := range all {
				shell.run(s)
			}
		})
	}
}

// TestTheDocumentNamesEveryField looks for every field of a result object.
func TestTheDocumentNamesEveryField(t *testing.T) {
	text, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{skerry.Result{}, skerry.Truncation{}, skerry.Usage{}, skerry.Artifact{}, sandboxView{}, commandLine{}, detached{}, started{}} {
		of := reflect.TypeOf(v)
		for i := range of.NumField() {
			name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			if name != "" && !strings.Contains(string(text), "`"+name+"`") {
				t.Errorf("docs/cli.md does not say what %s of %s is", name, of.Name())
			}
		}
	}
}

// shell runs the steps of one document one after another; its working directory
// and exported variables carry over.
type shell struct {
	t          *testing.T
	dir, state string
	env        []string
}

func newShell(t *testing.T, dir, bin string) *shell {
	state := t.TempDir()
	return &shell{t: t, dir: dir, state: filepath.Join(state, "exports"), env: []string{
		"PATH=" + bin + ":/usr/bin:/bin:/usr/sbin:/sbin", "HOME=" + t.TempDir(), "LANG=C.UTF-8",
		"SKERRY_STATE_DIR=" + filepath.Join(bin, "state"), // the users that sandboxes run as must reach it
	}}
}

func (s *shell) run(st step) {
	s.t.Helper()
	script := fmt.Sprintf("[ -e %[1]q ] && . %[1]q; trap 'export -p > %[1]q' EXIT; %[2]s", s.state, st.command)
	if folder, ok := strings.CutPrefix(st.command, "cd "); ok {
		s.dir = filepath.Join(s.dir, folder)
		return
	}
	cmd := exec.Command("bash", "-c", script)
	cmd.Dir, cmd.Env = s.dir, s.env
	out, err := cmd.CombinedOutput()
	code := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else if err != nil {
		s.t.Fatal(err)
	}
	if code != st.exit {
		s.t.Errorf("line %d: %s\nexit code %d, the document says %d; output:\n%s", st.line, st.command, code, st.exit, out)
	}
	out = unenforced.ReplaceAll(out, nil)
	if want := strings.Join(st.want, "\n"); !matches(want, string(bytes.TrimSuffix(out, []byte("\n")))) {
		s.t.Errorf("line %d: %s\nprinted:\n%s\nthe document says:\n%s", st.line, st.command, out, want)
	}
}

// unenforced are the notes that an ordinary user without control groups gets
// with each command. The documents show what root sees.
var unenforced = regexp.MustCompile(`skerry: note: the (memory|pids|cpu) limit .* is permitted here\n`)

// matches compares a document's text with what was printed.
func matches(want, got string) bool {
	pattern := strings.ReplaceAll(regexp.QuoteMeta(want), "…", "[^\n]*")
	return regexp.MustCompile("^" + pattern + "$").MatchString(got)
}
