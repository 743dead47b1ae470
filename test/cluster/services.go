//go:build linux

package cluster

import (
	"context"
	"fmt"
)

// The limits of connection tracking belong to the whole machine; at 0 they are
// left as they are.
const proxyConfig = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clusterCIDR: 10.244.0.0/16
hostnameOverride: %[1]s
clientConnection: {kubeconfig: %[2]q}
oomScoreAdj: 0
conntrack:
  maxPerCore: 0
  min: 0
  tcpEstablishedTimeout: 0s
  tcpCloseWaitTimeout: 0s
`

// startProxy starts what makes services reachable.
func (b *boot) startProxy(ctx context.Context) error {
	config, err := b.write("kube-proxy.yaml", fmt.Sprintf(proxyConfig, b.NodeName, b.kubeconfig(Proxy)))
	if err != nil {
		return err
	}
	return b.start(ctx, Proxy, "--config="+config)
}

// startRouter starts what enforces network policies. Routes between nodes and
// services are not its business here.
func (b *boot) startRouter(ctx context.Context) error {
	return b.start(ctx, Router,
		"--kubeconfig="+b.kubeconfig(Router),
		"--hostname-override="+b.NodeName,
		"--run-router=false",
		"--run-service-proxy=false",
		"--run-firewall=true",
		"--service-cluster-ip-range="+serviceRange,
		"--metrics-port=0",
		"--health-port=0",
	)
}
