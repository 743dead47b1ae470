//go:build linux

package storage_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skerry-run/skerry/test/cluster"
	"github.com/skerry-run/skerry/test/cluster/clustertest"
	"github.com/skerry-run/skerry/test/cluster/storage"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { clustertest.Main(m, "storage") }

// Who the pods run as, and the group of their volumes.
const (
	uid   = 1234
	group = 4321
)

// A fixture is a namespace for restricted pods with volumes.
type fixture struct{ *clustertest.Namespace }

func newFixture(t *testing.T) fixture { return fixture{clustertest.New(t, clustertest.Restricted)} }

// claim claims a volume of the default class.
func (f fixture) claim(name string, mode corev1.PersistentVolumeAccessMode) {
	f.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	claim.Name = name
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{mode}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("64Mi")}
	if _, err := f.Client.CoreV1().PersistentVolumeClaims(f.Name).Create(f.Context(), claim, metav1.CreateOptions{}); err != nil {
		f.Fatal(err)
	}
}

func (f fixture) unclaim(name string) {
	f.Helper()
	if err := f.Client.CoreV1().PersistentVolumeClaims(f.Name).Delete(f.Context(), name, metav1.DeleteOptions{}); err != nil {
		f.Fatal(err)
	}
}

// pod runs a script with the claim at /data.
func pod(name, claim, script string) *corev1.Pod {
	pod := clustertest.Pod(name, clustertest.Bash, "bash", "-euc", script)
	pod.Spec.SecurityContext.RunAsUser, pod.Spec.SecurityContext.RunAsGroup = new(int64(uid)), new(int64(uid))
	pod.Spec.SecurityContext.FSGroup = new(int64(group))
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	return pod
}

// run runs a script to its end, removes its pod and returns what it said.
func (f fixture) run(name, claim, script string) string {
	f.Helper()
	ended := f.Ended(pod(name, claim, script))
	said := strings.TrimSpace(f.Logs(name))
	if ended.Status.Phase != corev1.PodSucceeded {
		f.Errorf("pod %s: %s: %s", name, ended.Status.Phase, said)
	}
	if err := f.Client.CoreV1().Pods(f.Name).Delete(f.Context(), name, metav1.DeleteOptions{}); err != nil {
		f.Fatal(err)
	}
	return said
}

// volume gives the volume that a claim is bound to, and its folder.
func (f fixture) volume(claim string) (name, folder string) {
	f.Helper()
	bound, err := f.Client.CoreV1().PersistentVolumeClaims(f.Name).Get(f.Context(), claim, metav1.GetOptions{})
	if err != nil {
		f.Fatal(err)
	}
	volume, err := f.Client.CoreV1().PersistentVolumes().Get(f.Context(), bound.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		f.Fatal(err)
	}
	if volume.Spec.Local == nil {
		f.Fatalf("the volume is %+v, want a local one", volume.Spec.PersistentVolumeSource)
	}
	return volume.Name, volume.Spec.Local.Path
}

// waitGone waits until a volume and its folder are no more.
func (f fixture) waitGone(name, folder string) {
	f.Helper()
	f.Wait("volume "+name+" to go", func(ctx context.Context) error {
		volume, err := f.Client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is %s, %w", volume.Status.Phase, err)
		}
		if _, err := os.Stat(folder); !os.IsNotExist(err) {
			return fmt.Errorf("its folder %s is there, %w", folder, err)
		}
		return nil
	})
}

func TestAVolumeOutlivesItsPodAndEndsWithItsClaim(t *testing.T) {
	f := newFixture(t)
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	f.claim("data", corev1.ReadWriteOnce)
	script := `echo kept > /data/file; mkdir -p /data/a/b; ln -s ` + filepath.Dir(outside) + ` /data/a/link; id -u; stat -c '%u %g %a' /data; stat -c %g /data/file`
	if got := f.run("writer", "data", script); got != "1234\n0 4321 2770\n4321" {
		t.Errorf("uid, owner, group and mode of the volume, and the group of its file are %q", got)
	}
	name, folder := f.volume("data")
	if info, err := os.Stat(filepath.Dir(folder)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder of all volumes is %v, %v: others on the machine come in", info, err)
	}
	if got := f.run("reader", "data", `cat /data/file`); got != "kept" {
		t.Errorf("the next pod reads %q, want %q", got, "kept")
	}
	f.unclaim("data")
	f.waitGone(name, folder)
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("a link in a volume led its removal out of it: %v", err)
	}
}

