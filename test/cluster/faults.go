//go:build linux

package cluster

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"path"
	"strconv"

	"github.com/skerry-run/skerry/test/cluster/proxy"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Stop ends one of the cluster's programs (APIServer, Kubelet, Containerd,
// ControllerManager, …) as an administrator would. It stays stopped until
// Start, or until the next Up.
func (c *Cluster) Stop(ctx context.Context, program string) error {
	return c.Keeper().Stop(ctx, program)
}

// Start starts what Stop stopped. It does not wait until the program is ready.
func (c *Cluster) Start(ctx context.Context, program string) error {
	return c.Keeper().Start(ctx, program)
}

// Kill ends one of the cluster's programs without a chance to do anything about
// it (SIGKILL). As on a real node, it is started again a little later.
func (c *Cluster) Kill(ctx context.Context, program string) error {
	return c.Keeper().Signal(ctx, program, unix.SIGKILL)
}

// LoseNode stops the kubelet and returns when the cluster has noticed: the node
// is no longer Ready. What runs on the node goes on running.
func (c *Cluster) LoseNode(ctx context.Context) error {
	if err := c.Stop(ctx, Kubelet); err != nil {
		return err
	}
	return c.WaitNode(ctx, false)
}

// RestoreNode starts the kubelet and returns when the node is Ready.
func (c *Cluster) RestoreNode(ctx context.Context) error {
	if err := c.Start(ctx, Kubelet); err != nil {
		return err
	}
	return c.WaitNode(ctx, true)
}

// Proxy gives a proxy in front of the API server whose connections fail on
// demand. The caller closes it.
func (c *Cluster) Proxy() (*proxy.Proxy, error) {
	config, err := c.RESTConfig()
	if err != nil {
		return nil, err
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("address of the API server: %w", err)
	}
	return proxy.Listen(server.Host)
}

// Through is an administrator's configuration whose connections go through p.
func (c *Cluster) Through(p *proxy.Proxy) (*rest.Config, error) {
	config, err := c.RESTConfig()
	if err != nil {
		return nil, err
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("address of the API server: %w", err)
	}
	config.Host = "https://" + p.Addr()
	config.ServerName = server.Hostname()
	return config, nil
}

// WriteKubeconfigThrough writes a kubeconfig file, of an administrator, whose
// connections go through p.
func (c *Cluster) WriteKubeconfigThrough(p *proxy.Proxy, file string) error {
	config, err := clientcmd.LoadFromFile(c.Kubeconfig())
	if err != nil {
		return err
	}
	for _, entry := range config.Clusters {
		if err := redirect(entry, p); err != nil {
			return err
		}
	}
	return clientcmd.WriteToFile(*config, file)
}

func redirect(entry *clientcmdapi.Cluster, p *proxy.Proxy) error {
	server, err := url.Parse(entry.Server)
	if err != nil {
		return fmt.Errorf("address of the API server: %w", err)
	}
	entry.Server = "https://" + p.Addr()
	entry.TLSServerName = server.Hostname()
	return nil
}

// FillDisk writes size bytes into a file below dir, a folder of a container that
// has a shell, or as many as go there. It returns an error only when nothing
// could be tried.
func (c *Cluster) FillDisk(ctx context.Context, namespace, pod, container, dir string, size int64) error {
	const script = `head -c "$1" /dev/zero > "$2" || true`
	return c.Exec(ctx, Exec{
		Namespace: namespace, Pod: pod, Container: container,
		Command: []string{"sh", "-c", script, "fill", strconv.FormatInt(size, 10), path.Join(dir, "filling")},
		Stdout:  io.Discard, Stderr: io.Discard,
	})
}

// DeletePod deletes a pod without grace, whatever runs in it, and returns when
// the API server knows it no more. Deleting what is not there is no error.
func (c *Cluster) DeletePod(ctx context.Context, namespace, pod string) error {
	client, err := c.Client()
	if err != nil {
		return err
	}
	pods := client.CoreV1().Pods(namespace)
	old, err := pods.Get(ctx, pod, metav1.GetOptions{})
	if err == nil {
		options := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0)), Preconditions: &metav1.Preconditions{UID: &old.UID}}
		err = pods.Delete(ctx, pod, options)
	}
	if err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	return poll(ctx, "pod "+pod+" to be gone", func(ctx context.Context) error {
		var now *corev1.Pod
		now, err := pods.Get(ctx, pod, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && now.UID != old.UID {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("it is still there")
		}
		return err
	})
}
