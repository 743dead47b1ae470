//go:build linux

package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

const (
	// FolderVariable names another parent for the clusters' folders.
	FolderVariable = "SKERRY_CLUSTER_DIR"
	defaultParent  = "/var/lib/skerry-cluster"
	defaultName    = "skerry"
	// maxNameBytes keeps the paths of sockets in the folder short enough.
	maxNameBytes = 32
)

var nameRule = regexp.MustCompile(`^[a-z]([a-z0-9-]*[a-z0-9])?$`)

// A folder is where everything of one cluster is kept.
type folder struct {
	name string
	dir  string
}

func folderOf(name string) (folder, error) {
	if name == "" {
		name = defaultName
	}
	if !nameRule.MatchString(name) || len(name) > maxNameBytes {
		return folder{}, fmt.Errorf("cluster name %q: use at most %d lower-case letters, digits and dashes, a letter first", name, maxNameBytes)
	}
	parent := os.Getenv(FolderVariable)
	if parent == "" {
		parent = defaultParent
	}
	parent, err := filepath.Abs(parent)
	if err != nil {
		return folder{}, err
	}
	// The keeper finds its folder again among mounts, where links lead astray.
	if real, err := filepath.EvalSymlinks(parent); err == nil {
		parent = real
	}
	return folder{name: name, dir: filepath.Join(parent, name)}, nil
}

func (f folder) path(elem ...string) string {
	return filepath.Join(append([]string{f.dir}, elem...)...)
}

func (f folder) recordPath() string { return f.path("cluster.json") }

// cgroup is the same for one folder and different for any two.
func (f folder) cgroup() string {
	sum := sha256.Sum256([]byte(f.dir))
	return "skerry-cluster-" + f.name + "-" + hex.EncodeToString(sum[:4])
}

// lock keeps every other Up and Down of the cluster away until release. Beside
// the folder, which comes and goes.
func (f folder) lock(ctx context.Context, log progress) (release func(), err error) {
	path := f.dir + ".lock"
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of the clusters: %w (set %s to another)", err, FolderVariable)
	}
	release, err = tryLock(path)
	if release == nil && err == nil {
		log.printf("waiting for another up or down of cluster %s", f.name)
		release, err = waitForLock(ctx, path)
	}
	if err != nil {
		return nil, fmt.Errorf("wait for another up or down of cluster %s: %w", f.name, err)
	}
	return release, nil
}

// remove removes the folder, unless something is mounted in it: then it would
// remove that as well.
func (f folder) remove() error {
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(info)) {
		fields := strings.Fields(line)
		if len(fields) > 4 && strings.HasPrefix(fields[4]+"/", f.dir+"/") {
			return fmt.Errorf("%s is mounted inside of the cluster's folder; unmount it first", fields[4])
		}
	}
	if err := os.RemoveAll(f.dir); err != nil {
		return fmt.Errorf("remove the cluster's folder: %w", err)
	}
	// The last cluster takes the parent along when that is ours.
	if parent := filepath.Dir(f.dir); parent == defaultParent {
		if err := os.Remove(parent); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTEMPTY) {
			return err
		}
	}
	return nil
}
