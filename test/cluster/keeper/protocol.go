//go:build linux

package keeper

import "time"

// One request and one answer per connection, each a JSON value. The socket is
// in the cluster's folder and only its owner may open it.
type request struct {
	Op        op
	Component *Component `json:",omitempty"`
	Name      string     `json:",omitempty"`
	Signal    int        `json:",omitempty"`
}

type answer struct {
	Error      string   `json:",omitempty"`
	Components []Status `json:",omitempty"`
}

type op string

const (
	opRun    op = "run"    // define a component (again) and start it
	opStart  op = "start"  // start a known one that is stopped
	opStop   op = "stop"   // SIGTERM, after the grace SIGKILL; stays stopped
	opSignal op = "signal" // send a signal; what ends by it is started again
	opStatus op = "status"
)

const (
	maxMessageBytes = 1 << 20
	// requestTimeout bounds how long a client may take to send its request.
	requestTimeout = 10 * time.Second
	// stopGrace is the time between SIGTERM and SIGKILL.
	stopGrace = 5 * time.Second
	// The first restart comes after minBackoff, each further one after twice
	// the time; a component that ran for steadyAfter begins anew.
	minBackoff  = 500 * time.Millisecond
	maxBackoff  = 8 * time.Second
	steadyAfter = 10 * time.Second
)
