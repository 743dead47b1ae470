//go:build linux

package parts

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// What the cache keeps beside the parts in use: of each part the few last used
// builds, so that switching between branches does not rebuild, for a month. A
// build that was used today always stays: a cluster may be running from it.
const (
	buildsKept = 3
	keptFor    = 30 * 24 * time.Hour
	inUseFor   = 24 * time.Hour
)

// evict removes old builds and what died while building. It is not an error if
// that fails: the next Build tries again.
func (b *builder) evict(parts []part, current []string) {
	entries, err := os.ReadDir(b.cache)
	if err != nil {
		return
	}
	// Builds by part, each build with all that belongs to it under one stem:
	// its folder, its lock, its unfinished folders.
	builds := map[string][]string{}
	for _, entry := range entries {
		stem, _, _ := strings.Cut(entry.Name(), ".")
		name, key, ok := cutLast(stem, "-")
		folder := filepath.Join(b.cache, stem)
		if !ok || len(key) != keyDigits || slices.Contains(builds[name], folder) {
			continue
		}
		builds[name] = append(builds[name], folder)
	}
	for _, folders := range builds {
		slices.SortFunc(folders, func(a, b string) int { return cmp.Compare(unused(a), unused(b)) })
		for i, folder := range folders {
			if slices.Contains(current, folder) || !stale(folder, i) {
				continue
			}
			removeBuild(folder, i)
		}
	}
}

// removeBuild removes all of a build, unless somebody is at it.
func removeBuild(folder string, rank int) {
	unlock, err := tryLock(folder + lockSuffix)
	if err != nil {
		return
	}
	defer unlock()
	// Somebody may have used or built it before the lock was ours.
	if !stale(folder, rank) {
		return
	}
	// The marker first: half a build is none.
	os.Remove(filepath.Join(folder, marker))
	os.RemoveAll(folder)
	removeUnfinished(folder)
	os.Remove(folder + lockSuffix)
}

// stale reports whether a build that is the rank-th last used of its part is to
// go. One that was never finished always is.
func stale(folder string, rank int) bool {
	age := unused(folder)
	return age > keptFor || rank >= buildsKept && age > inUseFor
}

// unused is for how long nobody has used the build. One that was never finished
// has been unused for ever.
func unused(folder string) time.Duration {
	info, err := os.Stat(filepath.Join(folder, marker))
	if err != nil {
		return 1<<63 - 1
	}
	return time.Since(info.ModTime())
}

// cutLast cuts s around the last sep.
func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
