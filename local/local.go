// Package local keeps sandboxes on this machine with bubblewrap: namespaces,
// an allow-list of the host's files, a system call filter, control groups
// where they are permitted. It needs no daemon and no root; with root every
// sandbox runs as an unprivileged user of its own.
//
// Sessions live on after the process that made them: each has a supervisor,
// and is found again by its name from any process of the same user.
package local

import "time"

// Name is the backend's word in results.
const Name = "local"

// DefaultMaxTTL is the longest that a sandbox may live where Config says
// nothing.
const DefaultMaxTTL = 24 * time.Hour

// Config says where the backend keeps things and what it runs. The zero value
// is usable.
type Config struct {
	// StateDir holds everything. Root's "" is /var/lib/skerry/local and
	// /run/skerry/local, another user's $XDG_STATE_HOME (or ~/.local/state)
	// and $XDG_RUNTIME_DIR; these variables are read only then. As root it
	// must be reachable (o+x) by the users that sandboxes run as.
	StateDir string
	// Init is the path of skerry-init; "" looks beside the running program,
	// then on PATH.
	Init string
	// Bwrap is the path of bubblewrap; "" looks on PATH.
	Bwrap string
	// MaxTTL is the longest time to live that may be asked for; 0 is
	// DefaultMaxTTL.
	MaxTTL time.Duration
	// StartTimeout bounds Create; 0 is skerry.DefaultStartTimeout.
	StartTimeout time.Duration
}
