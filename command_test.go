package skerry_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/skerry-run/skerry"
)

func TestCommandsThatCanBeStarted(t *testing.T) {
	big := strings.Repeat("x", skerry.MaxArgvBytes)
	for name, s := range map[string]skerry.CommandSpec{
		"argv":               {ID: "a", Argv: []string{"true"}},
		"empty arguments":    {ID: "a", Argv: []string{"printf", "", ""}},
		"script":             {ID: "a", Script: "x='"},
		"any id":             {ID: strings.Repeat("語", 85), Argv: []string{"true"}},
		"B124: one argument": {ID: "a", Argv: []string{"echo", big}},
		"B124: one variable": {ID: "a", Argv: []string{"env"}, Env: map[string]string{"A": big[:skerry.MaxArgvBytes-2]}},
		"odd variables":      {ID: "a", Argv: []string{"env"}, Env: map[string]string{"a b": "\n", "é": "\xff", "EMPTY": ""}},
		"files":              {ID: "a", Argv: []string{"true"}, Files: []skerry.StartFile{{Path: "a\nb", Data: make([]byte, skerry.MaxStartFilesBytes)}}},
		"long script":        {ID: "a", Script: strings.Repeat("x", int(skerry.MaxScriptBytes))},
		"limits":             {ID: "a", Script: "x", Timeout: skerry.MaxDuration, Grace: time.Minute, Stdin: skerry.StdinStream},
	} {
		if err := s.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCommandsThatNoSandboxCouldStart(t *testing.T) {
	big := strings.Repeat("x", skerry.MaxArgvBytes+1)
	many := make([]string, 20)
	env := map[string]string{}
	for i := range many {
		many[i] = big[:skerry.MaxArgvBytes]
		env[fmt.Sprint(i)] = big[:skerry.MaxArgvBytes-10]
	}
	for name, s := range map[string]skerry.CommandSpec{
		"no id":                    {Argv: []string{"true"}},
		"a long id":                {ID: strings.Repeat("x", 257), Argv: []string{"true"}},
		"an id with a newline":     {ID: "a\nb", Argv: []string{"true"}},
		"nothing":                  {ID: "a"},
		"both":                     {ID: "a", Argv: []string{"true"}, Script: "true"},
		"no name":                  {ID: "a", Argv: []string{""}},
		"NUL in an argument":       {ID: "a", Argv: []string{"echo", "a\x00b"}},
		"NUL in the script":        {ID: "a", Script: "a\x00b"},
		"NUL in the folder":        {ID: "a", Script: "a", Dir: "\x00"},
		"B124: one argument":       {ID: "a", Argv: []string{"echo", big}},
		"B124: one variable":       {ID: "a", Script: "a", Env: map[string]string{"A": big[:skerry.MaxArgvBytes-1]}},
		"many arguments":           {ID: "a", Argv: many},
		"many variables":           {ID: "a", Script: "a", Env: env},
		"a long script":            {ID: "a", Script: strings.Repeat("x", int(skerry.MaxScriptBytes)+1)},
		"a variable without name":  {ID: "a", Script: "a", Env: map[string]string{"": "x"}},
		"a variable with =":        {ID: "a", Script: "a", Env: map[string]string{"a=b": "x"}},
		"NUL in a variable":        {ID: "a", Script: "a", Env: map[string]string{"a": "\x00"}},
		"NUL in a variable's name": {ID: "a", Script: "a", Env: map[string]string{"a\x00": ""}},
		"a negative timeout":       {ID: "a", Script: "a", Timeout: -1},
		"an endless timeout":       {ID: "a", Script: "a", Timeout: skerry.MaxDuration + 1},
		"a negative grace":         {ID: "a", Script: "a", Grace: -1},
		"an endless grace":         {ID: "a", Script: "a", Grace: time.Minute + 1},
		"unknown stdin":            {ID: "a", Script: "a", Stdin: "file"},
		"a file without path":      {ID: "a", Script: "a", Files: []skerry.StartFile{{}}},
		"NUL in a path":            {ID: "a", Script: "a", Files: []skerry.StartFile{{Path: "\x00"}}},
		"large files": {ID: "a", Script: "a", Files: []skerry.StartFile{
			{Path: "a", Data: make([]byte, skerry.MaxStartFilesBytes)}, {Path: "b", Data: []byte{0}},
		}},
	} {
		err := s.Validate()
		if skerry.KindOf(err) != skerry.Invalid {
			t.Errorf("%s gave %v, want invalid", name, err)
		} else if len(err.Error()) > 1000 {
			t.Errorf("%s gave an error of %d bytes", name, len(err.Error()))
		}
	}
}

// B196: an error must not tell what a variable holds.
func TestErrorsDoNotTellSecrets(t *testing.T) {
	err := skerry.ValidateEnv(map[string]string{"TOKEN": "hunter2\x00"})
	if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "TOKEN") {
		t.Errorf("got %v", err)
	}
}

func TestStreamsHaveNames(t *testing.T) {
	for s, want := range map[skerry.Stream]string{skerry.Stdout: "stdout", skerry.Stderr: "stderr", 7: "stream 7"} {
		if s.String() != want {
			t.Errorf("got %q, want %q", s, want)
		}
	}
}
