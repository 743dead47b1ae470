//go:build linux

package image

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// cacheVariable names another cache, for the programs of the cluster as well.
const cacheVariable = "SKERRY_CLUSTER_CACHE"

// checkout is the absolute path of the checkout, with links followed.
func checkout(asked string) (string, error) {
	if asked == "" {
		_, file, _, ok := runtime.Caller(0)
		if !ok || !filepath.IsAbs(file) {
			return "", errors.New("this program does not know the checkout it was built from: run it with `go run`, or give Root")
		}
		// This file is test/cluster/image/folders.go.
		asked = filepath.Join(filepath.Dir(file), "..", "..", "..")
	}
	asked, err := filepath.Abs(asked)
	if err == nil {
		asked, err = filepath.EvalSymlinks(asked)
	}
	if err == nil {
		_, err = os.Stat(filepath.Join(asked, recipeFile))
	}
	if err != nil {
		return "", fmt.Errorf("find the checkout of Skerry: %w", err)
	}
	return asked, nil
}

// cacheFolder is the absolute folder of the images. One inside the checkout is
// refused: hundreds of megabytes would be one careless "git add" from a commit.
func cacheFolder(asked, root string) (string, error) {
	if asked == "" {
		asked = os.Getenv(cacheVariable)
	}
	if asked == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("find a cache folder: %w (set %s)", err, cacheVariable)
		}
		asked = filepath.Join(user, "skerry-cluster")
	}
	cache, err := filepath.Abs(asked)
	if err != nil {
		return "", fmt.Errorf("find the cache folder: %w", err)
	}
	real, err := evalExisting(cache)
	if err != nil {
		return "", fmt.Errorf("find the cache folder: %w", err)
	}
	if real == root || strings.HasPrefix(real, root+"/") {
		return "", fmt.Errorf("the cache %s lies inside the checkout %s: set %s to a folder outside", cache, root, cacheVariable)
	}
	return filepath.Join(real, "images"), nil
}

// evalExisting follows the links of as much of path as exists.
func evalExisting(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, os.ErrNotExist) && path != "/" {
		parent, err := evalExisting(filepath.Dir(path))
		return filepath.Join(parent, filepath.Base(path)), err
	}
	return real, err
}
