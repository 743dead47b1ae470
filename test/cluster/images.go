//go:build linux

package cluster

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"

	"github.com/skerry-run/skerry/test/cluster/image"
)

// ImportImages makes the images in an archive, of Docker's or of the OCI's
// kind, known to the node under the names that they have in it.
func (c *Cluster) ImportImages(ctx context.Context, archive string) error {
	if _, err := c.ctr(ctx, "images", "import", archive); err != nil {
		return fmt.Errorf("import the images of %s: %w", archive, err)
	}
	return nil
}

// importMissing imports the images that the node does not have.
func (c *Cluster) importMissing(ctx context.Context, images []image.Image) error {
	out, err := c.ctr(ctx, "images", "ls", "-q")
	if err != nil {
		return err
	}
	known := strings.Fields(out)
	var imported []string
	for _, i := range images {
		// Several images may share an archive.
		if slices.Contains(known, i.Pinned()) || slices.Contains(imported, i.Path) {
			continue
		}
		if err := c.ImportImages(ctx, i.Path); err != nil {
			return err
		}
		imported = append(imported, i.Path)
	}
	return nil
}

// ctr runs containerd's client on what the kubelet uses, and returns what it
// said.
func (c *Cluster) ctr(ctx context.Context, args ...string) (string, error) {
	args = append([]string{"--address", c.ContainerdSocket(), "--namespace", "k8s.io"}, args...)
	out, err := exec.CommandContext(ctx, c.Programs["ctr"], args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("ctr: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

// waitContainerd returns when containerd answers.
func (c *Cluster) waitContainerd(ctx context.Context) error {
	return poll(ctx, "containerd to answer", func(ctx context.Context) error {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "unix", c.ContainerdSocket())
		if err != nil {
			return err
		}
		return conn.Close()
	})
}
