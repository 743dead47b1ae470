//go:build linux

// Package sweep removes what dead sandboxes left on the host: control groups,
// networks, boxes. It touches only what carries the name of this installation,
// and only when the kernel says that the owner is gone.
package sweep

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/boxes"
	"github.com/skerry-run/skerry/internal/cgroups"
	"github.com/skerry-run/skerry/internal/hostnet"
)

// CgroupParent is the control group that holds those of all sandboxes of d.
// Another installation has another.
func CgroupParent(d boxes.Dirs) string {
	sum := sha256.Sum256([]byte(d.Run))
	return "skerry-" + hex.EncodeToString(sum[:4])
}

// SessionMemory is how long the end of a session is remembered at least.
const SessionMemory = 24 * time.Hour

// oomMemory is how long a run's death of memory is remembered: whoever follows
// it sees only a stream that broke, and asks at once.
const oomMemory = time.Minute

// Note keeps in mind how the sandbox of r ended, where that was asked for or
// somebody is bound to ask.
func Note(d boxes.Dirs, r boxes.Record, reason string) error {
	keep := r.Remember
	switch {
	case r.Ref.Kind == skerry.SessionKind && reason == boxes.EndedOwner:
		return nil // its maker gave up before it was made: it never was
	case r.Ref.Kind == skerry.SessionKind && reason != boxes.EndedShutdown:
		keep = max(keep, SessionMemory)
	case reason == boxes.EndedOOM:
		keep = max(keep, oomMemory)
	}
	if keep <= 0 || r.Ref.Name == "" {
		return nil
	}
	now := time.Now()
	n := boxes.Note{Ref: r.Ref, Ended: now, Until: now.Add(keep), Reason: reason, Digest: r.Digest}
	if reason == boxes.EndedOOM {
		n.Memory = r.Limits.MemoryBytes
	}
	return d.Remember(r.Key, n)
}

// Result counts what a sweep removed.
type Result struct {
	Boxes  []string // keys of sandboxes whose supervisor had died
	Groups []string // control groups that belonged to none
}

// All removes everything that belongs to no living sandbox. It is cheap when
// there is nothing to do.
func All(d boxes.Dirs) (Result, error) {
	var res Result
	dead, err := d.Dead()
	if err != nil {
		return res, err
	}
	var errs []error
	for _, key := range dead {
		did, err := Box(d, key)
		if did {
			res.Boxes = append(res.Boxes, key)
		}
		errs = append(errs, err)
	}
	groups, err := orphans(d)
	res.Groups = groups
	errs = append(errs, err, d.Sweep())
	return res, errors.Join(errs...)
}

// Box cleans up after one dead supervisor; did is false when it is not dead.
func Box(d boxes.Dirs, key string) (did bool, err error) {
	b, err := d.TakeDead(key)
	if err != nil || b == nil {
		return false, err
	}
	// A supervisor that runs without its lock would make our removal race
	// with its own; it can only be one whose lock file was deleted by hand.
	if err := b.Record.Supervisor.Signal(unix.SIGKILL); err != nil {
		return false, err
	}
	errs := []error{d.KillMarked(key, b.Record.UID), Host(d, key), network(d, b.Record), Note(d, b.Record, boxes.EndedLost)}
	if err := errors.Join(errs...); err != nil {
		return true, fmt.Errorf("clean up after sandbox %s: %w", key, err) // the box stays, for the next sweep
	}
	return true, b.Remove()
}

// Host removes the control groups of a sandbox.
func Host(d boxes.Dirs, key string) error {
	host, err := cgroups.ReadHost("")
	if errors.Is(err, fs.ErrNotExist) { // a kernel without any
		return nil
	}
	if err != nil {
		return err
	}
	return cgroups.Remove(host.Names(CgroupParent(d), key))
}

// network removes the network of a sandbox that had one, or that we know
// nothing of.
func network(d boxes.Dirs, r boxes.Record) error {
	mode := r.Network.Mode
	if os.Geteuid() != 0 || r.Ref.Name != "" && (mode == "" || mode == skerry.NetworkDeny) {
		return nil
	}
	return hostnet.Remove(context.Background(), d.NetworkKey(r.Key))
}

// orphans removes control groups of ours without a box, which is what is left
// when somebody emptied the folder of the boxes.
func orphans(d boxes.Dirs) ([]string, error) {
	host, err := cgroups.ReadHost("")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	parent := CgroupParent(d)
	suspects := slices.DeleteFunc(host.Children(parent), d.Exists)
	if len(suspects) == 0 {
		return nil, nil
	}
	// A name may have been taken since it was listed; while no box can be
	// made, it can't be taken any more.
	unlock, err := d.LockAll()
	if err != nil {
		return nil, err
	}
	defer unlock()
	suspects = slices.DeleteFunc(suspects, d.Exists)
	var errs []error
	for _, name := range suspects {
		errs = append(errs, cgroups.Remove(host.Names(parent, name)))
	}
	return suspects, errors.Join(errs...)
}
