//go:build linux

package keeper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"

	"golang.org/x/sys/unix"
)

// A Client talks to the keeper of a folder. It holds no connection; every
// call makes its own.
type Client struct{ Folder string }

// Run defines a component, in place of one of the same name, and starts it.
// The keeper starts it again whenever it ends by itself.
func (c Client) Run(ctx context.Context, component Component) error {
	_, err := c.ask(ctx, request{Op: opRun, Component: &component})
	return err
}

// Start starts a component that was stopped.
func (c Client) Start(ctx context.Context, name string) error {
	_, err := c.ask(ctx, request{Op: opStart, Name: name})
	return err
}

// Stop ends a component, by force when it does not go by itself, and returns
// when it has ended. It stays stopped until Start.
func (c Client) Stop(ctx context.Context, name string) error {
	_, err := c.ask(ctx, request{Op: opStop, Name: name})
	return err
}

// Signal sends a signal to a component; SIGKILL returns when it has ended. A
// component that ends so is started again.
func (c Client) Signal(ctx context.Context, name string, sig unix.Signal) error {
	_, err := c.ask(ctx, request{Op: opSignal, Name: name, Signal: int(sig)})
	return err
}

// Status lists the components by name.
func (c Client) Status(ctx context.Context) ([]Status, error) {
	a, err := c.ask(ctx, request{Op: opStatus})
	return a.Components, err
}

func (c Client) ask(ctx context.Context, r request) (a answer, err error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socketPath(c.Folder))
	if err != nil {
		return a, fmt.Errorf("reach the keeper: %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if err := json.NewEncoder(conn).Encode(r); err != nil {
		return a, fmt.Errorf("ask the keeper to %s %s: %w", r.Op, r.Name, err)
	}
	if err := json.NewDecoder(io.LimitReader(conn, maxMessageBytes)).Decode(&a); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return a, fmt.Errorf("the keeper's answer to %s %s: %w", r.Op, r.Name, err)
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	return a, nil
}
