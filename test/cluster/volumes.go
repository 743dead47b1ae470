//go:build linux

package cluster

import (
	"context"

	"github.com/skerry-run/skerry/test/cluster/storage"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// startProvisioner starts what makes the volumes of the default StorageClass.
func (b *boot) startProvisioner(ctx context.Context) error {
	return b.start(ctx, Provisioner,
		"-kubeconfig="+b.Kubeconfig(),
		"-dir="+b.path("volumes"),
	)
}

// waitStorage returns when there is a default StorageClass, without which a
// claim would wait for ever.
func (b *boot) waitStorage(ctx context.Context) error {
	client, err := b.Client()
	if err != nil {
		return err
	}
	return poll(ctx, "the default StorageClass", func(ctx context.Context) error {
		_, err := client.StorageV1().StorageClasses().Get(ctx, storage.Class, metav1.GetOptions{})
		return err
	})
}
