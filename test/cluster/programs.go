//go:build linux

package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/skerry-run/skerry/test/cluster/image"
	"github.com/skerry-run/skerry/test/cluster/keeper"
)

// The names of the cluster's programs, as the keeper knows them.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kubelet           = "kubelet"
	Proxy             = "kube-proxy"
	Router            = "kube-router"
	Containerd        = "containerd"
	Provisioner       = "provisioner"
)

// A boot is a cluster that is being booted.
type boot struct {
	*Cluster
	folder
	log    progress
	images []image.Image // the pause image first
	cache  string        // as in Config
}

// start has the keeper run one of the cluster's programs.
func (b *boot) start(ctx context.Context, name string, args ...string) error {
	b.log.printf("starting %s", name)
	return b.Keeper().Run(ctx, keeper.Component{
		Name: name,
		Args: append([]string{b.Programs[name]}, args...),
		Env: []string{
			"PATH=" + strings.Join(append(b.programFolders(), "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"), ":"),
			"HOME=" + b.path("home"),
			"TMPDIR=" + b.path("tmp"),
		},
		Log: b.LogFile(name),
	})
}

// programFolders lists the folders that the programs are in.
func (c *Cluster) programFolders() []string {
	var folders []string
	for _, path := range c.Programs {
		folders = append(folders, filepath.Dir(path))
	}
	slices.Sort(folders)
	return slices.Compact(folders)
}

// write writes one of the cluster's own configuration files and returns its
// path.
func (b *boot) write(name, content string) (string, error) {
	path := b.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		return "", fmt.Errorf("configure the cluster: %w", err)
	}
	return path, nil
}
