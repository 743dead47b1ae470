//go:build linux

package initd

import (
	"math"
	"strings"
	"time"

	"github.com/skerry-run/skerry"
	pb "github.com/skerry-run/skerry/internal/initproto"
)

// specOf makes the request a spec, and refuses what no client of ours sends.
func specOf(r *pb.StartRequest) (skerry.CommandSpec, error) {
	s := skerry.CommandSpec{
		ID: r.Id, Script: string(r.Script), Dir: string(r.Dir), Merge: r.Merge, Background: r.Background, Missing: r.Missing,
	}
	for _, a := range r.Argv {
		s.Argv = append(s.Argv, string(a))
	}
	var err error
	if s.Env, err = envMap(r.Env); err != nil {
		return s, err
	}
	if r.Stdin {
		s.Stdin = skerry.StdinStream
	}
	if r.Tty != nil {
		size, err := sizeOf(r.Tty)
		if err != nil {
			return s, err
		}
		s.TTY = &size
	}
	if s.Timeout, err = durationOf("timeout", r.TimeoutMs); err != nil {
		return s, err
	}
	if s.Grace, err = durationOf("kill grace", r.GraceMs); err != nil {
		return s, err
	}
	for _, f := range r.Files {
		s.Files = append(s.Files, skerry.StartFile{Path: string(f.Path), Data: f.Data, Mode: f.Mode})
	}
	const maxMissing = 1 << 10
	if len(s.Missing) > maxMissing {
		return s, skerry.Errorf(skerry.Invalid, startOp, "the text about a missing program has %d bytes, at most %d", len(s.Missing), maxMissing)
	}
	return s.OrDefaults(), s.Validate()
}

func envMap(entries [][]byte) (map[string]string, error) {
	env := make(map[string]string, len(entries))
	for _, e := range entries {
		name, value, ok := strings.Cut(string(e), "=")
		if !ok {
			return nil, skerry.Errorf(skerry.Invalid, startOp, "an environment entry is not NAME=value")
		}
		if _, twice := env[name]; twice {
			return nil, skerry.Errorf(skerry.Invalid, startOp, "the environment names %q twice", name)
		}
		env[name] = value
	}
	return env, nil
}

func durationOf(what string, ms int64) (time.Duration, error) {
	if ms < 0 || ms > skerry.MaxDuration.Milliseconds() {
		return 0, skerry.Errorf(skerry.Invalid, startOp, "%s of %d ms is not between 0 and %v", what, ms, skerry.MaxDuration)
	}
	return time.Duration(ms) * time.Millisecond, nil
}

func sizeOf(t *pb.TerminalSize) (skerry.TerminalSize, error) {
	if t == nil {
		return skerry.TerminalSize{}, skerry.Errorf(skerry.Invalid, "terminal", "no size was given")
	}
	if t.Cols > math.MaxUint16 || t.Rows > math.MaxUint16 {
		return skerry.TerminalSize{}, skerry.Errorf(skerry.Invalid, "terminal", "a size of %d×%d is too large", t.Cols, t.Rows)
	}
	return skerry.TerminalSize{Cols: uint16(t.Cols), Rows: uint16(t.Rows)}, nil
}

func exitMessage(e skerry.Exit) *pb.Exit {
	m := &pb.Exit{
		Outcome: string(e.Outcome), Signal: int32(e.Signal), Limit: string(e.Limit), Reason: e.Reason, DurationUs: e.Duration.Microseconds(),
		Usage: usageMessage(e.Usage), StdoutBytes: e.StdoutBytes, StderrBytes: e.StderrBytes, Notices: e.Notices,
	}
	if e.ExitCode != nil {
		m.HasExitCode, m.ExitCode = true, int32(*e.ExitCode)
	}
	return m
}

func usageMessage(u skerry.Usage) *pb.Usage {
	return &pb.Usage{
		CpuSeconds: u.CPUSeconds, MemoryPeakBytes: u.MemoryPeakBytes, MemoryBytes: u.MemoryBytes,
		Pids: u.PIDs, OomEvents: u.OOMEvents,
	}
}

func infoMessage(i skerry.CommandInfo) *pb.CommandInfo {
	m := &pb.CommandInfo{
		Id: i.ID, Background: i.Background, StartedUnixMs: i.Started.UnixMilli(), Pid: int32(i.PID),
		StdoutBytes: i.Stdout, StderrBytes: i.Stderr,
	}
	if i.Exit != nil {
		m.Exit = exitMessage(*i.Exit)
	}
	return m
}
