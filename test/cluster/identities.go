//go:build linux

package cluster

import (
	"fmt"
	"net"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// makeIdentities writes every certificate and key of the cluster, and a
// kubeconfig for each client.
func (b *boot) makeIdentities() error {
	dir := b.path("pki")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	ca, err := newAuthority(dir, "ca")
	if err != nil {
		return err
	}
	// An authority apart: whoever has a certificate of it may speak in
	// another's name to the API servers behind the aggregation layer.
	front, err := newAuthority(dir, "front-proxy-ca")
	if err != nil {
		return err
	}
	if _, err := front.client("front-proxy", "front-proxy-client"); err != nil {
		return err
	}
	if err := writeTokenKeys(dir, "service-accounts"); err != nil {
		return err
	}

	node := net.ParseIP(b.NodeIP)
	err = ca.server("apiserver", "kube-apiserver",
		[]string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + clusterDomain},
		net.IPv4(127, 0, 0, 1), node, net.ParseIP(apiServiceIP))
	if err != nil {
		return err
	}
	if err := ca.server("kubelet", "kubelet", []string{b.NodeName}, node, net.IPv4(127, 0, 0, 1)); err != nil {
		return err
	}
	metricsName := "metrics-server.kube-system.svc"
	if err := ca.server("metrics-server", metricsName, []string{metricsName}); err != nil {
		return err
	}
	if _, err := ca.client("apiserver-kubelet-client", "kube-apiserver-kubelet-client", adminGroup); err != nil {
		return err
	}

	for _, c := range []struct {
		file, user string
		groups     []string
	}{
		{"admin", "admin", []string{adminGroup}},
		{"kube-controller-manager", "system:kube-controller-manager", nil},
		{"kube-scheduler", "system:kube-scheduler", nil},
		{"kube-proxy", "system:kube-proxy", nil},
		{"kubelet", "system:node:" + b.NodeName, []string{"system:nodes"}},
		{"kube-router", "skerry:kube-router", nil},
	} {
		p, err := ca.client("client-"+c.file, c.user, c.groups...)
		if err != nil {
			return err
		}
		if err := b.writeKubeconfig(c.file, ca, p); err != nil {
			return err
		}
	}
	return nil
}

const adminGroup = "system:masters"

func (b *boot) kubeconfig(client string) string { return b.path(client + ".kubeconfig") }

func (b *boot) writeKubeconfig(client string, ca *authority, p pair) error {
	config := api.NewConfig()
	config.Clusters[b.Name] = &api.Cluster{
		Server:                   "https://" + net.JoinHostPort(b.NodeIP, apiPort),
		CertificateAuthorityData: ca.pem,
	}
	config.AuthInfos[client] = &api.AuthInfo{ClientCertificateData: p.cert, ClientKeyData: p.key}
	config.Contexts[b.Name] = &api.Context{Cluster: b.Name, AuthInfo: client}
	config.CurrentContext = b.Name
	// The client library makes it readable for its owner alone.
	if err := clientcmd.WriteToFile(*config, b.kubeconfig(client)); err != nil {
		return fmt.Errorf("write the kubeconfig of %s: %w", client, err)
	}
	return nil
}
