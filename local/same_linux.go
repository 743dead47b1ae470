package local

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/boxes"
)

// sameRun completes an error of Create with what is known of an earlier run of
// the same id: whether it is the same request, and how it ended.
func (b *Backend) sameRun(record boxes.Record, err error) error {
	if record.Ref.Kind != skerry.RunKind {
		return err
	}
	switch skerry.KindOf(err) {
	case skerry.Conflict:
		if other, alive, e := b.dirs.Find(record.Key); e == nil && alive && same(record.Digest, other.Digest) {
			return skerry.Errorf(skerry.Conflict, opCreate, "run %q: %w", record.Ref.Name, skerry.ErrSame)
		}
		return skerry.Errorf(skerry.Conflict, opCreate, "run %q exists, and it is another one", record.Ref.Name).
			WithHint("choose another id").WithOutcome(skerry.Refused)
	case skerry.Expired:
		note, ok := b.dirs.Recall(record.Key)
		if !ok {
			return err
		}
		if !same(record.Digest, note.Digest) {
			return skerry.Errorf(skerry.Conflict, opCreate, "run %q has been, and it was another one", record.Ref.Name).
				WithHint("a run's id is used once; choose another").WithOutcome(skerry.Refused)
		}
		return expired(opCreate, "has been", note).WithOutcome(skerry.Refused)
	}
	return err
}

const (
	// followersPatience is how long a follower of a run may take nothing before
	// the run is removed all the same, and followersLimit how long all of them
	// may keep it.
	followersPatience = 2 * time.Second
	followersLimit    = 10 * time.Second
)

// letFollowersFinish waits until those who follow a run that has ended have read
// the rest of its output and its artifacts. It gives up on those who do not
// read, and on an init that does not answer.
func (b *Backend) letFollowersFinish(ctx context.Context, key string) {
	record, alive, err := b.dirs.Find(key)
	if err != nil || !alive || record.Digest == "" || b.dirs.Ending(key) {
		return // nobody could have followed it
	}
	ctx, cancel := context.WithTimeout(ctx, followersLimit)
	defer cancel()
	s, err := b.attach(ctx, record)
	if err != nil {
		return // it has ended by itself
	}
	defer s.Close()
	_ = s.Drain(ctx, followersPatience) // what it can't do must not keep the run from being removed
}

func same(a, b string) bool { return a != "" && a == b }

// diedOfMemory gives err the outcome of whatever ran in r, when r died because
// its init was killed for memory.
func (b *Backend) diedOfMemory(r boxes.Record, err error) error {
	e, ok := errors.AsType[*skerry.Error](err)
	if n, known := b.dirs.Recall(r.Key); ok && known && n.Reason == boxes.EndedOOM {
		return e.WithOutcome(skerry.OOM).WithHint("raise the memory limit; files in /tmp, and in a workspace in memory, count as memory")
	}
	return err
}

// expired is the error for what is over, with all that is remembered of it.
func expired(op, verb string, n boxes.Note) *skerry.Error {
	text := n.Words()
	if n.Exit != nil {
		text = fmt.Sprintf("its program ended (%s), %s", n.Exit.Outcome, text)
	}
	e := skerry.Errorf(skerry.Expired, op, "%s %q %s: %s", n.Ref.Kind, n.Ref.Name, verb, text)
	e.Ended = n.Exit
	switch {
	case n.Ref.Kind == skerry.RunKind && op == opCreate:
		return e.WithHint("a run's id is used once; choose another")
	case n.Ref.Kind == skerry.RunKind:
		return e.WithHint("what it wrote went with it; only a run with a retention, as with --detach, can be read after its end")
	}
	return e.WithHint("create it again")
}
