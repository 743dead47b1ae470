package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/config"
)

func fixedBackend(b skerry.Backend) func(*config.Config) (skerry.Backend, error) {
	return func(*config.Config) (skerry.Backend, error) { return b, nil }
}

func says(code int, stdout string) func(skerry.CommandSpec) fakeEnd {
	return func(skerry.CommandSpec) fakeEnd { return fakeEnd{stdout: stdout, exit: exited(code)} }
}

// B192: a program's code is its own, ours are told apart by words and JSON.
func TestExitCodes(t *testing.T) {
	reason := func(o skerry.Outcome) skerry.Exit { return skerry.Exit{Outcome: o, Reason: "because"} }
	for _, c := range []struct {
		name   string
		exit   skerry.Exit
		code   int
		stderr string
	}{
		{"own 0", exited(0), 0, ""},
		{"own 1", exited(1), 1, ""},
		{"own 124", exited(124), 124, ""},
		{"own 255", exited(255), 255, ""},
		{"timeout", reason(skerry.Timeout), 124, "skerry: error: timeout: because\nskerry: hint: raise it with --timeout\n"},
		{"oom", reason(skerry.OOM), 137, "skerry: error: out of memory: because\nskerry: hint: raise it with --memory\n"},
		{"cancelled", reason(skerry.Cancelled), 130, "skerry: error: cancelled: because\n"},
		{"signaled", skerry.Exit{Outcome: skerry.Signaled, Signal: 15}, 143, "skerry: error: ended by signal 15 (SIGTERM)\n"},
		{"evicted", reason(skerry.Evicted), 125, "skerry: error: evicted: because\n"},
		{"lost", reason(skerry.Lost), 125, "skerry: error: lost"},
		{"nonsense", skerry.Exit{Outcome: "", Reason: "because"}, 125, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newFake(func(skerry.CommandSpec) fakeEnd { return fakeEnd{stdout: "out\n", exit: c.exit} })
			got := invoke(t.Context(), b, "", nil, "run", "-l", "bash", "-c", "x")
			if got.code != c.code || got.stdout != "out\n" || !strings.HasPrefix(got.stderr, c.stderr) {
				t.Errorf("run gave %+v, want code %d and stderr %q", got, c.code, c.stderr)
			}
			got = invoke(t.Context(), b, "", nil, "run", "--json", "-l", "bash", "-c", "x")
			var r skerry.Result
			if err := json.Unmarshal([]byte(got.stdout), &r); err != nil || got.code != c.code || r.Outcome != c.exit.Outcome || got.stderr != "" {
				t.Errorf("run --json gave %+v (%v), want code %d and outcome %s", got, err, c.code, c.exit.Outcome)
			}
			if left, _ := b.List(t.Context(), skerry.Filter{}); len(left) != 0 {
				t.Errorf("%d sandboxes are left", len(left))
			}
		})
	}
}

