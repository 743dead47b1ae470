package skerry

import "time"

// Bytes.
const (
	KiB int64 = 1 << 10
	MiB int64 = 1 << 20
	GiB int64 = 1 << 30
)

// Limits bounds a sandbox. A zero field takes its value from DefaultLimits, so
// the zero value is the default, never "unlimited".
type Limits struct {
	MemoryBytes        int64 // what all of the sandbox may hold; above it the kernel kills (outcome oom)
	MilliCPU           int64 // thousandths of a core
	MemoryRequestBytes int64 // what a scheduler sets aside; backends without one ignore it
	MilliCPURequest    int64
	PIDs               int64 // processes and threads
	WorkspaceBytes     int64 // files under the workspace and HOME
	TmpBytes           int64 // files under /tmp
	ShmBytes           int64 // files under /dev/shm
}

// DefaultLimits are the limits of a sandbox that asks for none.
var DefaultLimits = Limits{
	MemoryBytes:        512 * MiB,
	MilliCPU:           1000,
	MemoryRequestBytes: 64 * MiB,
	MilliCPURequest:    50,
	PIDs:               256,
	WorkspaceBytes:     1 * GiB,
	TmpBytes:           256 * MiB,
	ShmBytes:           64 * MiB,
}

// OrDefaults gives l with every zero field taken from d. A request that comes
// from d is at most the limit that it is a request of.
func (l Limits) OrDefaults(d Limits) Limits {
	pick := func(a, b int64) int64 {
		if a != 0 {
			return a
		}
		return b
	}
	memory, cpu := pick(l.MemoryBytes, d.MemoryBytes), pick(l.MilliCPU, d.MilliCPU)
	return Limits{
		MemoryBytes:        memory,
		MilliCPU:           cpu,
		MemoryRequestBytes: pick(l.MemoryRequestBytes, min(d.MemoryRequestBytes, memory)),
		MilliCPURequest:    pick(l.MilliCPURequest, min(d.MilliCPURequest, cpu)),
		PIDs:               pick(l.PIDs, d.PIDs),
		WorkspaceBytes:     pick(l.WorkspaceBytes, d.WorkspaceBytes),
		TmpBytes:           pick(l.TmpBytes, d.TmpBytes),
		ShmBytes:           pick(l.ShmBytes, d.ShmBytes),
	}
}

// No machine has more; above them sums of limits would overflow somewhere.
const (
	maxLimitBytes    = 1 << 50
	maxLimitMilliCPU = 10_000_000
	maxLimitPIDs     = 1 << 22 // Linux has no more process ids
)

// Validate refuses what can't work: negative values, limits so small that not
// even the init would start or larger than any machine, and requests above
// their limits.
func (l Limits) Validate() error {
	const op = "limits"
	l = l.OrDefaults(DefaultLimits)
	for _, f := range []struct {
		name          string
		got, min, max int64
	}{
		{"memory", l.MemoryBytes, 16 * MiB, maxLimitBytes},
		{"cpu", l.MilliCPU, 10, maxLimitMilliCPU},
		{"memory request", l.MemoryRequestBytes, 1, l.MemoryBytes},
		{"cpu request", l.MilliCPURequest, 1, l.MilliCPU},
		{"pids", l.PIDs, 8, maxLimitPIDs},
		{"workspace", l.WorkspaceBytes, 1 * MiB, maxLimitBytes},
		{"tmp", l.TmpBytes, 1 * MiB, maxLimitBytes},
		{"shm", l.ShmBytes, 64 * KiB, maxLimitBytes},
	} {
		if f.got < f.min {
			return Errorf(Invalid, op, "%s is %d, less than the %d that a sandbox needs", f.name, f.got, f.min).WithHint("give it more, or leave it out for the default")
		}
		if f.got > f.max {
			return Errorf(Invalid, op, "%s is %d, at most %d", f.name, f.got, f.max).WithHint("give it less, or leave it out for the default")
		}
	}
	return nil
}

// Times that hold where a caller says nothing.
const (
	DefaultRunTimeout     = 60 * time.Second
	DefaultCommandTimeout = 120 * time.Second // a session's foreground command
	DefaultSessionTTL     = 4 * time.Hour
	DefaultSessionIdle    = 30 * time.Minute
	DefaultKillGrace      = 3 * time.Second // between TERM and KILL
	DefaultStartTimeout   = 120 * time.Second
	MaxDuration           = 30 * 24 * time.Hour // no limit may be set above it
)

// Bounds on what travels in and out of a sandbox.
const (
	DefaultArtifactBytes     = 64 * MiB  // one artifact
	DefaultArtifactsBytes    = 256 * MiB // all artifacts of a run
	DefaultInputsBytes       = 256 * MiB // all input files of a run
	DefaultInlineOutputBytes = 1 * MiB   // one stream inside a Result
	DefaultSpoolBytes        = 64 * MiB  // one stream kept for readers that come later
	MaxStartFilesBytes       = 16 * MiB  // CommandSpec.Files and Script in all; larger ones go through Files
	MaxScriptBytes           = 16 * MiB
	MaxArtifactCount         = 10_000
	MaxArgvBytes             = 131_071 // one argument or NAME=value, Linux MAX_ARG_STRLEN less its NUL
)
