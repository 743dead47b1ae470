//go:build linux

package boxes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/skerry-run/skerry"
)

// Why a sandbox ended.
const (
	EndedTTL      = "ttl"
	EndedIdle     = "idle"
	EndedShutdown = "shutdown" // its owner ended it
	EndedOwner    = "owner"    // the process that it belonged to is gone
	EndedOOM      = "oom"      // the kernel killed its init for memory
	EndedLost     = "lost"     // it died, or its supervisor did
)

// Note is kept of a sandbox after its end.
type Note struct {
	Ref    skerry.Ref `json:"ref"`
	Ended  time.Time  `json:"ended"`
	Until  time.Time  `json:"until"` // forgotten then
	Reason string     `json:"reason"`
	Memory int64      `json:"memory_bytes,omitempty"` // the limit that was reached, with EndedOOM

	Digest string       `json:"digest,omitempty"` // of a run's request, keyed
	Exit   *skerry.Exit `json:"exit,omitempty"`   // how its command had ended, when its maker said so
}

// Words says in a sentence how the sandbox ended.
func (n Note) Words() string {
	at := n.Ended.UTC().Format(time.RFC3339)
	switch n.Reason {
	case EndedTTL:
		return "its time to live (ttl) was over at " + at
	case EndedIdle:
		if n.Ref.Kind == skerry.RunKind {
			return "it had been kept for its retention; it ended at " + at
		}
		return "nobody had used it for its idle time; it ended at " + at
	case EndedShutdown:
		return "it was removed at " + at
	case EndedOOM:
		return fmt.Sprintf("the kernel killed process 1 of the sandbox, and with it everything in there, because its memory limit of %d bytes was reached; this was noticed at %s", n.Memory, at)
	case EndedOwner:
		return "the process that it belonged to was gone at " + at
	}
	return "its sandbox died; this was noticed at " + at
}

// Remember keeps a note of key. The file's time is when it is forgotten, so
// that whoever prunes need not open it.
func (d Dirs) Remember(key string, n Note) error {
	path := filepath.Join(d.ended(), key+".json")
	if err := writeJSON(path, n); err != nil {
		return err
	}
	return os.Chtimes(path, n.Until, n.Until)
}

// Recall gives the note of key, if there is one that is still kept.
func (d Dirs) Recall(key string) (Note, bool) {
	var n Note
	if err := readJSON(filepath.Join(d.ended(), key+".json"), &n); err != nil || time.Now().After(n.Until) {
		return Note{}, false
	}
	return n, true
}

// Forget removes the note of key.
func (d Dirs) Forget(key string) error {
	err := os.Remove(filepath.Join(d.ended(), key+".json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// staleTemporary is the age at which a file that is being written has been
// given up by its writer.
const staleTemporary = time.Minute

// prune forgets what is past its time. Each call looks at the times of all
// notes, and opens only those that seem to be over.
func (d Dirs) prune() error {
	entries, err := os.ReadDir(d.ended())
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		key, isNote := strings.CutSuffix(e.Name(), ".json")
		if !isNote {
			if fi, err := e.Info(); err == nil && time.Since(fi.ModTime()) > staleTemporary {
				errs = append(errs, os.Remove(filepath.Join(d.ended(), e.Name())))
			}
			continue
		}
		if fi, err := e.Info(); err == nil && time.Now().Before(fi.ModTime()) {
			continue
		}
		if _, ok := d.Recall(key); !ok {
			errs = append(errs, d.Forget(key))
		}
	}
	return errors.Join(errs...)
}
