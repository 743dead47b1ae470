//go:build linux

package boxes

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// toldName is a file in a box: a command has told that the session was made
// anew.
const toldName = "told"

// Told says whether a command has told.
func (d Dirs) Told(key string) bool {
	_, err := os.Lstat(filepath.Join(d.boxes(), key, toldName))
	return !errors.Is(err, fs.ErrNotExist)
}

// Tell claims the telling: of all callers it is true for one.
func (d Dirs) Tell(key string) bool {
	f, err := os.OpenFile(filepath.Join(d.boxes(), key, toldName), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return false
	}
	f.Close()
	return true
}
