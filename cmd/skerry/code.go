package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/skerry-run/skerry"
)

// program is what a run executes: plain argv, or code with its language.
type program struct {
	language skerry.Language // the zero value for plain argv
	argv     []string
	files    []skerry.StartFile
}

// programArgs are the words of the command line that say what to run.
type programArgs struct {
	language string
	code     string
	hasCode  bool // -c was given, even if empty
	args     []string
	dash     int    // how many args stood before "--", -1 without one
	dir      string // where the program starts; "" is the workspace
}

// resolveProgram finds out what to run. It reads code from a file or from
// stdin, at most skerry.MaxStartFilesBytes of it.
func resolveProgram(p programArgs, languages skerry.Languages, stdin io.Reader) (program, error) {
	const op = "run"
	switch {
	case p.hasCode:
		return p.withCode("", []byte(p.code), p.args, languages)
	case p.dash == 0 && len(p.args) > 0:
		if p.language != "" {
			return program{}, skerry.Errorf(skerry.Invalid, op, "-l %s says nothing about a command after --", p.language).WithHint("leave out -l, or give a FILE")
		}
		return program{argv: p.args}, nil
	case len(p.args) == 0:
		return program{}, skerry.Errorf(skerry.Invalid, op, "there is nothing to run").WithHint("give a FILE, -c CODE, - for code on stdin, or -- CMD ARGS; see skerry run --help")
	case p.args[0] == "-":
		code, err := readCodeFrom(stdin, "the code on stdin")
		if err != nil {
			return program{}, err
		}
		return p.withCode("", code, p.args[1:], languages)
	}
	file := p.args[0]
	code, err := readCode(file)
	if err != nil {
		return program{}, err
	}
	return p.withCode(file, code, p.args[1:], languages)
}

func readCode(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, skerry.Errorf(skerry.Invalid, "run", "read the code: %w", err).WithHint("give the path of a file; code itself goes after -c")
	}
	if info.IsDir() {
		return nil, skerry.Errorf(skerry.Invalid, "run", "%s is a folder, not a file with code", file).WithHint("send folders with -f and name the file to run")
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, skerry.Errorf(skerry.Invalid, "run", "read the code: %w", err)
	}
	defer f.Close()
	return readCodeFrom(f, file)
}

func readCodeFrom(r io.Reader, what string) ([]byte, error) {
	code, err := readBounded(r, skerry.MaxStartFilesBytes, what)
	if err != nil && skerry.HintOf(err) == "" {
		return nil, skerry.Errorf(skerry.Invalid, "run", "%w", err).WithHint("code is sent whole with its start: send data and libraries as files with -f")
	}
	return code, err
}

func readBounded(r io.Reader, limit int64, what string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, skerry.Errorf(skerry.Invalid, "", "read %s: %w", what, err)
	}
	if int64(len(data)) > limit {
		return nil, skerry.Errorf(skerry.Invalid, "", "%s has more than the %d bytes that are allowed", what, limit)
	}
	return data, nil
}

// withCode makes a program of code. file is "" when the code has none.
func (p programArgs) withCode(file string, code []byte, args []string, languages skerry.Languages) (program, error) {
	if len(bytes.TrimSpace(code)) == 0 {
		return program{}, skerry.Errorf(skerry.Invalid, "run", "the code is empty").WithHint("give some after -c, in the FILE, or on stdin with -")
	}
	var l skerry.Language
	var err error
	if p.language != "" {
		l, err = languages.Find(p.language)
	} else {
		l, err = languages.FindFor(filepath.ToSlash(file), code)
		if err != nil && file == "" {
			err = skerry.Errorf(skerry.Invalid, "run", "the language of the code is not known").WithHint("name it with -l: %s", strings.Join(languages.Names(), ", "))
		}
	}
	if err != nil {
		return program{}, err
	}
	base := "main" + l.Ending()
	if file != "" {
		base = filepath.Base(file)
	}
	return program{
		language: l,
		argv:     slices.Concat(l.Command, []string{codePath(base, p.dir)}, args),
		files:    []skerry.StartFile{{Path: base, Data: code}},
	}, nil
}

// workspace is where every sandbox has its files.
const workspace = "/workspace"

// codePath is how the interpreter, which starts in dir, is told the file of
// the code, which lies in the workspace itself.
func codePath(base, dir string) string {
	switch {
	case dir != "":
		return path.Join(workspace, base)
	case strings.HasPrefix(base, "-"): // would be taken for an option
		return "./" + base
	}
	return base
}

func bytesInput(dest string, data []byte) skerry.Input {
	return skerry.Input{Path: dest, Size: int64(len(data)), Open: func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(data)), nil
	}}
}

// missingHint is what to say when the language's interpreter is not there.
func (p program) missingHint() string {
	if p.language.Install == "" {
		return ""
	}
	return fmt.Sprintf("install it: %s", p.language.Install)
}
