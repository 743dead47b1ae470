//go:build linux

package cluster

import (
	"context"
	"os"
	"path/filepath"
)

// auditPolicy records whole bodies, so that tests can prove what is not in
// them. Left out is what would bury the rest: leases, events, and the reads of
// the cluster's own programs, which are recorded without bodies. Status of the
// node is renewed all the time and says nothing of pods.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  resources:
  - {group: coordination.k8s.io, resources: [leases]}
- level: None
  nonResourceURLs: ["/healthz*", "/livez*", "/readyz*", "/version", "/openapi/*", "/api", "/api/*", "/apis", "/apis/*"]
- level: Metadata
  resources:
  - {group: "", resources: [events, nodes, nodes/status]}
  - {group: events.k8s.io, resources: [events]}
- level: Metadata
  verbs: [get, list, watch]
  userGroups: [system:nodes, "system:serviceaccounts:kube-system"]
- level: Metadata
  verbs: [get, list, watch]
  users: ["system:apiserver", "system:kube-controller-manager", "system:kube-scheduler", "system:kube-proxy", "skerry:kube-router"]
- level: RequestResponse
`

func (b *boot) startAPIServer(ctx context.Context) error {
	policy, err := b.write("audit/policy.yaml", auditPolicy)
	if err != nil {
		return err
	}
	if err := os.Chmod(filepath.Dir(policy), 0o700); err != nil {
		return err
	}
	pki := func(name string) string { return b.path("pki", name) }
	return b.start(ctx, APIServer,
		"--etcd-servers="+etcdAddress,
		"--advertise-address="+b.NodeIP,
		"--secure-port="+apiPort,
		"--tls-cert-file="+pki("apiserver.crt"),
		"--tls-private-key-file="+pki("apiserver.key"),
		"--client-ca-file="+pki("ca.crt"),
		"--service-cluster-ip-range="+serviceRange,

		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true",
		"--anonymous-auth=false",

		"--service-account-issuer=https://kubernetes.default.svc."+clusterDomain,
		"--service-account-signing-key-file="+pki("service-accounts.key"),
		"--service-account-key-file="+pki("service-accounts.pub"),

		"--kubelet-preferred-address-types=InternalIP",
		"--kubelet-client-certificate="+pki("apiserver-kubelet-client.crt"),
		"--kubelet-client-key="+pki("apiserver-kubelet-client.key"),
		"--kubelet-certificate-authority="+pki("ca.crt"),

		"--proxy-client-cert-file="+pki("front-proxy.crt"),
		"--proxy-client-key-file="+pki("front-proxy.key"),
		"--requestheader-client-ca-file="+pki("front-proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		// The metrics server is a pod behind a service, and the API server is
		// on a node where the proxy makes services reachable.
		"--enable-aggregator-routing=false",

		"--audit-policy-file="+policy,
		"--audit-log-path="+b.AuditLog(),
		// One file, so that a test that reads it sees everything since the boot.
		"--audit-log-maxsize=0",
		"--audit-log-mode=blocking",
	)
}
