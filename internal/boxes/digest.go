//go:build linux

package boxes

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	digestKeyName  = "digest.key"
	digestKeyBytes = 32
)

// KeyedDigest turns the digest of a request into what may stand on disk: who
// reads it can't try guesses of a small secret against it without the key of
// this installation. "" stays "".
func (d Dirs) KeyedDigest(digest string) (string, error) {
	if digest == "" {
		return "", nil
	}
	key, err := d.digestKey()
	if err != nil {
		return "", err
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(digest))
	return hex.EncodeToString(mac.Sum(nil)), nil
}

// digestKey reads the key, and makes it at first use. Of two that make it at
// the same time one wins.
func (d Dirs) digestKey() ([]byte, error) {
	path := filepath.Join(d.State, digestKeyName)
	key, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		fresh := make([]byte, digestKeyBytes)
		_, _ = rand.Read(fresh) // never fails
		tmp, failed := writeTemporary(path, fresh)
		if failed != nil {
			return nil, failed
		}
		failed = os.Link(tmp, path)
		os.Remove(tmp)
		if failed != nil && !errors.Is(failed, fs.ErrExist) {
			return nil, failed
		}
		key, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, err
	}
	if len(key) != digestKeyBytes {
		return nil, fmt.Errorf("%s has %d bytes, not %d: remove it", path, len(key), digestKeyBytes)
	}
	return key, nil
}
