//go:build linux

package parts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// marker is written last into a part's folder: a folder without it is not
// built. Its time is when the part was last used.
const marker = "built.json"

// building separates the folder of a part from what mkdirtemp appends while it
// is being built.
const building = ".building-"

// lockSuffix makes the name of a part's lock out of that of its folder.
const lockSuffix = ".lock"

// A record is what is known of a binary since it was built.
type record struct {
	Size   int64       `json:"size"`
	Mode   fs.FileMode `json:"mode"`
	SHA256 string      `json:"sha256"`
}

// ensure returns the folder with the part's binaries and builds them if they
// are not there or not as they were built.
func (b *builder) ensure(ctx context.Context, p part) (string, error) {
	key, err := b.key(p)
	if err != nil {
		return "", err
	}
	folder := b.folder(p, key)
	job := b.progress.job(p.name)
	defer job.end()
	// Also to look: the folder must not be removed between the look and the
	// note that it is used.
	unlock, err := lock(ctx, folder+lockSuffix, job.wait)
	if err != nil {
		return "", err
	}
	defer unlock()

	problem := checkEntry(folder, p, b.verify)
	if problem == nil {
		return folder, touch(folder)
	}
	if _, err := os.Lstat(folder); err == nil {
		job.say("build it again: %v", problem)
	}
	if err := b.make(ctx, p, folder, job); err != nil {
		return "", err
	}
	return folder, nil
}

// make builds the part beside its folder and puts it there by a rename. The
// part's lock is held.
func (b *builder) make(ctx context.Context, p part, folder string, job *job) error {
	removeUnfinished(folder)
	// On the same file system, and never under a name used before: a compiler
	// that outlived its builder may still be writing there.
	work, err := os.MkdirTemp(b.cache, filepath.Base(folder)+building)
	if err != nil {
		return fmt.Errorf("make a folder to build in: %w", err)
	}
	defer os.RemoveAll(work)
	if err := os.Chmod(work, 0o755); err != nil {
		return err
	}

	job.begin(b.tool)
	records := map[string]record{}
	for _, bin := range p.binaries {
		path := filepath.Join(work, bin.name)
		if err := b.tool.build(ctx, filepath.Join(b.source, p.name), p, bin, path, job); err != nil {
			return err
		}
		if records[bin.name], err = measure(path); err != nil {
			return err
		}
		for _, alias := range bin.aliases {
			if err := os.Symlink(bin.name, filepath.Join(work, alias)); err != nil {
				return err
			}
		}
	}
	if err := writeMarker(work, records); err != nil {
		return err
	}
	if err := os.RemoveAll(folder); err != nil {
		return fmt.Errorf("remove the damaged build: %w", err)
	}
	if err := os.Rename(work, folder); err != nil {
		return fmt.Errorf("put the build in its place: %w", err)
	}
	job.built()
	return nil
}

// checkEntry says what is wrong with a part's folder, nil when nothing is.
// Checksums are compared if verify is set, else only sizes and modes.
func checkEntry(folder string, p part, verify bool) error {
	data, err := os.ReadFile(filepath.Join(folder, marker))
	if err != nil {
		return err
	}
	var records map[string]record
	if err := json.Unmarshal(data, &records); err != nil {
		return fmt.Errorf("read %s: %w", marker, err)
	}
	for _, bin := range p.binaries {
		path := filepath.Join(folder, bin.name)
		want, ok := records[bin.name]
		if !ok {
			return fmt.Errorf("%s does not mention %s", marker, bin.name)
		}
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		if info.Size() != want.Size || info.Mode() != want.Mode {
			return fmt.Errorf("%s has %d bytes and mode %v, it was built with %d and %v",
				bin.name, info.Size(), info.Mode(), want.Size, want.Mode)
		}
		if verify {
			sum, err := checksum(path)
			if err != nil {
				return err
			}
			if sum != want.SHA256 {
				return fmt.Errorf("%s is not what was built: its checksum differs", bin.name)
			}
		}
		for _, alias := range bin.aliases {
			if to, err := os.Readlink(filepath.Join(folder, alias)); err != nil || to != bin.name {
				return fmt.Errorf("%s does not lead to %s", alias, bin.name)
			}
		}
	}
	return nil
}

func writeMarker(folder string, records map[string]record) error {
	data, err := json.MarshalIndent(records, "", "\t")
	if err != nil {
		return err
	}
	path := filepath.Join(folder, marker)
	if err := os.WriteFile(path, append(data, '\n'), 0o644); err != nil {
		return err
	}
	if err := syncFile(path); err != nil {
		return err
	}
	return syncFile(folder)
}

// measure looks at a binary that was just built and makes sure that it is on
// the disk before the marker says so.
func measure(path string) (record, error) {
	if err := os.Chmod(path, 0o755); err != nil {
		return record{}, err
	}
	if err := syncFile(path); err != nil {
		return record{}, err
	}
	sum, err := checksum(path)
	if err != nil {
		return record{}, err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return record{}, err
	}
	return record{Size: info.Size(), Mode: info.Mode(), SHA256: sum}, nil
}

func checksum(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

func syncFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return file.Sync()
}

// touch notes that the part is used.
func touch(folder string) error {
	now := time.Now()
	if err := os.Chtimes(filepath.Join(folder, marker), now, now); err != nil {
		return fmt.Errorf("note that a part is used: %w", err)
	}
	return nil
}

// removeUnfinished removes what builds of the part that died have left. The
// part's lock is held, so none of them is alive.
func removeUnfinished(folder string) {
	left, _ := filepath.Glob(folder + building + "*")
	for _, path := range left {
		os.RemoveAll(path)
	}
}
