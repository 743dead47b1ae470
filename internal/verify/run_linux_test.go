package verify

import (
	"context"
	"errors"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/probe"
)

// A control must notice when what it stands for is gone: else "blocked" would
// mean that there was nothing there.
func TestControlsNoticeWhatIsGone(t *testing.T) {
	for name, destroy := range map[string]func(*host){
		"host-tcp":         func(h *host) { closeAll(h) },
		"host-udp":         func(h *host) { closeAll(h) },
		"host-unix":        func(h *host) { closeAll(h) },
		"host-files":       func(h *host) { os.Remove(h.files[0]) },
		"host-environment": func(*host) { os.Unsetenv(canaryVariable) },
		"host-processes":   func(h *host) { h.canary.Process.Kill(); h.canary.Wait() },
	} {
		t.Run(name, func(t *testing.T) {
			h, err := plant(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer h.close()
			if err := h.alive(name); err != nil {
				t.Fatalf("the control fails although all is there: %v", err)
			}
			destroy(h)
			if err := h.alive(name); err == nil {
				t.Error("the control passes although it is gone")
			}
		})
	}
}

func closeAll(h *host) {
	for _, c := range h.closers {
		c.Close()
	}
}

func TestPlantingLeavesNothing(t *testing.T) {
	h, err := plant(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h.close()
	for _, d := range h.dirs {
		if _, err := os.Stat(d); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there", d)
		}
	}
	if _, set := os.LookupEnv(canaryVariable); set {
		t.Error("the variable is still set")
	}
}

// What comes out of the sandbox is not believed because it is there.
func TestProbesThatSayNothingUsefulAreUnknown(t *testing.T) {
	for name, c := range map[string]struct {
		output string
		exit   skerry.Exit
		err    error
		want   probe.Verdict
	}{
		"blocked":        {output: `{"name":"keyrings","blocked":true,"detail":"EPERM"}` + "\n", exit: exited(0), want: probe.Blocked},
		"open":           {output: `{"name":"keyrings","blocked":false,"detail":"worked"}` + "\n", exit: exited(0), want: probe.Open},
		"another name":   {output: `{"name":"mounts","blocked":true}` + "\n", exit: exited(0), want: probe.Unknown},
		"no name":        {output: `{"blocked":true}` + "\n", exit: exited(0), want: probe.Unknown},
		"not JSON":       {output: "blocked\n", exit: exited(0), want: probe.Unknown},
		"nothing":        {exit: exited(0), want: probe.Unknown},
		"a crash":        {exit: skerry.Exit{Outcome: skerry.Signaled, Signal: 11}, want: probe.Unknown},
		"out of memory":  {exit: skerry.Exit{Outcome: skerry.OOM}, want: probe.Unknown}, // which only stops the attack on memory
		"a broken start": {err: errors.New("no"), want: probe.Unknown},
		"endless":        {output: strings.Repeat("x", 10*maxProbeOutput), exit: exited(0), want: probe.Unknown},
	} {
		v := &verifier{}
		got := v.start(t.Context(), fakeBox{output: c.output, exit: c.exit, err: c.err}, attackNamed("keyrings"), nil)
		if got.Verdict != c.want {
			t.Errorf("%s: %+v, want %s", name, got, c.want)
		}
	}
}

// Threat 10: a sandbox that believes what a program says of itself is open.
func TestAForgedEndIsNoticed(t *testing.T) {
	ends := map[string]skerry.Exit{}
	for _, f := range forgeries {
		exit := skerry.Exit{Outcome: f.outcome, Signal: f.signal}
		if f.outcome == skerry.Exited {
			exit.ExitCode = new(f.code)
		}
		ends[f.script] = exit
	}
	if got := forgedEnd(t.Context(), &verifier{box: toldBox{ends: ends}}); got.Verdict != probe.Blocked {
		t.Errorf("an honest sandbox: %+v", got)
	}
	for _, lie := range []skerry.Exit{{Outcome: skerry.OOM}, {Outcome: skerry.Timeout}, exited(0), {Outcome: skerry.Lost}, {Outcome: skerry.Signaled, Signal: 15}} {
		for _, f := range forgeries {
			if lie.Outcome == f.outcome && (f.outcome != skerry.Exited || f.code == 0) && lie.Signal == f.signal {
				continue
			}
			lying := maps.Clone(ends)
			lying[f.script] = lie
			if got := forgedEnd(t.Context(), &verifier{box: toldBox{ends: lying}}); got.Verdict != probe.Open {
				t.Errorf("%s reported as %s: %+v", f.what, lie.Outcome, got)
			}
		}
	}
}

// toldBox ends each script as it is told; no real sandbox lies.
type toldBox struct {
	skerry.Sandbox
	ends map[string]skerry.Exit
}

func (b toldBox) Start(_ context.Context, spec skerry.CommandSpec) (skerry.Command, error) {
	return fakeCommand{box: fakeBox{exit: b.ends[spec.Argv[2]]}}, nil
}

func exited(code int) skerry.Exit { return skerry.Exit{Outcome: skerry.Exited, ExitCode: &code} }

type fakeBox struct {
	skerry.Sandbox
	output string
	exit   skerry.Exit
	err    error
}

func (b fakeBox) Start(context.Context, skerry.CommandSpec) (skerry.Command, error) {
	return fakeCommand{box: b}, b.err
}

type fakeCommand struct {
	skerry.Command
	box fakeBox
}

func (c fakeCommand) Output(_ context.Context, _ skerry.Offsets, fn func(skerry.Chunk) error) error {
	if c.box.output == "" {
		return nil
	}
	return fn(skerry.Chunk{Stream: skerry.Stdout, Data: []byte(c.box.output)})
}

func (c fakeCommand) Wait(context.Context) (skerry.Exit, error) { return c.box.exit, nil }
