package skerry

import "time"

// Outcome says how a command ended: exactly one of the constants. It is never
// inferred from text that a program printed.
type Outcome string

const (
	Exited      Outcome = "exited"       // it ended by itself; the only outcome with an exit code
	Signaled    Outcome = "signaled"     // a signal that was not ours ended it
	Timeout     Outcome = "timeout"      // one of its time limits; Reason names which
	OOM         Outcome = "oom"          // the kernel killed it for memory
	Cancelled   Outcome = "cancelled"    // the caller, or an operator, stopped it
	Evicted     Outcome = "evicted"      // it went over its disk limit, or its node needed the room
	Lost        Outcome = "lost"         // we can't find out; never success
	StartFailed Outcome = "start_failed" // image, interpreter, scheduling: user code never started
	Refused     Outcome = "refused"      // policy, quota, queue, gate: user code never started
)

// Limit names the time limit that ended a command.
type Limit string

const (
	CommandLimit Limit = "command" // the command's own Timeout
	TTLLimit     Limit = "ttl"     // the sandbox's time to live
)

// Valid says whether l is one of the constants.
func (l Limit) Valid() bool { return l == CommandLimit || l == TTLLimit }

// Valid says whether o is one of the constants.
func (o Outcome) Valid() bool {
	switch o {
	case Exited, Signaled, Timeout, OOM, Cancelled, Evicted, Lost, StartFailed, Refused:
		return true
	}
	return false
}

// Exit is how a command ended.
type Exit struct {
	Outcome  Outcome
	ExitCode *int          // set exactly when Outcome is Exited; 0 to 255
	Signal   int           // the signal's number when Outcome is Signaled, else 0
	Limit    Limit         // set exactly when Outcome is Timeout
	Reason   string        // the cause in words, for example "command limit of 2s"; may be empty when Exited
	Duration time.Duration // from start to end of the program, by a monotonic clock; never negative
	Usage    Usage         // what it used, as far as it is known

	// StdoutBytes and StderrBytes are how much the program wrote in all,
	// whatever part of it can still be read.
	StdoutBytes, StderrBytes int64

	// Notices are what the caller, or a model, should know about the place it
	// ran in, for example that its working directory had been deleted.
	Notices []string
}

// Usage is what a sandbox or a command used. A field that is not known is -1
// when the counter can't be read at all.
type Usage struct {
	CPUSeconds      float64 `json:"cpu_seconds"`
	MemoryPeakBytes int64   `json:"memory_peak_bytes"`
	MemoryBytes     int64   `json:"memory_bytes,omitempty"` // now; of a sandbox only
	PIDs            int64   `json:"pids,omitempty"`         // tasks now; of a sandbox only
	OOMEvents       int64   `json:"oom_events"`             // kills for memory while it ran
}
