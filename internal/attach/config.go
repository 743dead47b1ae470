// Package attach is the client's end of the stream to skerry-init: it turns
// any byte stream into a skerry.Sandbox. When the stream breaks it dials
// again and goes on where it was; what its methods return is never doubled and
// has no hole that is not marked. What comes over the stream was written by
// something that may have been taken over by the code in the sandbox, so every
// answer is checked and bounded.
package attach

import (
	"context"
	"net"
	"time"

	"github.com/skerry-run/skerry"
	pb "github.com/skerry-run/skerry/internal/initproto"
)

// Config says where the init is and who it must be.
type Config struct {
	// Dial opens a fresh byte stream to the init; it is called again after a
	// break. ctx bounds the dialling only: the connection outlives it.
	Dial func(ctx context.Context) (net.Conn, error)
	// Info is what Sandbox.Info gives, but for the times that Extend changes.
	Info skerry.SandboxInfo

	// Key is the 32 bytes that both ends prove to know. Nil is for a stream
	// that is trusted by its origin.
	Key []byte
	// SetKey gives Key to the init first: for the first attach ever, before
	// any user code ran.
	SetKey bool
	// SandboxUID, when set, is what the init must call the sandbox.
	SandboxUID string

	// Lost is asked when no stream could be had: an error says what became of
	// the sandbox and ends the call, nil means to keep trying. May be nil.
	Lost func(ctx context.Context) error

	// Every KeepaliveInterval the init must answer, within KeepaliveTimeout;
	// else the stream counts as broken. Zero is the default of each.
	KeepaliveInterval, KeepaliveTimeout time.Duration
	// HandshakeTimeout bounds the time from an open stream to an init that has
	// proved who it is; 0 is DefaultHandshakeTimeout.
	HandshakeTimeout time.Duration
	// Reconnect bounds how often a stream is opened.
	Reconnect Reconnect
}

// Reconnect bounds how often the stream is opened again. Zero fields are the
// defaults.
type Reconnect struct {
	// Attempts is how many streams may be opened in a row. Progress gives
	// attempts back: one for each answer, for each ProgressBytes of data and
	// for each RefillInterval that passed.
	Attempts int
	// BackoffMin is the wait before the second attempt without progress in
	// between; it doubles up to BackoffMax. A random part of up to half is
	// taken off. The first attempt after progress is made at once.
	BackoffMin, BackoffMax time.Duration
}

// The defaults of Config.
const (
	DefaultKeepaliveInterval = 15 * time.Second
	DefaultKeepaliveTimeout  = 20 * time.Second
	DefaultHandshakeTimeout  = 15 * time.Second
	DefaultAttempts          = 12
	DefaultBackoffMin        = 20 * time.Millisecond
	DefaultBackoffMax        = 3 * time.Second
)

// How attempts are given back, see Reconnect.Attempts.
const (
	ProgressBytes  = 64 << 10
	RefillInterval = 15 * time.Second
)

func (c Config) orDefaults() Config {
	duration := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
	}
	duration(&c.KeepaliveInterval, DefaultKeepaliveInterval)
	duration(&c.KeepaliveTimeout, DefaultKeepaliveTimeout)
	duration(&c.HandshakeTimeout, DefaultHandshakeTimeout)
	duration(&c.Reconnect.BackoffMin, DefaultBackoffMin)
	duration(&c.Reconnect.BackoffMax, DefaultBackoffMax)
	if c.Reconnect.Attempts <= 0 {
		c.Reconnect.Attempts = DefaultAttempts
	}
	return c
}

func (c Config) validate() error {
	const op = "attach"
	switch {
	case c.Dial == nil:
		return skerry.Errorf(skerry.Invalid, op, "there is no way to dial the init")
	case c.Key != nil && len(c.Key) != pb.KeyBytes:
		return skerry.Errorf(skerry.Invalid, op, "the key has %d bytes, it must have %d", len(c.Key), pb.KeyBytes)
	case c.SetKey && c.Key == nil:
		return skerry.Errorf(skerry.Invalid, op, "there is no key to set")
	}
	return nil
}
