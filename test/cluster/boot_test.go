//go:build linux

package cluster

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/skerry-run/skerry/test/cluster/keeper"
	"golang.org/x/sys/unix"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const kubernetesVersion = "v1.37.2"

// bootTest boots a cluster that is gone when the test ends, or skips it where none
// can be.
func bootTest(t *testing.T, name string) *Cluster {
	t.Helper()
	needsMachine(t)
	t.Cleanup(func() {
		if err := Down(context.WithoutCancel(t.Context()), name); err != nil {
			t.Error(err)
		}
	})
	c, err := Up(t.Context(), Config{Name: name, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func needsMachine(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("boots a cluster, which -short leaves out")
	}
	if err := checkMachine(t.Context()); err != nil {
		t.Skipf("no cluster can be booted on this machine: %v", err)
	}
}

// checkUsable looks at the cluster as a client does.
func checkUsable(t *testing.T, c *Cluster) {
	t.Helper()
	client, err := c.Client()
	if err != nil {
		t.Fatal(err)
	}
	node, err := client.CoreV1().Nodes().Get(t.Context(), c.NodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !isReady(node) || node.Status.NodeInfo.KubeletVersion != kubernetesVersion {
		t.Errorf("node %s: Ready=%v, version %s", node.Name, isReady(node), node.Status.NodeInfo.KubeletVersion)
	}
	info, err := os.Stat(c.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the administrator's kubeconfig has the mode %v", info.Mode())
	}
	components, err := c.Keeper().Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range components {
		if s.State != keeper.Running {
			t.Errorf("%s is %s (%s)", s.Name, s.State, s.LastExit)
		}
	}
}

// checkGone looks for everything that a cluster makes on the host.
func checkGone(t *testing.T, f folder, link string) {
	t.Helper()
	if _, err := os.Lstat(f.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its folder is there: %v", err)
	}
	if _, err := os.Lstat("/sys/class/net/" + link); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its link %s is there: %v", link, err)
	}
	groups, err := filepath.Glob("/sys/fs/cgroup/*/" + f.cgroup())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat("/sys/fs/cgroup/" + f.cgroup()); len(groups) > 0 || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its cgroups are there: %v, %v", groups, err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), f.dir) {
		t.Errorf("something of it is mounted:\n%s", mounts)
	}
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range processes {
		// One that ends meanwhile can't be read.
		if line, err := os.ReadFile(p); err == nil && strings.Contains(string(line), f.dir+"/") {
			t.Errorf("a process of it runs: %q", line)
		}
	}
}

// firewall lists the host's rules that are of a cluster's kind. There may be
// others: this machine is not ours alone.
func firewall(t *testing.T) string {
	t.Helper()
	kind := regexp.MustCompile(`(?i).*(kube|10\.244\.|10\.96\.|cni).*`)
	var all []string
	for _, args := range [][]string{{"nft", "list", "ruleset"}, {"iptables-save"}, {"ip6tables-save"}, {"ipset", "list", "-n"}, {"ip", "-br", "link", "show", "type", "bridge"}} {
		out, err := exec.Command(args[0], args[1:]...).Output()
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		all = append(all, kind.FindAllString(string(out), -1)...)
	}
	return strings.Join(all, "\n")
}

func TestThreeTimesUpAndDown(t *testing.T) {
	needsMachine(t)
	f, err := folderOf("boot-thrice")
	if err != nil {
		t.Fatal(err)
	}
	before := firewall(t)
	for range 3 {
		c := bootTest(t, f.name)
		checkUsable(t, c)
		if during := firewall(t); during != before {
			t.Errorf("a running cluster has rules on the host:\n%s\nbefore:\n%s", during, before)
		}
		if err := Down(t.Context(), f.name); err != nil {
			t.Fatal(err)
		}
		checkGone(t, f, c.Link)
		if _, err := Open(f.name); !errors.Is(err, ErrNotRunning) {
			t.Errorf("after Down: %v", err)
		}
	}
	if after := firewall(t); after != before {
		t.Errorf("clusters left rules on the host:\n%s\nbefore:\n%s", after, before)
	}
}

func TestUpAfterAnythingWasKilled(t *testing.T) {
	c := bootTest(t, "boot-killed")
	for _, name := range []string{APIServer, Kubelet, Containerd, Etcd} {
		if err := c.Keeper().Signal(t.Context(), name, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Keeper().Stop(t.Context(), Scheduler); err != nil {
		t.Fatal(err)
	}
	again, err := Up(t.Context(), Config{Name: c.Name, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	if again.NodeIP != c.NodeIP {
		t.Errorf("after its programs were killed it is another cluster: %s, before %s", again.NodeIP, c.NodeIP)
	}
	checkUsable(t, again)

	// With its keeper everything is gone, and Up makes a new one of the same
	// name.
	pid, err := keeper.PID(c.Dir)
	if err != nil || pid == 0 {
		t.Fatalf("the keeper's process: %d, %v", pid, err)
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	third, err := Up(t.Context(), Config{Name: c.Name, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	checkUsable(t, third)
	if now, err := keeper.PID(c.Dir); err != nil || now == 0 || now == pid {
		t.Errorf("the keeper's process after Up: %d, %v, before %d", now, err, pid)
	}
}

func TestTwoAtOnceShareOneAndAnotherRunsBeside(t *testing.T) {
	needsMachine(t)
	names := []string{"boot-left", "boot-left", "boot-right"}
	got := make([]*Cluster, len(names))
	errs := make([]error, len(names))
	var wait sync.WaitGroup
	for i, name := range names {
		t.Cleanup(func() {
			if err := Down(context.WithoutCancel(t.Context()), name); err != nil {
				t.Error(err)
			}
		})
		wait.Go(func() { got[i], errs[i] = Up(t.Context(), Config{Name: name, Log: t.Output()}) })
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if got[0].NodeIP != got[1].NodeIP || got[0].Kubeconfig() != got[1].Kubeconfig() {
		t.Errorf("two at once of one name: %+v and %+v", got[0], got[1])
	}
	if got[0].NodeIP == got[2].NodeIP || got[0].Link == got[2].Link {
		t.Errorf("two names share an address: %+v and %+v", got[0], got[2])
	}
	for _, c := range got {
		checkUsable(t, c)
	}
	// The end of one is not the end of the other.
	if err := Down(t.Context(), names[0]); err != nil {
		t.Fatal(err)
	}
	checkUsable(t, got[2])
}

func TestDownAfterABootThatWasCutShort(t *testing.T) {
	needsMachine(t)
	f, err := folderOf("boot-cut")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := Down(context.WithoutCancel(t.Context()), f.name); err != nil {
			t.Error(err)
		}
	})
	made, err := makeMaterials(t.Context(), Config{Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	// What a boot that was killed leaves: a keeper, a link and a program, and
	// no record of the cluster.
	b := &boot{folder: f, log: newProgress(t.Output()), Cluster: &Cluster{Name: f.name, Dir: f.dir, NodeName: f.name, Programs: map[string]string{Etcd: made.programs.Path(Etcd)}}}
	if err := os.MkdirAll(b.path("logs"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, step := range []func(context.Context) error{b.launchKeeper, b.connect, b.startEtcd} {
		if err := step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(f.name); !errors.Is(err, ErrNotRunning) {
		t.Errorf("half a cluster is given out: %v", err)
	}
	if err := Down(t.Context(), f.name); err != nil {
		t.Fatal(err)
	}
	checkGone(t, f, b.Link)
}