// B075 and every other way to ask for nonsense: 125, a reason, and nothing made.
func TestNonsenseIsRefusedBeforeAnythingIsMade(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.py")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	large := filepath.Join(dir, "large.py")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, skerry.MaxStartFilesBytes+1); err != nil {
		t.Fatal(err)
	}
	code := []string{"-l", "bash", "-c", "x"}
	for _, c := range []struct {
		name string
		args []string
		want string // in stderr
	}{
		{"no code", []string{"run", "-l", "bash", "-c", ""}, "the code is empty"},
		{"blank code", []string{"run", "-l", "bash", "-c", " \n"}, "the code is empty"},
		{"empty file", []string{"run", empty}, "the code is empty"},
		{"large file", []string{"run", large}, "more than the 16777216 bytes that are allowed\nskerry: hint: code is sent whole"},
		{"nothing", []string{"run"}, "nothing to run"},
		{"a folder", []string{"run", dir}, "is a folder"},
		{"no such file", []string{"run", filepath.Join(dir, "no.py")}, "no.py"},
		{"unknown language", []string{"run", "-l", "klingon", "-c", "x"}, "bash, node, python"},
		{"code without language", []string{"run", "-c", "x"}, "name it with -l"},
		{"-l with --", []string{"run", "-l", "bash", "--", "true"}, "leave out -l"},
		{"unknown flag", []string{"run", "--nope"}, "skerry run --help"},
		{"flag without value", []string{"run", "-c"}, "skerry run --help"},
		{"zero timeout", append([]string{"run", "--timeout", "0"}, code...), "0 does not mean"},
		{"negative timeout", append([]string{"run", "--timeout", "-1"}, code...), "negative"},
		{"negative duration", append([]string{"run", "--timeout", "-3s"}, code...), "negative"},
		{"empty timeout", append([]string{"run", "--timeout", ""}, code...), "not a duration"},
		{"absurd timeout", append([]string{"run", "--timeout", "1000000000000"}, code...), "too long"},
		{"float timeout", append([]string{"run", "--timeout", "1e12"}, code...), "not a duration"},
		{"too short", append([]string{"run", "--timeout", "1ns"}, code...), "too short"},
		{"words", append([]string{"run", "--timeout", "soon"}, code...), "not a duration"},
		{"memory", append([]string{"run", "--memory", "lots"}, code...), "not a size"},
		{"tiny memory", append([]string{"run", "--memory", "1"}, code...), "memory"},
		{"cpu", append([]string{"run", "--cpu", "0"}, code...), "cores"},
		{"network", append([]string{"run", "--network", "sometimes"}, code...), "deny, internet"},
		{"missing input", append([]string{"run", "-f", "no-such"}, code...), "no-such"},
		{"missing variable", append([]string{"run", "-e", "NOPE"}, code...), "NOPE is not set"},
		{"missing env file", append([]string{"run", "--env-file", "no-such"}, code...), "no-such"},
		{"missing stdin", append([]string{"run", "--stdin", "no-such"}, code...), "no-such"},
		{"two stdins", append([]string{"run", "--stdin", "x", "-i"}, code...), "both"},
		{"empty id", append([]string{"run", "--id", ""}, code...), "--id"},
		{"missing profile", append([]string{"run", "--profile", "big"}, code...), "no profile \"big\""},
		{"-o below a file", append([]string{"run", "-o", filepath.Join(empty, "x")}, code...), "folder"},
		{"detach and -o", append([]string{"run", "--detach", "-o", "x"}, code...), "runs show -o"},
		{"unknown command", []string{"sesion"}, "did you mean session"},
		{"unknown subcommand", []string{"session", "creat", "x"}, "did you mean create"},
		{"no subcommand", []string{"session"}, "skerry session --help"},
		{"missing argument", []string{"session", "create"}, "skerry session create --help"},
		{"one too many", []string{"session", "show", "a", "b"}, "one word too many"},
		{"idle above ttl", []string{"session", "create", "--ttl", "10s", "--idle", "20s", "x"}, "timeouts.idle"},
		{"empty script", []string{"session", "exec", "x", "--", ""}, "script is empty"},
		{"no script", []string{"session", "exec", "x"}, "nothing to run"},
		{"session timeout", []string{"session", "exec", "--timeout", "0", "x", "--", "true"}, "0 does not mean"},
		{"two local paths", []string{"session", "cp", "a", "b"}, "NAME:PATH"},
		{"two sessions", []string{"session", "cp", "a:b", "c:d"}, "both in a session"},
		{"no signal", []string{"session", "kill", "-s", "BANG", "x", "y"}, "no signal"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newFake(says(0, "ran"))
			got := invoke(t.Context(), b, "", nil, c.args...)
			if got.code != 125 || got.stdout != "" || !strings.HasPrefix(got.stderr, "skerry: error: ") || !strings.Contains(got.stderr, c.want) {
				t.Errorf("%q gave %+v, want 125 and %q", c.args, got, c.want)
			}
			if !strings.Contains(got.stderr, "\nskerry: hint: ") {
				t.Errorf("%q names no remedy: %s", c.args, got.stderr)
			}
			if len(b.created) != 0 {
				t.Errorf("%q made a sandbox", c.args)
			}
		})
	}
}

func TestUsageErrorWithJSONIsAResult(t *testing.T) {
	got := invoke(t.Context(), newFake(says(0, "")), "", nil, "run", "--json", "-l", "klingon", "-c", "x")
	var r skerry.Result
	if err := json.Unmarshal([]byte(got.stdout), &r); err != nil || got.code != 125 || r.Outcome != skerry.Refused || r.Reason == "" || r.Hint == "" {
		t.Errorf("got %+v (%v), want one refused result", got, err)
	}
	for _, args := range [][]string{
		{"run", "--json", "--org", "ours", "--id", "x", "-l", "klingon", "-c", "x"},
		{"run", "--json", "--org", "ours", "--id", "x", "--stdin", "no-such-file", "-l", "bash", "-c", "x"},
		{"run", "--json", "--org", "ours", "--id", "x", "no-such-file.py"},
		{"run", "--json", "--org", "ours", "--id", "x", "--nonsense"},
		{"session", "exec", "--json", "--org", "ours", "--id", "x", "work"},
	} {
		got := invoke(t.Context(), newFake(says(0, "")), "", nil, args...)
		var r skerry.Result
		if err := json.Unmarshal([]byte(got.stdout), &r); err != nil || r.Backend != "local" || r.Org != "ours" || r.ID != "x" || r.Session != "" && r.Session != "work" {
			t.Errorf("%q gave %+v (%v), want a result with what is known", args, got, err)
		}
	}
}

