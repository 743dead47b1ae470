//go:build linux

// Package storage gives a cluster of one machine its default StorageClass: a
// folder on the node for each claim, as a `local` volume, so that the kubelet
// honours fsGroup and the scheduler knows on which node the data is.
//
// A volume has no size of its own: it may take what the disk has. The size in
// its claim is only written down.
package storage

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

const (
	// Class is the name of the default StorageClass.
	Class = "local"

	// Provisioner is who makes its volumes.
	Provisioner = "skerry.test/local"
)

// What failed is tried again, at first soon: the usual reason is an API server
// that was restarted.
const (
	firstRetry = 200 * time.Millisecond
	lastRetry  = 10 * time.Second
)

// Run makes the default StorageClass if there is none of its name, and then a
// volume for each claim that needs one, until ctx ends; it returns nil then.
// Volumes are folders under dir, an absolute path that is the same for the
// caller and for the kubelet.
//
// A folder lives as long as its claim or its PersistentVolume; one that has
// neither any more goes, also when that happened while nobody ran. Only one Run
// may be at work on a cluster.
func Run(ctx context.Context, config *rest.Config, dir string) error {
	if !filepath.IsAbs(dir) {
		return fmt.Errorf("the folder of volumes %q is no absolute path", dir)
	}
	// What is in it is for the pods that have it mounted, and for nobody else
	// on the machine.
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the folder of volumes: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open the folder of volumes: %w", err)
	}
	defer root.Close()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithName("storage"))
	f := &folders{client: client, root: root, dir: dir}
	if err := untilDone(ctx, func() error { return ensureClass(ctx, client) }); err != nil {
		return ended(ctx, err)
	}
	if err := untilDone(ctx, func() error { return f.sweep(ctx) }); err != nil {
		return ended(ctx, err)
	}
	var workers sync.WaitGroup
	c := controller.NewProvisionController(ctx, client, Provisioner, f,
		controller.LeaderElection(false),
		controller.RateLimiter(workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry)),
		// Zero is for ever: the cluster will not be mended by giving up.
		controller.FailedProvisionThreshold(0),
		controller.FailedDeleteThreshold(0),
	)
	c.ControllerWaitGroup(&workers)
	c.Run(ctx)
	workers.Wait()
	return nil
}

// untilDone tries do again until it works or ctx ends. Its last error says why
// it did not.
func untilDone(ctx context.Context, do func() error) error {
	wait := firstRetry
	for {
		err := do()
		if err == nil {
			return nil
		}
		klog.FromContext(ctx).Info("try again", "error", err.Error())
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
			wait = min(2*wait, lastRetry)
		}
	}
}

// ended is nil when ctx did, whatever that broke.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// defaultClass is the class of claims that name none.
func defaultClass() *storagev1.StorageClass {
	class := &storagev1.StorageClass{
		Provisioner: Provisioner,
		// The folder is where the pod is.
		VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
	}
	class.Name = Class
	class.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
	return class
}
