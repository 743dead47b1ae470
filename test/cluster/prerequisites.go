//go:build linux

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

var errNotRoot = errors.New("it needs root: namespaces, mounts and firewall rules are made; run it with sudo")

// neededPrograms maps a program that must be there to the package of Debian
// that has it.
var neededPrograms = []struct{ program, pkg string }{
	{"runc", "runc"},
	{"ip", "iproute2"},
	{"iptables", "iptables"},
	{"iptables-save", "iptables"},
	{"ip6tables", "iptables"},
	{"ipset", "ipset"},
	{"nft", "nftables"},
	{"conntrack", "conntrack"},
	{"mount", "mount"},
	{"mmdebstrap", "mmdebstrap"},
	{"go", "golang (or https://go.dev/dl)"},
	{networkPlugins + "/bridge", "containernetworking-plugins"},
	{networkPlugins + "/host-local", "containernetworking-plugins"},
	{networkPlugins + "/loopback", "containernetworking-plugins"},
	{networkPlugins + "/portmap", "containernetworking-plugins"},
}

// checkMachine says everything that is missing for a cluster on this machine.
func checkMachine(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errNotRoot
	}
	var missing []error
	for _, n := range neededPrograms {
		if _, err := exec.LookPath(n.program); err != nil {
			missing = append(missing, fmt.Errorf("there is no %s; install the package %s, or run `scripts/setup.sh cluster`", n.program, n.pkg))
		}
	}
	filesystems, err := os.ReadFile("/proc/filesystems")
	if err != nil {
		return err
	}
	if !bytes.Contains(filesystems, []byte("\toverlay\n")) {
		if err := loadModule(ctx, "overlay"); err != nil {
			missing = append(missing, fmt.Errorf("the kernel has no overlay file system, which images need: %w", err))
		}
	}
	if _, err := os.Stat("/proc/sys/net/bridge"); err != nil {
		if err := loadModule(ctx, "br_netfilter"); err != nil {
			missing = append(missing, fmt.Errorf("the kernel does not filter bridges, which network policies need: %w", err))
		}
	}
	if err := checkCgroups(); err != nil {
		missing = append(missing, err)
	}
	if len(missing) > 0 {
		return errors.Join(missing...)
	}
	return checkLinks(ctx)
}

func loadModule(ctx context.Context, name string) error {
	out, err := exec.CommandContext(ctx, "modprobe", name).CombinedOutput()
	if err != nil {
		return fmt.Errorf("load the module %s: %w: %s", name, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// checkCgroups looks for the controllers that the kubelet insists on, in
// either version.
func checkCgroups() error {
	have, err := os.ReadFile("/sys/fs/cgroup/cgroup.controllers")
	for _, controller := range []string{"cpu", "cpuset", "memory", "pids"} {
		_, errV1 := os.Stat(filepath.Join("/sys/fs/cgroup", controller))
		inV2 := err == nil && bytes.Contains(append(have, ' '), []byte(controller+" "))
		if errV1 != nil && !inV2 {
			return fmt.Errorf("the cgroup controller %s is not there under /sys/fs/cgroup; mount it", controller)
		}
	}
	return nil
}

// checkLinks makes the kinds of links that a cluster is connected with, in a
// network of its own that is gone at once.
func checkLinks(ctx context.Context) error {
	result := make(chan error, 1)
	go func() {
		// Never unlocked: the thread, and with it the network, ends here.
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			result <- fmt.Errorf("make a network namespace: %w; a container needs to be privileged", err)
			return
		}
		for _, args := range [][]string{
			{"link", "add", "name", "left", "type", "veth", "peer", "name", "right"},
			{"link", "add", "name", "middle", "type", "bridge"},
		} {
			if err := ip(ctx, args...); err != nil {
				result <- fmt.Errorf("the kernel makes no links of a kind that a cluster needs: %w", err)
				return
			}
		}
		result <- nil
	}()
	return <-result
}