func TestSessionNamesThatNoPathCouldHold(t *testing.T) {
	for _, name := range []string{"a:b", "a/b", `a\b`, ":", "/"} {
		b := newFake(says(0, ""))
		for _, args := range [][]string{{"session", "create", name}, {"session", "exec", "--create", name, "--", "true"}} {
			got := invoke(t.Context(), b, "", nil, args...)
			if got.code != 125 || !strings.Contains(got.stderr, "a file of a session is addressed as NAME:PATH") || !strings.Contains(got.stderr, "hint: ") || len(b.created) != 0 {
				t.Errorf("%q gave %+v", args, got)
			}
		}
	}
}

// B058: whatever a program writes, --json is JSON.
func TestJSONHoldsControlBytes(t *testing.T) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	got := invoke(t.Context(), newFake(says(0, string(all))), "", nil, "run", "--json", "-l", "bash", "-c", "x")
	dec := json.NewDecoder(strings.NewReader(got.stdout))
	var r skerry.Result
	if err := dec.Decode(&r); err != nil {
		t.Fatal(err)
	}
	if _, err := dec.Token(); err != io.EOF {
		t.Errorf("there is more than one object: %v", err)
	}
	if strings.ContainsAny(strings.TrimSuffix(got.stdout, "\n"), "\x00\x01\x1b\n") {
		t.Errorf("raw control bytes in %q", got.stdout)
	}
}

func TestOutputToAPipeIsExact(t *testing.T) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	if got := invoke(t.Context(), newFake(says(0, string(all))), "", nil, "run", "-l", "bash", "-c", "x"); got.stdout != string(all) {
		t.Errorf("got %q", got.stdout)
	}
}

// Our words never stand in the middle of a program's line.
func TestOwnWordsStartALine(t *testing.T) {
	b := newFake(func(skerry.CommandSpec) fakeEnd {
		return fakeEnd{stderr: "half", exit: skerry.Exit{Outcome: skerry.Timeout, Reason: "limit of 1s"}}
	})
	got := invoke(t.Context(), b, "", nil, "run", "-l", "bash", "-c", "x")
	if want := "half\nskerry: error: timeout: limit of 1s\nskerry: hint: raise it with --timeout\n"; got.stderr != want {
		t.Errorf("stderr %q, want %q", got.stderr, want)
	}
}

func TestInterruptCancelsAndTellsTheResult(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	b := newFake(func(skerry.CommandSpec) fakeEnd {
		cancel(errInterrupted)
		return fakeEnd{stdout: "up\n", hang: true}
	})
	got := invoke(ctx, b, "", nil, "run", "--json", "-l", "bash", "-c", "x")
	var r skerry.Result
	if err := json.Unmarshal([]byte(got.stdout), &r); err != nil || got.code != 130 || r.Outcome != skerry.Cancelled || r.Stdout != "up\n" {
		t.Errorf("got %+v (%v)", got, err)
	}
	if len(b.sandboxes) != 0 {
		t.Error("the sandbox is left")
	}
}

