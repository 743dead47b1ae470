//go:build linux

package parts

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// keyFormat goes into every key, so that a change of what the cache holds, and
// not only of what is built, begins afresh.
const keyFormat = "skerry cluster part 1"

// keyDigits of the hash name a folder: 80 bits.
const keyDigits = 20

// key is a hash of everything that decides the part's binaries: every file of
// its folder, the Go that builds and for what system, and how it is called.
func (b *builder) key(p part) (string, error) {
	hash := sha256.New()
	// %q, so that no two lists of values read the same.
	fmt.Fprintf(hash, "%q %q %q %q\n", keyFormat, p.name, b.tool.identity(), b.tool.decisive())
	for _, bin := range p.binaries {
		fmt.Fprintf(hash, "%q %q\n", bin.aliases, b.tool.buildArgs(p, bin, bin.name))
	}
	root := filepath.Join(b.source, p.name)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		fmt.Fprintf(hash, "%q %q\n", name, sha256.Sum256(data))
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("read the sources: %w", err)
	}
	return hex.EncodeToString(hash.Sum(nil))[:keyDigits], nil
}

// folder is where the part lies in the cache once it is built.
func (b *builder) folder(p part, key string) string {
	return filepath.Join(b.cache, p.name+"-"+key)
}
