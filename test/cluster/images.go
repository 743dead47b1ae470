//go:build linux

package cluster

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// ImportImages makes the images in an archive, of Docker's or of the OCI's
// kind, known to the node under the names that they have in it.
func (c *Cluster) ImportImages(ctx context.Context, archive string) error {
	cmd := exec.CommandContext(ctx, c.Programs["ctr"], "--address", c.ContainerdSocket(), "--namespace", "k8s.io", "images", "import", archive)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("import the images of %s: %w: %s", archive, err, strings.TrimSpace(string(out)))
	}
	return nil
}
