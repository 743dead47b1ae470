//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/skerry-run/skerry/test/cluster"
)

// followEvery is how often a log is looked at for more.
const followEvery = 200 * time.Millisecond

// logs copies what a program said to stdout and, when it follows, goes on
// until ctx ends.
func logs(ctx context.Context, c *cluster.Cluster, program string, follow bool) error {
	components, err := c.Keeper().Status(ctx)
	if err != nil {
		return err
	}
	var names []string
	for _, s := range components {
		names = append(names, s.Name)
		if s.Name == program {
			return copyLog(ctx, c.LogFile(program), follow)
		}
	}
	return fmt.Errorf("the cluster runs no program %q; it runs %s", program, strings.Join(names, ", "))
}

func copyLog(ctx context.Context, path string, follow bool) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		if _, err := io.Copy(os.Stdout, f); err != nil {
			return err
		}
		if !follow {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(followEvery):
		}
	}
}
