//go:build linux

package cluster

import (
	"context"
	"fmt"
)

// PodPIDs is the most tasks that a pod may have.
const PodPIDs = 1024

const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: %[1]q}
authorization: {mode: Webhook}
tlsCertFile: %[2]q
tlsPrivateKeyFile: %[3]q
containerRuntimeEndpoint: %[4]q
clusterDomain: cluster.local
clusterDNS: [10.96.0.10]
resolvConf: %[5]q
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
oomScoreAdj: 0
enforceNodeAllocatable: []
podPidsLimit: %[6]d
serializeImagePulls: false
# Tests fill disks on purpose; the node is the developer's machine.
evictionHard:
  memory.available: 50Mi
  nodefs.available: 1%%
  nodefs.inodesFree: 1%%
  imagefs.available: 1%%
# A pod over the limit of its disk is noticed within seconds, not a minute.
volumeStatsAggPeriod: 5s
# Nothing could pull an image again.
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
imageMaximumGCAge: 0s
# Renewed every quarter of it.
nodeLeaseDurationSeconds: 16
`

func (b *boot) startKubelet(ctx context.Context) error {
	// Pods that use the node's names have the cluster's.
	resolv, err := b.write("resolv.conf", "nameserver "+dnsServiceIP+"\n")
	if err != nil {
		return err
	}
	config, err := b.write("kubelet.yaml", fmt.Sprintf(kubeletConfig,
		b.path("pki", "ca.crt"), b.path("pki", "kubelet.crt"), b.path("pki", "kubelet.key"),
		"unix://"+b.ContainerdSocket(), resolv, PodPIDs))
	if err != nil {
		return err
	}
	return b.start(ctx, Kubelet,
		"--config="+config,
		"--kubeconfig="+b.kubeconfig(Kubelet),
		"--hostname-override="+b.NodeName,
		"--node-ip="+b.NodeIP,
		"--root-dir="+b.path("kubelet"),
		"--cert-dir="+b.path("kubelet-pki"),
	)
}
