//go:build linux

package cluster

import (
	"context"
	"fmt"
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

func (f folder) down(ctx context.Context) error {
	c, err := f.running()
	if err != nil {
		return err
	}
	if c != nil {
		// It would go with the cluster's network, but some time after it.
		if err := ip(ctx, "link", "delete", c.Link); err != nil && !strings.Contains(err.Error(), "Cannot find device") {
			return err
		}
	}
	if err := keeper.Kill(ctx, f.dir, f.cgroup()); err != nil {
		return err
	}
	return f.remove()
}
