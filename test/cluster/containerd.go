//go:build linux

package cluster

import (
	"context"
	"fmt"

	"github.com/skerry-run/skerry/test/cluster/image"
)

// ContainerdSocket is containerd's address, for programs such as ctr; the
// images of pods are in its namespace k8s.io.
func (c *Cluster) ContainerdSocket() string { return c.Dir + "/containerd.sock" }

const networkConfig = `{
  "cniVersion": "1.0.0",
  "name": "pods",
  "plugins": [
    {
      "type": "bridge",
      "bridge": "pods",
      "isGateway": true,
      "ipMasq": true,
      "hairpinMode": true,
      "ipam": {
        "type": "host-local",
        "dataDir": "/run/cni",
        "ranges": [[{"subnet": "10.244.0.0/24"}]],
        "routes": [{"dst": "0.0.0.0/0"}]
      }
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`

const gvisorConfig = `binary_name = %q

[runsc_config]
platform = "systrap"
`

const containerdConfig = `version = 3
root = %[1]q
# In memory and private to the cluster, like everything under /run.
state = "/run/containerd"

[grpc]
  address = %[2]q

[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = %[3]q

[plugins."io.containerd.cri.v1.runtime"]
  # To lower a process's oom_score_adj needs CAP_SYS_RESOURCE, which a machine
  # that runs tests in a container does not give.
  restrict_oom_score_adj = true

  [plugins."io.containerd.cri.v1.runtime".containerd]
    default_runtime_name = "runc"

    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
        SystemdCgroup = false

    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.gvisor]
      runtime_type = "io.containerd.runsc.v1"
      [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.gvisor.options]
        TypeUrl = "io.containerd.runsc.v1.options"
        ConfigPath = %[4]q

  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = [%[5]q]
    conf_dir = %[6]q
`

func (b *boot) startContainerd(ctx context.Context) error {
	if _, err := b.write("cni/10-pods.conflist", networkConfig); err != nil {
		return err
	}
	gvisor, err := b.write("gvisor.toml", fmt.Sprintf(gvisorConfig, b.Programs["runsc"]))
	if err != nil {
		return err
	}
	config, err := b.write("containerd.toml", fmt.Sprintf(containerdConfig,
		b.path("containerd"), b.ContainerdSocket(), image.Pause, gvisor, networkPlugins, b.path("cni")))
	if err != nil {
		return err
	}
	return b.start(ctx, Containerd, "--config="+config)
}

// networkPlugins is where Debian's package containernetworking-plugins puts
// them.
const networkPlugins = "/usr/lib/cni"
