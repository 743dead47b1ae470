package main

import (
	"context"
	"errors"

	"github.com/skerry-run/skerry"
)

// State words of a command.
const (
	stateRunning = "running"
	stateEnded   = "ended"
)

// commandInfo finds one command in a sandbox's list.
func commandInfo(ctx context.Context, s skerry.Sandbox, id string) (skerry.CommandInfo, error) {
	all, err := s.Commands(ctx)
	if err != nil {
		return skerry.CommandInfo{}, err
	}
	for _, i := range all {
		if i.ID == id {
			return i, nil
		}
	}
	return skerry.CommandInfo{}, skerry.Errorf(skerry.NotFound, "", "there is no command %q", id)
}

// errCaughtUp ends a reading that has all that there was when it began.
var errCaughtUp = errors.New("caught up")

// readSoFar delivers what a command has written until now and does not wait
// for more.
func readSoFar(ctx context.Context, c skerry.Command, info skerry.CommandInfo, fn func(skerry.Chunk) error) error {
	if info.Exit == nil && info.Stdout == 0 && info.Stderr == 0 {
		return nil
	}
	var at skerry.Offsets
	err := c.Output(ctx, skerry.Offsets{}, func(chunk skerry.Chunk) error {
		end := chunk.Offset + int64(len(chunk.Data))
		switch chunk.Stream {
		case skerry.Stdout:
			at.Stdout = end
		case skerry.Stderr:
			at.Stderr = end
		}
		if err := fn(chunk); err != nil {
			return err
		}
		if info.Exit == nil && at.Stdout >= info.Stdout && at.Stderr >= info.Stderr {
			return errCaughtUp
		}
		return nil
	})
	if errors.Is(err, errCaughtUp) {
		return nil
	}
	return err
}

// commandView is a command as it is now: a Result, of which outcome and what
// belongs to it are empty while the command runs.
type commandView struct {
	State string `json:"state"` // running or ended
	skerry.Result
	Started string `json:"started"`
}

func viewCommand(ctx context.Context, s skerry.Sandbox, c skerry.Command, name string, inline int64) (commandView, error) {
	info, err := commandInfo(ctx, s, c.ID())
	if err != nil {
		return commandView{}, err
	}
	stdout, stderr := skerry.NewTail(int(inline)), skerry.NewTail(int(inline))
	err = readSoFar(ctx, c, info, func(chunk skerry.Chunk) error {
		if chunk.Stream == skerry.Stderr {
			stderr.Add(chunk)
		} else {
			stdout.Add(chunk)
		}
		return nil
	})
	if err != nil {
		return commandView{}, err
	}
	v := commandView{State: stateRunning, Started: stamp(info.Started)}
	if info.Exit != nil {
		v.State = stateEnded
		v.Result = skerry.ResultOf(s.Info(), name, *info.Exit, stdout, stderr)
	} else {
		v.Result = skerry.ResultOf(s.Info(), name, skerry.Exit{}, stdout, stderr)
		v.DurationMS = 0
	}
	return v, nil
}
