//go:build linux

package boxes

import "time"

// Order is what a supervisor is told to make. It travels as JSON.
type Order struct {
	Dirs   Dirs   `json:"dirs"`
	Record Record `json:"record"` // UID, Supervisor and Warnings are filled in by the supervisor

	Bwrap string `json:"bwrap"` // path
	Init  string `json:"init"`  // path of the copy that sandboxes run
	// Latest is when the sandbox ends whatever its init says, and however
	// often its time to live is extended.
	Latest time.Time `json:"latest"`
	// Env are the caller's variables for every command, on top of the base.
	Env map[string]string `json:"env"`
}

// Descriptors that a supervisor inherits.
const (
	OrderFD    = 3 // the Order, to its end
	ReplyFD    = 4 // the supervisor writes Replies, each one line of JSON
	SeccompFD  = 5 // the filter's program
	LifelineFD = 6 // its end is the end of the sandbox, unless a KeepByte came before
)

// KeepByte on the lifeline makes the sandbox independent of whoever holds it.
const KeepByte = 'k'

// Reply is one line from a supervisor to whoever started it.
type Reply struct {
	Record *Record     `json:"record,omitempty"` // its socket takes connections now
	Error  *ReplyError `json:"error,omitempty"`  // there is no sandbox, and nothing is left of one
}

// ReplyError is a skerry.Error on its way.
type ReplyError struct {
	Op      string `json:"op"`
	Kind    string `json:"kind"`
	Text    string `json:"text"`
	Hint    string `json:"hint"`
	Outcome string `json:"outcome"`
}

// MaxReply bounds one line.
const MaxReply = 1 << 20
