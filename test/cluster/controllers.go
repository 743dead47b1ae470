//go:build linux

package cluster

import "context"

func (b *boot) startControllerManager(ctx context.Context) error {
	config := b.kubeconfig(ControllerManager)
	return b.start(ctx, ControllerManager,
		"--kubeconfig="+config,
		"--authentication-kubeconfig="+config,
		"--authorization-kubeconfig="+config,
		"--bind-address=127.0.0.1",
		"--leader-elect=false",
		"--use-service-account-credentials=true",
		"--service-account-private-key-file="+b.path("pki", "service-accounts.key"),
		"--root-ca-file="+b.path("pki", "ca.crt"),
		"--cluster-signing-cert-file="+b.path("pki", "ca.crt"),
		"--cluster-signing-key-file="+b.path("pki", "ca.key"),
		"--allocate-node-cidrs=true",
		"--cluster-cidr="+podRange,
		"--service-cluster-ip-range="+serviceRange,
		// As many controllers that start, and ask for tokens, at once would
		// wait for each other for five seconds.
		"--kube-api-qps=200",
		"--kube-api-burst=400",
		// Half of the defaults: a test that stops the kubelet waits for the
		// node to be seen as not ready.
		"--node-monitor-period=2s",
		"--node-monitor-grace-period=20s",
	)
}

func (b *boot) startScheduler(ctx context.Context) error {
	config := b.kubeconfig(Scheduler)
	return b.start(ctx, Scheduler,
		"--kubeconfig="+config,
		"--authentication-kubeconfig="+config,
		"--authorization-kubeconfig="+config,
		"--bind-address=127.0.0.1",
		"--leader-elect=false",
	)
}
