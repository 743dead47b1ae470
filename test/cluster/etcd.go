//go:build linux

package cluster

import "context"

const etcdAddress = "http://127.0.0.1:2379"

// startEtcd starts the store on the loopback address of the cluster's own
// network: nothing else is there but the node's programs.
func (b *boot) startEtcd(ctx context.Context) error {
	const peer = "http://127.0.0.1:2380"
	return b.start(ctx, Etcd,
		"--name="+b.Name,
		"--data-dir="+b.path("etcd"),
		"--listen-client-urls="+etcdAddress,
		"--advertise-client-urls="+etcdAddress,
		"--listen-peer-urls="+peer,
		"--initial-advertise-peer-urls="+peer,
		"--initial-cluster="+b.Name+"="+peer,
		// The data is made anew at each boot; what a crash of the machine would
		// lose of it is lost anyway.
		"--unsafe-no-fsync",
	)
}
