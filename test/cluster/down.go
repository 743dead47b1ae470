//go:build linux

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/skerry-run/skerry/test/cluster/keeper"
)

// downTimeout bounds the tear-down after a boot that failed.
const downTimeout = 30 * time.Second

// Down ends the cluster of that name and removes everything of it, in whatever
// state it is. It is no error when there is none.
func Down(ctx context.Context, name string) error {
	f, err := folderOf(name)
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("take cluster %s down: %w", f.name, errNotRoot)
	}
	release, err := f.lock(ctx, newProgress(os.Stderr))
	if err != nil {
		return err
	}
	defer release()
	if err := f.down(ctx); err != nil {
		return fmt.Errorf("take cluster %s down: %w", f.name, err)
	}
	return nil
}

// down removes whatever there is of the cluster.
func (f folder) down(ctx context.Context) error {
	pid, err := keeper.PID(f.dir)
	if err != nil {
		return err
	}
	if pid != 0 {
		// The link would go with the cluster's network, but some time after
		// it. Both ends go at once; it may not have been made yet.
		err := inNetwork(pid, func() error { return ip(ctx, "link", "delete", innerLink) })
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !strings.Contains(err.Error(), "Cannot find device") {
			return err
		}
	}
	if err := keeper.Kill(ctx, f.dir, f.cgroup()); err != nil {
		return err
	}
	return f.remove()
}
