//go:build linux

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/skerry-run/skerry/test/cluster/keeper"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	watchtools "k8s.io/client-go/tools/watch"
)

// pollEvery is how often is asked what can't be watched.
const pollEvery = 100 * time.Millisecond

// poll calls try until it returns nil, and gives the last error when ctx ends
// first.
func poll(ctx context.Context, what string, try func(context.Context) error) error {
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w: the last time it was: %w", what, context.Cause(ctx), err)
		case <-time.After(pollEvery):
		}
	}
}

// WaitReady returns when the API server, the node and the cluster's DNS are
// usable.
func (c *Cluster) WaitReady(ctx context.Context) error {
	if err := c.waitAPI(ctx); err != nil {
		return err
	}
	if err := c.WaitNode(ctx, true); err != nil {
		return err
	}
	return c.waitDNS(ctx)
}

func (c *Cluster) waitAPI(ctx context.Context) error {
	client, err := c.Client()
	if err != nil {
		return err
	}
	return poll(ctx, "the API server to be ready", func(ctx context.Context) error {
		return client.Discovery().RESTClient().Get().AbsPath("/readyz").Timeout(pollTimeout).Do(ctx).Error()
	})
}

// pollTimeout is how long one try of a poll may take.
const pollTimeout = 2 * time.Second

// WaitNode returns when the node is, or is no longer, Ready.
func (c *Cluster) WaitNode(ctx context.Context, ready bool) error {
	client, err := c.Client()
	if err != nil {
		return err
	}
	nodes := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "nodes", "", fields.OneTermEqualSelector("metadata.name", c.NodeName))
	_, err = watchtools.UntilWithSync(ctx, nodes, &corev1.Node{}, nil, func(e watch.Event) (bool, error) {
		node, ok := e.Object.(*corev1.Node)
		return ok && e.Type != watch.Deleted && isReady(node) == ready, nil
	})
	if err != nil {
		return fmt.Errorf("wait for node %s to have Ready=%v: %w", c.NodeName, ready, err)
	}
	return nil
}

func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// Dial connects to an address, written in numbers, from the node: to services
// and pods that the host does not reach.
func (c *Cluster) Dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	pid, err := keeper.PID(c.Dir)
	if err == nil && pid == 0 {
		err = ErrNotRunning
	}
	if err != nil {
		return nil, err
	}
	err = inNetwork(pid, func() (err error) {
		var d net.Dialer
		conn, err = d.DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// waitDNS asks the cluster's DNS service for the API server's name.
func (c *Cluster) waitDNS(ctx context.Context) error {
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return c.Dial(ctx, "udp", net.JoinHostPort(dnsServiceIP, "53"))
	}}
	return poll(ctx, "DNS to answer", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, pollTimeout)
		defer cancel()
		found, err := resolver.LookupHost(ctx, "kubernetes.default.svc."+clusterDomain+".")
		if err == nil && !slices.Contains(found, apiServiceIP) {
			err = fmt.Errorf("it says %v instead of %s", found, apiServiceIP)
		}
		return err
	})
}

// WaitMetrics returns when the metrics API has figures of the node and of the
// cluster's own pods, which takes two rounds of its collection.
func (c *Cluster) WaitMetrics(ctx context.Context) error {
	client, err := c.Client()
	if err != nil {
		return err
	}
	return poll(ctx, "metrics", func(ctx context.Context) error {
		return errors.Join(
			hasMetrics(ctx, client, "/apis/metrics.k8s.io/v1beta1/nodes"),
			hasMetrics(ctx, client, "/apis/metrics.k8s.io/v1beta1/namespaces/kube-system/pods"),
		)
	})
}
