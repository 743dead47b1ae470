//go:build linux

package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// folderMode keeps out everybody whom fsGroup does not let in.
const folderMode = 0o770

// namePrefix begins the names of all volumes; the UID of the claim follows.
const namePrefix = "pvc-"

// folders makes and removes the folders of volumes. A folder is called like its
// PersistentVolume.
type folders struct {
	client kubernetes.Interface
	root   *os.Root
	dir    string // where root is
}

// Provision makes the folder of a claim. It is called again for the same claim
// if the volume was not noted down, and finds the folder then.
func (f *folders) Provision(ctx context.Context, options controller.ProvisionOptions) (*corev1.PersistentVolume, controller.ProvisioningState, error) {
	if err := possible(options.PVC); err != nil {
		return nil, controller.ProvisioningFinished, err
	}
	host, err := f.host(ctx, options.SelectedNodeName)
	if err != nil {
		return nil, controller.ProvisioningNoChange, err
	}
	if err := f.root.Mkdir(options.PVName, folderMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, controller.ProvisioningFinished, fmt.Errorf("make the folder of the volume: %w", err)
	}
	// Whatever the umask is.
	if err := f.root.Chmod(options.PVName, folderMode); err != nil {
		return nil, controller.ProvisioningFinished, fmt.Errorf("make the folder of the volume: %w", err)
	}
	return f.volume(options, host), controller.ProvisioningFinished, nil
}

// possible says why a claim can't be had here.
func possible(claim *corev1.PersistentVolumeClaim) error {
	for _, mode := range claim.Spec.AccessModes {
		if !slices.Contains([]corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteOncePod}, mode) {
			return fmt.Errorf("a local volume can't be %s; claim it ReadWriteOnce", mode)
		}
	}
	if claim.Spec.Selector != nil {
		return errors.New("volumes that are made for a claim can't be selected by labels; claim it without a selector")
	}
	if claim.Spec.DataSource != nil || claim.Spec.DataSourceRef != nil {
		return errors.New("a local volume begins empty; claim it without a data source")
	}
	return nil
}

// host is what the node's volumes are bound to.
func (f *folders) host(ctx context.Context, node string) (string, error) {
	if node == "" {
		return "", errors.New("no node was chosen for the volume: its class has to wait for the first consumer")
	}
	found, err := f.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("look at the node: %w", err)
	}
	host := found.Labels[corev1.LabelHostname]
	if host == "" {
		return "", fmt.Errorf("node %s has no label %s", node, corev1.LabelHostname)
	}
	return host, nil
}

func (f *folders) volume(options controller.ProvisionOptions, host string) *corev1.PersistentVolume {
	claim := options.PVC.Spec
	volume := &corev1.PersistentVolume{}
	volume.Name = options.PVName
	volume.Spec = corev1.PersistentVolumeSpec{
		PersistentVolumeReclaimPolicy: *options.StorageClass.ReclaimPolicy,
		AccessModes:                   claim.AccessModes,
		VolumeMode:                    claim.VolumeMode,
		Capacity:                      corev1.ResourceList{corev1.ResourceStorage: claim.Resources.Requests[corev1.ResourceStorage]},
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{host}}},
		}}}},
	}
	volume.Spec.Local = &corev1.LocalVolumeSource{Path: filepath.Join(f.dir, options.PVName)}
	return volume
}

// Delete removes the folder of a volume that nobody claims any more. What pods
// left in it can't lead out of it.
func (f *folders) Delete(_ context.Context, volume *corev1.PersistentVolume) error {
	if volume.Spec.Local == nil || volume.Spec.Local.Path != filepath.Join(f.dir, volume.Name) {
		return &controller.IgnoredError{Reason: fmt.Sprintf("volume %s is not a folder of %s", volume.Name, f.dir)}
	}
	if err := f.root.RemoveAll(volume.Name); err != nil {
		return fmt.Errorf("remove the folder of the volume: %w", err)
	}
	return nil
}

// sweep removes the folders that have neither a claim nor a volume: the claim
// was deleted after its folder was made and before the volume was noted down,
// and meanwhile nobody ran.
func (f *folders) sweep(ctx context.Context) error {
	entries, err := fs.ReadDir(f.root.FS(), ".")
	if err != nil {
		return fmt.Errorf("list the folders of volumes: %w", err)
	}
	// Claims before volumes, so that one that becomes a volume meanwhile is
	// seen at least once.
	claims, err := f.client.CoreV1().PersistentVolumeClaims("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list claims: %w", err)
	}
	wanted := map[string]bool{}
	for _, claim := range claims.Items {
		wanted[namePrefix+string(claim.UID)] = true
	}
	for _, entry := range entries {
		name := entry.Name()
		if wanted[name] || !strings.HasPrefix(name, namePrefix) {
			continue
		}
		_, err := f.client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			continue
		}
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("look for the volume of a folder: %w", err)
		}
		klog.FromContext(ctx).Info("remove a folder that nobody claims", "folder", name)
		if err := f.root.RemoveAll(name); err != nil {
			return fmt.Errorf("remove a folder that nobody claims: %w", err)
		}
	}
	return nil
}

func ensureClass(ctx context.Context, client kubernetes.Interface) error {
	_, err := client.StorageV1().StorageClasses().Create(ctx, defaultClass(), metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make the StorageClass %s: %w", Class, err)
	}
	return nil
}
