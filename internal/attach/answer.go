package attach

import (
	"math"
	"time"

	"github.com/skerry-run/skerry"
	pb "github.com/skerry-run/skerry/internal/initproto"
)

// Bounds on what the init may say of a command.
const (
	maxReason     = 1 << 10
	maxNotices    = 20
	maxSignal     = 64
	durationSlack = 10 * time.Second // two clocks, and an init that is short of processor time
	maxCounter    = int64(1) << 60   // of bytes and events
	maxCPUSeconds = 1e12
)

// exit checks how a command ended, by the init's word. The command can't have
// started before earliest; the zero time is not known.
func exit(op string, e *pb.Exit, earliest time.Time) (skerry.Exit, error) {
	out := skerry.Exit{
		Outcome:     skerry.Outcome(e.Outcome),
		Signal:      int(e.Signal),
		Limit:       skerry.Limit(e.Limit),
		Reason:      clean(e.Reason, maxReason),
		Duration:    time.Duration(e.DurationUs) * time.Microsecond,
		StdoutBytes: e.StdoutBytes,
		StderrBytes: e.StderrBytes,
	}
	switch out.Outcome {
	case skerry.Exited, skerry.Signaled, skerry.Timeout, skerry.OOM, skerry.Cancelled, skerry.Evicted:
	default:
		return skerry.Exit{}, violation(op, "a command can't have ended as %q", clean(e.Outcome, maxVersionText))
	}
	if e.HasExitCode != (out.Outcome == skerry.Exited) {
		return skerry.Exit{}, violation(op, "outcome %s with exit code: %v", out.Outcome, e.HasExitCode)
	}
	if e.HasExitCode {
		if e.ExitCode < 0 || e.ExitCode > 255 {
			return skerry.Exit{}, violation(op, "exit code %d", e.ExitCode)
		}
		out.ExitCode = new(int(e.ExitCode))
	}
	if (e.Signal != 0) != (out.Outcome == skerry.Signaled) || e.Signal < 0 || e.Signal > maxSignal {
		return skerry.Exit{}, violation(op, "outcome %s with signal %d", out.Outcome, e.Signal)
	}
	if timeout := out.Outcome == skerry.Timeout; timeout && !out.Limit.Valid() || !timeout && out.Limit != "" {
		return skerry.Exit{}, violation(op, "outcome %s by the limit %q", out.Outcome, clean(e.Limit, maxVersionText))
	}
	if e.DurationUs < 0 || e.DurationUs > int64(skerry.MaxDuration/time.Microsecond) {
		return skerry.Exit{}, violation(op, "a duration of %d µs", e.DurationUs)
	}
	if !earliest.IsZero() && out.Duration > time.Since(earliest)+durationSlack {
		return skerry.Exit{}, violation(op, "it says the command took %v, but it can't have begun before %v ago", out.Duration, time.Since(earliest).Round(time.Millisecond))
	}
	if !counter(e.StdoutBytes) || !counter(e.StderrBytes) {
		return skerry.Exit{}, violation(op, "%d bytes of stdout, %d of stderr", e.StdoutBytes, e.StderrBytes)
	}
	if len(e.Notices) > maxNotices {
		return skerry.Exit{}, violation(op, "%d notices, at most %d", len(e.Notices), maxNotices)
	}
	for _, n := range e.Notices {
		out.Notices = append(out.Notices, clean(n, maxReason))
	}
	var err error
	out.Usage, err = usage(op, e.Usage)
	return out, err
}

// sameEnd says whether a and b tell of the same end.
func sameEnd(a, b skerry.Exit) bool {
	code := func(e skerry.Exit) int {
		if e.ExitCode == nil {
			return -1
		}
		return *e.ExitCode
	}
	return a.Outcome == b.Outcome && code(a) == code(b) && a.Signal == b.Signal
}

// usage checks counters; a message that is not there says nothing, so nothing
// is known.
func usage(op string, u *pb.Usage) (skerry.Usage, error) {
	if u == nil {
		return skerry.Usage{CPUSeconds: -1, MemoryPeakBytes: -1, MemoryBytes: -1, PIDs: -1, OOMEvents: -1}, nil
	}
	if math.IsNaN(u.CpuSeconds) || u.CpuSeconds > maxCPUSeconds || u.CpuSeconds < 0 && u.CpuSeconds != -1 {
		return skerry.Usage{}, violation(op, "%v seconds of processor time", u.CpuSeconds)
	}
	for _, n := range []int64{u.MemoryPeakBytes, u.MemoryBytes, u.Pids, u.OomEvents} {
		if n != -1 && !counter(n) {
			return skerry.Usage{}, violation(op, "a counter of %d", n)
		}
	}
	return skerry.Usage{
		CPUSeconds: u.CpuSeconds, MemoryPeakBytes: u.MemoryPeakBytes,
		MemoryBytes: u.MemoryBytes, PIDs: u.Pids, OOMEvents: u.OomEvents,
	}, nil
}

func counter(n int64) bool { return n >= 0 && n <= maxCounter }

// maxUnixMS is the end of the year 9999, beyond which times can't be written.
const maxUnixMS = 253402300799999

func commandInfo(op string, c *pb.CommandInfo, earliest time.Time) (skerry.CommandInfo, error) {
	if c == nil {
		return skerry.CommandInfo{}, violation(op, "an answer without the command")
	}
	if err := skerry.ValidateName("id", c.Id); err != nil {
		return skerry.CommandInfo{}, violation(op, "a command's %v", err)
	}
	if c.Pid < 0 || c.StartedUnixMs < 0 || c.StartedUnixMs > maxUnixMS || !counter(c.StdoutBytes) || !counter(c.StderrBytes) {
		return skerry.CommandInfo{}, violation(op, "pid %d, started at %d ms, %d and %d bytes of output", c.Pid, c.StartedUnixMs, c.StdoutBytes, c.StderrBytes)
	}
	info := skerry.CommandInfo{
		ID: c.Id, Background: c.Background, Started: time.UnixMilli(c.StartedUnixMs), PID: int(c.Pid),
		Stdout: c.StdoutBytes, Stderr: c.StderrBytes,
	}
	if c.Exit != nil {
		e, err := exit(op, c.Exit, earliest)
		if err != nil {
			return skerry.CommandInfo{}, err
		}
		info.Exit = &e
	}
	return info, nil
}
