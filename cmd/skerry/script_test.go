//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts runs every script of testdata/script with real sandboxes of the
// local backend, in a state folder of their own.
//
// "skerry ARGS…" runs the command line, and "status N" then compares its exit
// code; [root] holds where limits of memory can be set.
func TestScripts(t *testing.T) {
	bin := binaries(t)
	state := filepath.Join(bin, "state")
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", bin+string(filepath.ListSeparator)+e.Getenv("PATH"))
			e.Setenv("SKERRY_STATE_DIR", state)
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("SKERRY_ORG", filepath.Base(e.WorkDir)) // no script sees the sandboxes of another
			e.Values[lastStatus{}] = new(int)
			e.Defer(func() { removeAll(t, e) })
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"skerry": func(ts *testscript.TestScript, neg bool, args []string) {
				err := ts.Exec("skerry", args...)
				code := ts.Value(lastStatus{}).(*int)
				*code = 0
				if exit, ok := errors.AsType[*exec.ExitError](err); ok {
					*code = exit.ExitCode()
				} else if err != nil {
					ts.Fatalf("run skerry: %v", err)
				}
				if neg == (*code == 0) {
					ts.Fatalf("skerry %q ended with %d", args, *code)
				}
			},
			"status": func(ts *testscript.TestScript, neg bool, args []string) {
				if len(args) != 1 || neg {
					ts.Fatalf("usage: status N")
				}
				want, err := strconv.Atoi(args[0])
				ts.Check(err)
				if got := *ts.Value(lastStatus{}).(*int); got != want {
					ts.Fatalf("the exit code was %d, want %d", got, want)
				}
			},
		},
		Condition: func(cond string) (bool, error) {
			if cond == "root" {
				return os.Geteuid() == 0, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
	})
}

type lastStatus struct{}

// removeAll removes the sandboxes that a script left, one that failed halfway
// above all.
func removeAll(t *testing.T, e *testscript.Env) {
	for _, kind := range []string{"runs", "session"} {
		list := exec.Command(filepath.Join(filepath.SplitList(e.Getenv("PATH"))[0], "skerry"), kind, "list", "--json")
		list.Env = e.Vars
		out, err := list.Output()
		var views []sandboxView
		if err == nil {
			err = json.Unmarshal(out, &views)
		}
		if err != nil {
			t.Errorf("list what %s left: %v", e.WorkDir, err)
		}
		for _, v := range views {
			remove := exec.Command(list.Path, kind, "rm", "--", v.Name)
			remove.Env = e.Vars
			if out, err := remove.CombinedOutput(); err != nil {
				t.Errorf("remove %s: %v\n%s", v.Name, err, out)
			}
		}
	}
}
