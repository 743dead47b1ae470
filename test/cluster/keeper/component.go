//go:build linux

package keeper

import "time"

// A Component is one program that the keeper runs.
type Component struct {
	// Name is unique within a keeper; a file name without a slash.
	Name string
	// Args is the program's absolute path and its arguments.
	Args []string
	// Env is the whole environment.
	Env []string
	// Log is the file that its output is appended to.
	Log string
}

// State is what a component is doing.
type State string

const (
	Running State = "running"
	// Stopped is stopped on demand, until it is started again.
	Stopped State = "stopped"
	// Waiting ended by itself and is about to be started again.
	Waiting State = "waiting"
)

// Status is what the keeper knows of one component.
type Status struct {
	Name  string
	State State
	// PID is the process id inside the keeper's PID namespace; 0 when it does
	// not run.
	PID int
	// Starts counts how often it was started.
	Starts int
	// LastExit says how it ended the last time; "" when it never did.
	LastExit string
	// Since is when State began.
	Since time.Time
}