// Waiting for code on a terminal ends with the first interrupt.
func TestInterruptEndsTheWaitForInput(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	r, w := io.Pipe()
	defer w.Close()
	a := newApp(r, io.Discard, io.Discard, func(string) (string, bool) { return "", false })
	a.openBackend = fixedBackend(newFake(says(0, "")))
	go func() {
		w.Write([]byte("half of the co"))
		cancel(errInterrupted)
	}()
	if code := a.run(ctx, []string{"run", "-l", "bash", "-"}); code != 130 {
		t.Errorf("code %d", code)
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) {
	return 0, &os.PathError{Op: "write", Path: "|1", Err: syscall.EPIPE}
}

// A reader that goes away ends the run without a word.
func TestBrokenPipeCancelsQuietly(t *testing.T) {
	b := newFake(func(skerry.CommandSpec) fakeEnd { return fakeEnd{stdout: "lots\n", hang: true} })
	var stderr bytes.Buffer
	a := newApp(strings.NewReader(""), brokenPipe{}, &stderr, func(string) (string, bool) { return "", false })
	a.openBackend = fixedBackend(b)
	if code := a.run(t.Context(), []string{"run", "-l", "bash", "-c", "yes"}); code != 130 || stderr.Len() != 0 {
		t.Errorf("code %d, stderr %q", code, stderr.String())
	}
	if len(b.sandboxes) != 0 {
		t.Error("the sandbox is left")
	}
}

func TestRunAsksForWhatTheFlagsSay(t *testing.T) {
	var asked skerry.CommandSpec
	b := newFake(func(s skerry.CommandSpec) fakeEnd { asked = s; return fakeEnd{exit: exited(0)} })
	got := invoke(t.Context(), b, "", map[string]string{"OWN": "mine", "SECRET": "no"}, "run", "-l", "py", "--timeout", "7", "--memory", "1Gi", "--cpu", "500m",
		"--pids", "99", "--workspace", "2Gi", "--network", "allow=10.0.0.0/8:443", "-e", "K=v=w", "-e", "OWN", "-w", "sub", "--id", "job 1", "--org", "acme", "-c", "print(1)", "a", "--b")
	if got.code != 0 {
		t.Fatalf("got %+v", got)
	}
	s := b.created[0]
	if s.Name != "job 1" || s.Org != "acme" || s.Limits.MemoryBytes != 1<<30 || s.Limits.MilliCPU != 500 || s.Limits.PIDs != 99 ||
		s.Limits.WorkspaceBytes != 2<<30 || s.Network.String() != "allow=10.0.0.0/8:443" || s.Remember == 0 || s.Kind != skerry.RunKind {
		t.Errorf("sandbox %+v", s)
	}
	if strings.Join(asked.Argv, " ") != "python3 -u /workspace/main.py a --b" || asked.Timeout.Seconds() != 7 || asked.Dir != "sub" ||
		len(asked.Env) != 2 || asked.Env["K"] != "v=w" || asked.Env["OWN"] != "mine" || string(asked.Files[0].Data) != "print(1)" {
		t.Errorf("command %+v", asked)
	}
}

func TestRunIDIsRandomAndForgottenUnlessGiven(t *testing.T) {
	b := newFake(says(0, ""))
	for range 2 {
		invoke(t.Context(), b, "", nil, "run", "-l", "bash", "-c", "x")
	}
	if b.created[0].Name == b.created[1].Name || b.created[0].Remember != 0 {
		t.Errorf("got %q and %q, remembered for %v", b.created[0].Name, b.created[1].Name, b.created[0].Remember)
	}
}

func TestDetachAndLookLater(t *testing.T) {
	b := newFake(says(3, "hello\n"))
	got := invoke(t.Context(), b, "", nil, "run", "--detach", "--id", "later", "-l", "bash", "-c", "x")
	if got.code != 0 || got.stdout != "later\n" || !b.created[0].Detached || b.created[0].Retention == 0 {
		t.Fatalf("detach gave %+v, spec %+v", got, b.created[0])
	}
	if got := invoke(t.Context(), b, "", nil, "runs", "logs", "later"); got.code != 0 || got.stdout != "hello\n" {
		t.Errorf("logs gave %+v", got)
	}
	got = invoke(t.Context(), b, "", nil, "runs", "show", "--json", "later")
	var v commandView
	if err := json.Unmarshal([]byte(got.stdout), &v); err != nil || v.State != "ended" || v.Outcome != skerry.Exited || *v.ExitCode != 3 || v.Stdout != "hello\n" || v.ID != "later" {
		t.Errorf("show gave %+v (%v)", got, err)
	}
	if got := invoke(t.Context(), b, "", nil, "runs", "list"); !strings.Contains(got.stdout, "later") {
		t.Errorf("list gave %+v", got)
	}
	if got := invoke(t.Context(), b, "", nil, "runs", "rm", "later", "other"); got.code != 125 || !strings.Contains(got.stderr, "run other") {
		t.Errorf("rm gave %+v", got)
	}
	if got := invoke(t.Context(), b, "", nil, "runs", "show", "later"); got.code != 125 || !strings.Contains(got.stderr, "later") {
		t.Errorf("show after rm gave %+v", got)
	}
}

func TestSessionExecWords(t *testing.T) {
	var asked skerry.CommandSpec
	b := newFake(func(s skerry.CommandSpec) fakeEnd { asked = s; return fakeEnd{exit: exited(0)} })
	if got := invoke(t.Context(), b, "", nil, "session", "create", "w"); got.code != 0 || got.stdout != "w\n" {
		t.Fatalf("create gave %+v", got)
	}
	invoke(t.Context(), b, "", nil, "session", "create", "--", "-dash")
	for _, c := range []struct {
		args   []string
		stdin  string
		script string
		argv   string
	}{
		{args: []string{"w", "--", "echo 'a  b'"}, script: "echo 'a  b'"},
		{args: []string{"w", "--", "ls", "-l", "a b"}, argv: "ls|-l|a b"},
		{args: []string{"w", "-"}, stdin: "from stdin\n", script: "from stdin\n"},
		{args: []string{"w", "--", "-"}, stdin: "x", script: "x"},
		{args: []string{"w", "true"}, script: "true"},
		{args: []string{"--", "-dash", "--", "pwd"}, script: "pwd"},
	} {
		got := invoke(t.Context(), b, c.stdin, nil, append([]string{"session", "exec"}, c.args...)...)
		if got.code != 0 || asked.Script != c.script || strings.Join(asked.Argv, "|") != c.argv || asked.Timeout != skerry.DefaultCommandTimeout {
			t.Errorf("%q gave %+v and asked for %+v", c.args, got, asked)
		}
	}
	// B075: work in the background is not under the foreground's limit.
	if got := invoke(t.Context(), b, "", nil, "session", "exec", "-b", "--id", "bg", "w", "--", "sleep 900"); got.stdout != "bg\n" || asked.Timeout != 0 || !asked.Background {
		t.Errorf("-b gave %+v and asked for %+v", got, asked)
	}
	if got := invoke(t.Context(), b, strings.Repeat("x", int(skerry.MaxScriptBytes)+1), nil, "session", "exec", "w", "-"); got.code != 125 || !strings.Contains(got.stderr, "more than the") {
		t.Errorf("a huge script gave %d %s", got.code, got.stderr)
	}
	if got := invoke(t.Context(), b, "", nil, "session", "exec", "gone", "--", "true"); got.code != 125 || !strings.Contains(got.stderr, "session gone") {
		t.Errorf("a missing session gave %+v", got)
	}
	if got := invoke(t.Context(), b, "", nil, "session", "exec", "--create", "new", "--", "true"); got.code != 0 || len(b.created) != 3 {
		t.Errorf("--create gave %+v", got)
	}
	if got := invoke(t.Context(), b, "", nil, "session", "create", "w"); got.code != 125 || !strings.Contains(got.stderr, "session w") {
		t.Errorf("a second create gave %+v", got)
	}
}

func TestDoctor(t *testing.T) {
	b := newFake(says(0, ""))
	b.report = skerry.Report{{Name: "memory", Status: skerry.FindingWarn, Detail: "not enforced", Remedy: "delegate it"}}
	if got := invoke(t.Context(), b, "", nil, "doctor"); got.code != 0 || !strings.Contains(got.stdout, "backend fake") || !strings.Contains(got.stdout, "delegate it") {
		t.Errorf("got %+v", got)
	}
	b.report = append(b.report, skerry.Finding{Name: "namespaces", Status: skerry.FindingFail})
	got := invoke(t.Context(), b, "", nil, "doctor", "--json")
	var v doctorView
	if err := json.Unmarshal([]byte(got.stdout), &v); err != nil || got.code != 125 || !v.Failed || len(v.Findings) != 2 {
		t.Errorf("got %+v (%v)", got, err)
	}
}

func TestBackendsThatAreNotHere(t *testing.T) {
	for _, name := range []string{"kubernetes", "docker", "ssh", "http", "moon"} {
		c := config.Builtin()
		c.Backend = name
		_, err := openBackend(c)
		if e, ok := errors.AsType[*skerry.Error](err); !ok || e.Kind != skerry.Invalid || e.Hint == "" {
			t.Errorf("%s gave %v", name, err)
		}
	}
}

func TestCompletion(t *testing.T) {
	b := newFake(says(0, ""))
	for _, name := range []string{"one", "two"} {
		invoke(t.Context(), b, "", nil, "session", "create", name)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"run", "-l", ""}, "bash\nnode\npython\n"},
		{[]string{"run", "--network", ""}, "deny\ninternet\nallow=\n"},
		{[]string{"session", "exec", ""}, "one\ntwo\n"},
		{[]string{"session", "rm", "one", ""}, "one\ntwo\n"},
	} {
		got := invoke(t.Context(), b, "", nil, append([]string{"__complete"}, c.args...)...)
		if got.code != 0 || !strings.HasPrefix(got.stdout, c.want) {
			t.Errorf("%q gave %+v", c.args, got)
		}
	}
}

func TestEveryHelpListsTheExitCodes(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"run", "--help"}, {"session", "exec", "--help"}, {"doctor", "--help"}} {
		got := invoke(t.Context(), newFake(says(0, "")), "", nil, args...)
		if got.code != 0 || !strings.Contains(got.stdout, "124  timeout") || !strings.Contains(got.stdout, "125  Skerry") {
			t.Errorf("%q gave %+v", args, got)
		}
	}
}
