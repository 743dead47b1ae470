//go:build linux

package parts

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// copies makes builds of other keys out of one that is real.
func copies(t *testing.T, folder string, count int) []string {
	t.Helper()
	stem, _, _ := cutLast(folder, "-")
	var made []string
	for i := range count {
		other := fmt.Sprintf("%s-%0*d", stem, keyDigits, i)
		if err := os.CopyFS(other, os.DirFS(folder)); err != nil {
			t.Fatal(err)
		}
		unlock, err := tryLock(other + lockSuffix)
		if err != nil {
			t.Fatal(err)
		}
		unlock()
		made = append(made, other)
	}
	return made
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestOldBuildsAreRemoved(t *testing.T) {
	const day = 24 * time.Hour
	b := newBench(t)
	current, _ := b.build(small, false)
	old := copies(t, current, 6)
	// The current one is the last used, so two of the others are among the
	// three that stay.
	age(t, old[0], 2*day)
	age(t, old[1], 3*day)
	age(t, old[2], 4*day)
	age(t, old[3], 5*day)
	age(t, old[4], 6*day)
	age(t, old[5], 7*day)
	busy, err := tryLock(old[3] + lockSuffix)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(old[4]+building+"1", 0o755); err != nil {
		t.Fatal(err)
	}

	if _, built := b.build(small, false); built {
		t.Fatal("the current build is gone")
	}
	for i, stays := range []bool{true, true, false, true, false, false} {
		if exists(old[i]) != stays {
			t.Errorf("build %d: exists %v, want %v", i, exists(old[i]), stays)
		}
		if exists(old[i]+lockSuffix) != stays {
			t.Errorf("lock %d: exists %v, want %v", i, exists(old[i]+lockSuffix), stays)
		}
	}
	if left := unfinished(t, b.cache); len(left) > 0 {
		t.Errorf("unfinished builds were left: %v", left)
	}

	busy()
	b.build(small, false)
	if exists(old[3]) {
		t.Error("a build that nobody holds any more stays")
	}
	age(t, old[0], 31*day)
	b.build(small, false)
	if exists(old[0]) || !exists(old[1]) {
		t.Errorf("after a month: the old one exists %v, the younger one %v", exists(old[0]), exists(old[1]))
	}
}

func TestBuildsUsedTodayStay(t *testing.T) {
	b := newBench(t)
	current, _ := b.build(small, false)
	used := copies(t, current, buildsKept+2)
	for _, folder := range used {
		age(t, folder, time.Hour)
	}
	b.build(small, false)
	for _, folder := range used {
		if !exists(folder) {
			t.Errorf("%s was used an hour ago and is removed", folder)
		}
	}
}

// What is not a build stays: the cache may be a folder with other things.
func TestOthersFilesStay(t *testing.T) {
	b := newBench(t)
	b.build(small, false)
	for _, name := range []string{"notes", "my-file", "small-notakey", ".hidden"} {
		if err := os.Mkdir(filepath.Join(b.cache, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	b.build(small, false)
	for _, name := range []string{"notes", "my-file", "small-notakey", ".hidden"} {
		if !exists(filepath.Join(b.cache, name)) {
			t.Errorf("%s was removed", name)
		}
	}
}

// A lock that was removed while somebody had it open keeps nobody out: the next
// one must be taken on the new file.
func TestLockOfARemovedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := tryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tryLock(path); err != errLocked {
		t.Fatalf("a second lock: %v, want %v", err, errLocked)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	second, err := tryLock(path)
	if err != nil {
		t.Fatalf("a lock on the new file: %v", err)
	}
	first()
	if _, err := tryLock(path); err != errLocked {
		t.Fatalf("after the first is given back: %v, want %v", err, errLocked)
	}
	second()
	third, err := tryLock(path)
	if err != nil {
		t.Fatalf("after all are given back: %v", err)
	}
	third()
}

func TestCacheInsideTheCheckoutIsRefused(t *testing.T) {
	source, err := findSource()
	if err != nil {
		t.Fatal(err)
	}
	checkout := strings.TrimSuffix(source, "/"+toSource)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(checkout, link); err != nil {
		t.Fatal(err)
	}
	for _, inside := range []string{checkout, filepath.Join(checkout, "bin", "cache"), source, filepath.Join(link, "new", "cache")} {
		if folder, err := cacheFolder(inside, source); err == nil || !strings.Contains(err.Error(), "inside the checkout") {
			t.Errorf("cache %s: %q, %v; want it refused", inside, folder, err)
		}
	}
	beside := checkout + "-cache"
	if folder, err := cacheFolder(beside, source); err != nil || !strings.HasPrefix(folder, beside) {
		t.Errorf("cache %s: %q, %v; want it", beside, folder, err)
	}
	t.Setenv("SKERRY_CLUSTER_CACHE", beside)
	if folder, err := cacheFolder("", source); err != nil || !strings.HasPrefix(folder, beside) {
		t.Errorf("cache from the environment: %q, %v; want %s", folder, err, beside)
	}
}
