//go:build linux

package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// marker is written last into a folder of the cache: one without it is not
	// built. Its time is when the folder was last used.
	marker = "images.json"

	// building begins what is appended to the name of a folder that is being
	// built.
	building = ".building-"

	// keptFor is how long a build stays after its last use when there is
	// another one.
	keptFor = 3 * 24 * time.Hour

	// How often a process that waits for another's build looks again: flock
	// can't be waited for together with a context.
	lockPoll = 200 * time.Millisecond
)

// A record is what the marker says of one image.
type record struct {
	Name   string `json:"name"`
	File   string `json:"file"` // in the folder
	Size   int64  `json:"size"` // of the file, in bytes
	Digest string `json:"digest"`
}

// ensure returns the images in the folder called kind-key, after having them
// made if they are not there or not as they were made. make puts archives into
// the folder it is given, and says which image is in which; it has the folder
// for itself, and what it leaves there besides goes away.
func (b *builder) ensure(ctx context.Context, kind, key string, make func(work string) ([]Image, error)) ([]Image, error) {
	unlock, err := lock(ctx, filepath.Join(b.cache, kind+".lock"), func() { b.log.printf("%s: another process is at it, wait for that", kind) })
	if err != nil {
		return nil, err
	}
	defer unlock()
	folder := filepath.Join(b.cache, kind+"-"+key)
	images, problem := readEntry(folder)
	if problem == nil {
		now := time.Now()
		return images, os.Chtimes(filepath.Join(folder, marker), now, now)
	}
	if !errors.Is(problem, os.ErrNotExist) {
		b.log.printf("%s: build it again: %v", kind, problem)
	}
	if err := b.fill(folder, make); err != nil {
		return nil, err
	}
	b.evict(kind, folder)
	return readEntry(folder)
}

// fill makes the folder beside its place and puts it there by a rename. The
// lock is held, so nobody is at work on what an earlier one left.
func (b *builder) fill(folder string, make func(work string) ([]Image, error)) error {
	left, _ := filepath.Glob(folder + building + "*")
	for _, path := range left {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("remove an unfinished build: %w", err)
		}
	}
	outer, err := os.MkdirTemp(b.cache, filepath.Base(folder)+building)
	if err != nil {
		return fmt.Errorf("make a folder to build in: %w", err)
	}
	defer os.RemoveAll(outer)
	images, err := make(outer)
	if err != nil {
		return err
	}
	// Apart from what was only needed on the way.
	done := filepath.Join(outer, "done")
	if err := os.Mkdir(done, 0o755); err != nil {
		return err
	}
	records := []record{}
	for _, image := range images {
		file := filepath.Base(image.Path)
		path := filepath.Join(done, file)
		// Two images may be in one archive.
		if err := os.Rename(image.Path, path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		size, err := syncFile(path)
		if err != nil {
			return err
		}
		records = append(records, record{Name: image.Name, File: file, Size: size, Digest: image.Digest})
	}
	data, err := json.MarshalIndent(records, "", "\t")
	if err != nil {
		return err
	}
	path := filepath.Join(done, marker)
	if err := os.WriteFile(path, append(data, '\n'), 0o644); err != nil {
		return err
	}
	for _, path := range []string{path, done} {
		if _, err := syncFile(path); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(folder); err != nil {
		return fmt.Errorf("remove the damaged build: %w", err)
	}
	return os.Rename(done, folder)
}

// readEntry gives the images of a folder that was built to the end, and an
// error that is os.ErrNotExist when there is none.
func readEntry(folder string) ([]Image, error) {
	data, err := os.ReadFile(filepath.Join(folder, marker))
	if err != nil {
		return nil, err
	}
	var records []record
	if err := json.Unmarshal(data, &records); err != nil {
		return nil, fmt.Errorf("read %s: %w", marker, err)
	}
	var images []Image
	for _, r := range records {
		path := filepath.Join(folder, r.File)
		info, err := os.Lstat(path)
		if err != nil {
			return nil, fmt.Errorf("%s is gone", r.File)
		}
		if info.Size() != r.Size {
			return nil, fmt.Errorf("%s has %d bytes, it was built with %d", r.File, info.Size(), r.Size)
		}
		images = append(images, Image{Name: r.Name, Path: path, Digest: r.Digest})
	}
	return images, nil
}

// evict removes the kind's builds that nobody has used for long, and what died
// while it was built. The kind's lock is held. It is not an error if that
// fails: the next build tries again.
func (b *builder) evict(kind, current string) {
	entries, err := os.ReadDir(b.cache)
	if err != nil {
		return
	}
	for _, entry := range entries {
		path := filepath.Join(b.cache, entry.Name())
		if !entry.IsDir() || path == current || !strings.HasPrefix(entry.Name(), kind+"-") {
			continue
		}
		info, err := os.Stat(filepath.Join(path, marker))
		if err == nil && time.Since(info.ModTime()) < keptFor {
			continue
		}
		// The marker first: half a build is none.
		_ = os.Remove(filepath.Join(path, marker))
		_ = os.RemoveAll(path)
	}
}

// lock takes the file at path for this process, waiting for whoever has it; a
// process that dies gives it back. waiting is called once if there is a wait.
// The caller calls the returned function to give it back.
func lock(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("make a lock: %w", err)
	}
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			file.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if waiting != nil {
			waiting()
			waiting = nil
		}
		select {
		case <-ctx.Done():
			file.Close()
			return nil, context.Cause(ctx)
		case <-time.After(lockPoll):
		}
	}
}

func syncFile(path string) (size int64, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), file.Sync()
}
