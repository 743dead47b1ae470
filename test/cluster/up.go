//go:build linux

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/skerry-run/skerry/test/cluster/image"
	"github.com/skerry-run/skerry/test/cluster/keeper"
)

// bootTimeout bounds the boot itself, without the build of the programs.
const bootTimeout = 10 * time.Minute

// Up boots the cluster, or waits until one that already runs is ready and
// starts what is stopped of it, and returns when the node is Ready and DNS
// answers. Whatever an earlier cluster of the name left is removed first. The
// cluster outlives the caller; [Down] ends it.
//
// Two calls for the same name share one cluster. When Up fails, nothing runs;
// the folder with the logs stays until the next Up or Down.
func Up(ctx context.Context, config Config) (*Cluster, error) {
	log := newProgress(config.Log)
	f, err := folderOf(config.Name)
	if err != nil {
		return nil, err
	}
	if err := checkMachine(ctx); err != nil {
		return nil, fmt.Errorf("boot cluster %s: %w", f.name, err)
	}
	made, err := makeMaterials(ctx, config)
	if err != nil {
		return nil, err
	}
	release, err := f.lock(ctx, log)
	if err != nil {
		return nil, err
	}
	defer release()

	c := &Cluster{Name: f.name, Dir: f.dir, NodeName: f.name, Programs: map[string]string{}}
	for _, name := range programNames {
		c.Programs[name] = made.programs.Path(name)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, bootTimeout, fmt.Errorf("the cluster was not ready after %s", bootTimeout))
	defer cancel()
	old, err := f.running()
	if err != nil {
		return nil, err
	}
	if old != nil {
		return old.resume(ctx, c.Programs, made.images)
	}
	b := &boot{Cluster: c, folder: f, log: log, images: made.images, cache: config.Cache}
	if err := b.up(ctx); err != nil {
		err = b.explain(err)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), downTimeout)
		defer cancel()
		return nil, fmt.Errorf("boot cluster %s: %w", f.name, errors.Join(err, keeper.Kill(ctx, f.dir, f.cgroup())))
	}
	return c, nil
}

// programNames are those of package parts that a cluster runs or has its
// programs run.
var programNames = []string{
	Etcd, APIServer, ControllerManager, Scheduler, Kubelet, Proxy, Router, Containerd,
	"containerd-shim-runc-v2", "containerd-shim-runsc-v1", "ctr", "runsc", "coredns", "metrics-server",
}

// resume makes a cluster that runs ready again.
func (c *Cluster) resume(ctx context.Context, programs map[string]string, images []image.Image) (*Cluster, error) {
	for name, path := range programs {
		if c.Programs[name] != path {
			return nil, fmt.Errorf("cluster %s runs another version of %s; take it down first with `make cluster-down`", c.Name, name)
		}
	}
	components, err := c.Keeper().Status(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range components {
		if err := c.Keeper().Start(ctx, s.Name); err != nil {
			return nil, err
		}
	}
	if err := c.WaitReady(ctx); err != nil {
		return nil, fmt.Errorf("cluster %s runs but does not become ready (%w); `make cluster-down` and boot it anew", c.Name, err)
	}
	if err := c.importMissing(ctx, images); err != nil {
		return nil, err
	}
	return c, nil
}

func (b *boot) up(ctx context.Context) error {
	// What a cluster that was not taken down left.
	if err := b.down(ctx); err != nil {
		return err
	}
	for _, dir := range []string{"logs", "home", "tmp", "cni"} {
		if err := os.MkdirAll(b.path(dir), 0o700); err != nil {
			return fmt.Errorf("make the cluster's folder: %w", err)
		}
	}
	if err := b.launchKeeper(ctx); err != nil {
		return err
	}
	if err := b.connect(ctx); err != nil {
		return err
	}
	b.log.printf("node %s at %s, the host at %s (%s)", b.NodeName, b.NodeIP, b.HostIP, b.Link)
	if err := b.makeIdentities(); err != nil {
		return err
	}
	for _, start := range []func(context.Context) error{b.startEtcd, b.startAPIServer, b.startContainerd} {
		if err := start(ctx); err != nil {
			return err
		}
	}
	if err := b.waitContainerd(ctx); err != nil {
		return err
	}
	if err := b.importMissing(ctx, b.images[:1]); err != nil { // no pod starts without it
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var importing sync.WaitGroup
	var imported error
	importing.Go(func() { imported = b.importMissing(ctx, b.images) })
	defer importing.Wait()
	defer cancel()
	if err := b.waitAPI(ctx); err != nil {
		return err
	}
	b.log.printf("API server is ready at https://%s:%s", b.NodeIP, apiPort)
	for _, start := range []func(context.Context) error{
		b.startKubelet, b.startControllerManager, b.startScheduler, b.startProxy, b.startProvisioner, b.applyAddons,
	} {
		if err := start(ctx); err != nil {
			return err
		}
	}
	if err := b.WaitNode(ctx, true); err != nil {
		return err
	}
	b.log.printf("node is Ready")
	// It gives up when there is no node of its name.
	if err := b.startRouter(ctx); err != nil {
		return err
	}
	if err := b.waitDNS(ctx); err != nil {
		return err
	}
	b.log.printf("DNS answers")
	if err := b.waitStorage(ctx); err != nil {
		return err
	}
	if importing.Wait(); imported != nil {
		return imported
	}
	b.log.printf("images are imported")
	return b.record(b.Cluster)
}

func (b *boot) launchKeeper(ctx context.Context) error {
	if err := copyOwn(ctx, b.cache, b.path("bin")); err != nil {
		return err
	}
	for _, name := range ownPrograms {
		b.Programs[name] = b.path("bin", name)
	}
	b.log.printf("launching the keeper")
	return keeper.Launch(ctx, b.Programs["keeper"], keeper.Spec{
		Folder:   b.dir,
		Hostname: b.NodeName,
		Cgroup:   b.cgroup(),
		Visible:  b.programFolders(),
	})
}

// maxExplainBytes is how much of the end of a log an error shows.
const maxExplainBytes = 2000

// explain adds to an error what the programs that do not run said last.
func (b *boot) explain(err error) error {
	ctx, cancel := context.WithTimeout(context.Background(), pollTimeout)
	defer cancel()
	components, statusErr := b.Keeper().Status(ctx)
	if statusErr != nil {
		return err
	}
	for _, s := range components {
		if s.State == keeper.Running && s.Starts == 1 {
			continue
		}
		said, readErr := tail(b.LogFile(s.Name), maxExplainBytes)
		if readErr != nil {
			said = readErr.Error()
		}
		err = fmt.Errorf("%w\n%s was started %d times, %s; its log %s ends with:\n%s", err, s.Name, s.Starts, s.LastExit, b.LogFile(s.Name), said)
	}
	return err
}

func tail(path string, limit int64) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(io.NewSectionReader(f, max(0, size-limit), limit))
	if errors.Is(err, fs.ErrClosed) {
		return "", err
	}
	return strings.ToValidUTF8(string(data), "?"), err
}
