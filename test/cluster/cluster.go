//go:build linux

package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/skerry-run/skerry/test/cluster/keeper"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Config says which cluster to boot. The zero value is a good one.
type Config struct {
	// Name tells clusters apart; "" is "skerry". Lower-case letters, digits
	// and dashes, at most maxNameBytes.
	Name string
	// Cache is the folder of the built programs; "" is the default of package
	// parts.
	Cache string
	// Log hears what is being done; nil is silent.
	Log io.Writer
}

// A Cluster is one that runs. Its values do not change while it does; another
// Up after a Down may give others.
type Cluster struct {
	Name string
	// Dir is the cluster's folder.
	Dir string
	// NodeName and NodeIP are the only node's; the host reaches the address.
	NodeName string
	NodeIP   string
	// HostIP is the host's end of the link, which the node and its pods reach.
	HostIP string
	// Link is the name of the host's end.
	Link string
	// Programs is where the programs are: name to path.
	Programs map[string]string
}

// ErrNotRunning is the answer for a cluster that nobody booted, that was taken
// down, or whose keeper was killed.
var ErrNotRunning = errors.New("the cluster does not run; boot it with `make cluster-up`")

// Open gives the running cluster of that name; "" is the default one.
func Open(name string) (*Cluster, error) {
	f, err := folderOf(name)
	if err != nil {
		return nil, err
	}
	c, err := f.running()
	if err == nil && c == nil {
		err = ErrNotRunning
	}
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", f.name, err)
	}
	return c, nil
}

// running gives the cluster when it was booted to the end and its keeper
// lives, and nil otherwise.
func (f folder) running() (*Cluster, error) {
	pid, err := keeper.PID(f.dir)
	if err != nil || pid == 0 {
		return nil, err
	}
	data, err := os.ReadFile(f.recordPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c := &Cluster{}
	if err := json.Unmarshal(data, c); err != nil {
		return nil, fmt.Errorf("read %s: %w", f.recordPath(), err)
	}
	return c, nil
}

// record makes the cluster known as booted. Only a whole record is ever seen.
func (f folder) record(c *Cluster) error {
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	half := f.recordPath() + ".half"
	if err := os.WriteFile(half, data, 0o600); err != nil {
		return err
	}
	return os.Rename(half, f.recordPath())
}

// Kubeconfig is the path of a file with the rights of an administrator.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.Dir, "admin.kubeconfig") }

// AuditLog is the path of the API server's audit log: one JSON event a line,
// with the bodies of requests and answers but for those of the cluster's own
// programs reading and renewing leases.
func (c *Cluster) AuditLog() string { return filepath.Join(c.Dir, "audit", "audit.log") }

// LogFile is the path of the output of one of the cluster's programs.
func (c *Cluster) LogFile(component string) string {
	return filepath.Join(c.Dir, "logs", component+".log")
}

// Keeper starts, stops and signals the cluster's programs, by the names that
// its Status lists.
func (c *Cluster) Keeper() keeper.Client { return keeper.Client{Folder: c.Dir} }

// RESTConfig is an administrator's, for any client.
func (c *Cluster) RESTConfig() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		return nil, err
	}
	// Tests are many clients in one.
	config.QPS, config.Burst = 200, 400
	return config, nil
}

// Client is an administrator's client.
func (c *Cluster) Client() (*kubernetes.Clientset, error) {
	config, err := c.RESTConfig()
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}
