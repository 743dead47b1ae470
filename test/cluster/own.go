//go:build linux

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// ownPrograms are those of this module that a cluster runs.
var ownPrograms = []string{"keeper", "provisioner"}

// buildOwn brings the programs of this module up to date in the cache.
func buildOwn(ctx context.Context, cache string) error {
	return inOwnCache(ctx, cache, func(cache string) error {
		// The go command does nothing for what is there and up to date. With
		// other flags than those of everyday it would compile the client
		// library a second time.
		args := []string{"build", "-o", cache + "/"}
		for _, name := range ownPrograms {
			args = append(args, "github.com/skerry-run/skerry/test/cluster/cmd/"+name)
		}
		build := exec.CommandContext(ctx, "go", args...)
		if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
			if _, err := os.Stat(file); err == nil {
				build.Dir = filepath.Dir(file)
			}
		}
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build the cluster's own programs: %w: %s", err, strings.TrimSpace(string(out)))
		}
		return nil
	})
}

// copyOwn copies the programs to a folder of the cluster's, so that a later
// build does not change what it runs.
func copyOwn(ctx context.Context, cache, to string) error {
	return inOwnCache(ctx, cache, func(cache string) error {
		if err := os.MkdirAll(to, 0o755); err != nil {
			return err
		}
		for _, name := range ownPrograms {
			if err := copyProgram(filepath.Join(cache, name), filepath.Join(to, name)); err != nil {
				return err
			}
		}
		return nil
	})
}

// inOwnCache calls do with the folder that the programs are kept in, which
// nobody else uses meanwhile.
func inOwnCache(ctx context.Context, asked string, do func(cache string) error) error {
	cache, err := ownCache(asked)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return fmt.Errorf("make the cache: %w (set %s to a folder that can be written)", err, cacheVariable)
	}
	release, err := waitForLock(ctx, filepath.Join(cache, "lock"))
	if err != nil {
		return err
	}
	defer release()
	return do(cache)
}

const cacheVariable = "SKERRY_CLUSTER_CACHE"

func ownCache(asked string) (string, error) {
	if asked == "" {
		asked = os.Getenv(cacheVariable)
	}
	if asked == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("find a cache folder: %w (set %s to one)", err, cacheVariable)
		}
		asked = filepath.Join(user, "skerry-cluster")
	}
	asked, err := filepath.Abs(asked)
	return filepath.Join(asked, "own"), err
}

func copyProgram(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	_, err = io.Copy(out, in)
	return err
}
