//go:build linux

package parts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// toSource leads from the top of the checkout to the modules of the parts. They
// are read from the checkout and not embedded: go:embed stops at a go.mod, and
// as modules in their own right every tool can work on them.
const toSource = "test/cluster/parts/src"

// cacheHint goes with every error about a cache that cannot be used.
const cacheHint = "set SKERRY_CLUSTER_CACHE to a folder that can be written"

// findSource looks beside the file this package was compiled from, then above
// the working directory (a binary built with -trimpath does not know its
// origin).
func findSource() (string, error) {
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		if folder := filepath.Join(filepath.Dir(file), "src"); isSource(folder) {
			return folder, nil
		}
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the checkout: %w", err)
	}
	for from := dir; ; from = filepath.Dir(from) {
		if folder := filepath.Join(from, toSource); isSource(folder) {
			return folder, nil
		}
		if from == filepath.Dir(from) {
			return "", fmt.Errorf("no checkout of Skerry at or above %s: run this inside one, it needs %s", dir, toSource)
		}
	}
}

func isSource(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, all[0].name, "go.mod"))
	return err == nil
}

// cacheFolder is the absolute folder of the cache. One inside the checkout is
// refused: gigabytes of binaries would be one careless "git add" from a commit.
func cacheFolder(asked, source string) (string, error) {
	if asked == "" {
		asked = os.Getenv("SKERRY_CLUSTER_CACHE")
	}
	if asked == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("find a cache folder: %w (%s)", err, cacheHint)
		}
		asked = filepath.Join(user, "skerry-cluster")
	}
	cache, err := filepath.Abs(asked)
	if err != nil {
		return "", fmt.Errorf("find the cache folder: %w", err)
	}
	checkout, err := filepath.EvalSymlinks(strings.TrimSuffix(source, "/"+toSource))
	if err != nil {
		return "", fmt.Errorf("find the checkout: %w", err)
	}
	real, err := evalExisting(cache)
	if err != nil {
		return "", fmt.Errorf("find the cache folder: %w", err)
	}
	if real == checkout || strings.HasPrefix(real, checkout+"/") {
		return "", fmt.Errorf("the cache %s lies inside the checkout %s: set SKERRY_CLUSTER_CACHE to a folder outside", cache, checkout)
	}
	return filepath.Join(cache, "parts"), nil
}

// evalExisting follows the symbolic links of as much of path as exists.
func evalExisting(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, os.ErrNotExist) && path != "/" {
		parent, err := evalExisting(filepath.Dir(path))
		return filepath.Join(parent, filepath.Base(path)), err
	}
	return real, err
}