func TestAVolumeWithoutFSGroupIsClosedToOthers(t *testing.T) {
	f := newFixture(t)
	f.claim("data", corev1.ReadWriteOnce)
	stranger := pod("stranger", "data", `! touch /data/file && stat -c '%u %g %a' /data`)
	stranger.Spec.SecurityContext.FSGroup = nil
	ended := f.Ended(stranger)
	if got := f.Logs("stranger"); ended.Status.Phase != corev1.PodSucceeded || !strings.Contains(got, "0 0 770") {
		t.Errorf("%s: %s", ended.Status.Phase, got)
	}
}

func TestAVolumeInUseStays(t *testing.T) {
	f := newFixture(t)
	f.claim("data", corev1.ReadWriteOnce)
	f.Running(pod("user", "data", `echo here > /data/file; sleep 1000`))
	name, folder := f.volume("data")
	file := filepath.Join(folder, "file")
	f.Wait("its file", func(context.Context) error {
		_, err := os.Stat(file)
		return err
	})
	f.unclaim("data")
	// The provisioner has served another claim from beginning to end before
	// the look, so it had its chance.
	f.claim("other", corev1.ReadWriteOnce)
	f.run("other", "other", "true")
	other, otherFolder := f.volume("other")
	f.unclaim("other")
	f.waitGone(other, otherFolder)
	if data, err := os.ReadFile(file); err != nil || string(data) != "here\n" {
		t.Fatalf("the file of a pod that runs is %q, %v", data, err)
	}
	// The cluster takes a pod that is there for one that uses its claims.
	if err := f.Client.CoreV1().Pods(f.Name).Delete(t.Context(), "user", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.waitGone(name, folder)
}

func TestWhatALocalVolumeCannotDoIsSaid(t *testing.T) {
	f := newFixture(t)
	f.claim("shared", corev1.ReadWriteMany)
	f.Create(pod("user", "shared", "true"))
	f.Wait("the refusal", func(ctx context.Context) error {
		events, err := f.Client.CoreV1().Events(f.Name).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=shared"})
		if err != nil {
			return err
		}
		var said []string
		for _, e := range events.Items {
			if strings.Contains(e.Message, "a local volume can't be ReadWriteMany; claim it ReadWriteOnce") {
				return nil
			}
			said = append(said, e.Message)
		}
		return fmt.Errorf("the events are %q", said)
	})
}

// Whatever happened while nobody ran is made up for.
func TestARestartOfTheProvisionerLosesNothing(t *testing.T) {
	f := newFixture(t)
	f.claim("kept", corev1.ReadWriteOnce)
	f.run("writer", "kept", `echo kept > /data/file`)
	f.claim("released", corev1.ReadWriteOnce)
	f.run("short", "released", `echo gone > /data/file`)
	released, releasedFolder := f.volume("released")
	_, keptFolder := f.volume("kept")

	keeper := f.Cluster.Keeper()
	if err := keeper.Stop(t.Context(), cluster.Provisioner); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = keeper.Start(context.Background(), cluster.Provisioner) })
	f.unclaim("released")
	f.claim("late", corev1.ReadWriteOnce)
	f.Create(pod("late", "late", "sleep 1000"))
	// As if it had been made for a claim that was deleted before its volume
	// was noted down.
	orphan := filepath.Join(filepath.Dir(keptFolder), "pvc-00000000-0000-0000-0000-000000000000")
	// And one that is not ours to judge.
	foreign := filepath.Join(filepath.Dir(keptFolder), "something")
	for _, folder := range []string{orphan, foreign} {
		if err := os.Mkdir(folder, 0o770); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(folder)
	}

	if err := keeper.Start(t.Context(), cluster.Provisioner); err != nil {
		t.Fatal(err)
	}
	f.waitGone(released, releasedFolder)
	f.WaitPod("late", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	if _, err := os.Stat(orphan); !os.IsNotExist(err) {
		t.Errorf("the folder that nobody claims is still there: %v", err)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("a folder of somebody else: %v", err)
	}
	if got := f.run("reader", "kept", `cat /data/file`); got != "kept" {
		t.Errorf("after the restart the file holds %q", got)
	}
}

func TestTheClassIsTheDefaultOne(t *testing.T) {
	f := newFixture(t)
	class, err := f.Client.StorageV1().StorageClasses().Get(t.Context(), storage.Class, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if class.Annotations["storageclass.kubernetes.io/is-default-class"] != "true" || class.Provisioner != storage.Provisioner {
		t.Errorf("the class is %+v", class)
	}
}

func TestARelativeFolderIsRefused(t *testing.T) {
	if err := storage.Run(t.Context(), nil, "volumes"); err == nil {
		t.Error("a folder was taken that is another one for the kubelet")
	}
	if _, err := os.Stat("volumes"); !os.IsNotExist(err) {
		t.Errorf("it was made: %v", err)
	}
}
