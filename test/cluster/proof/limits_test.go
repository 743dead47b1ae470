//go:build linux

package proof

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/skerry-run/skerry/test/cluster"
	"github.com/skerry-run/skerry/test/cluster/clustertest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func limit(pod *corev1.Pod, what corev1.ResourceName, quantity string) *corev1.Pod {
	l := corev1.ResourceList{what: resource.MustParse(quantity)}
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: l, Requests: l}
	return pod
}

// A pod above its memory limit is killed for it; the same program below it is
// not.
func TestMemoryLimit(t *testing.T) {
	n := clustertest.New(t, clustertest.Restricted)
	use := func(name, size string) *corev1.ContainerStateTerminated {
		pod := clustertest.Pod(name, clustertest.Python, "python3", "-c", "print(len(b'x' * ("+size+" << 20)))")
		return n.Ended(limit(pod, corev1.ResourceMemory, "64Mi")).Status.ContainerStatuses[0].State.Terminated
	}
	if end := use("small", "16"); end.Reason != "Completed" || end.ExitCode != 0 {
		t.Errorf("below the limit: %+v", end)
	}
	if end := use("large", "256"); end.Reason != "OOMKilled" || end.ExitCode != 137 {
		t.Errorf("above the limit: %+v", end)
	}
}

// A pod has no more processes than the node lets it have, however many it asks
// for.
func TestPIDLimit(t *testing.T) {
	n := clustertest.New(t, clustertest.Restricted)
	const fork = `
import os
n = 0
try:
    while n < 5000:
        if os.fork() == 0:
            os.execvp("sleep", ["sleep", "infinity"])
        n += 1
except BlockingIOError:
    pass
print(n)
`
	n.Ended(clustertest.Pod("many", clustertest.Python, "python3", "-c", fork))
	made, err := strconv.Atoi(strings.TrimSpace(n.Logs("many")))
	if err != nil || made < cluster.PodPIDs/2 || made > cluster.PodPIDs {
		t.Errorf("%d processes, error %v; the limit is %d", made, err, cluster.PodPIDs)
	}
}

// A folder with a limit is full when it is full, and the pod is evicted for it.
func TestDiskLimit(t *testing.T) {
	n := clustertest.New(t, clustertest.Restricted)
	pod := clustertest.Pod("full", clustertest.Bash, "sleep", "infinity")
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse("8Mi"))}}}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	n.Running(pod)
	if err := n.Cluster.FillDisk(t.Context(), n.Name, "full", "main", "/data", 32<<20); err != nil {
		t.Fatal(err)
	}
	if end := n.WaitEnd("full"); end.Status.Reason != "Evicted" {
		t.Errorf("%s: %s", end.Status.Reason, end.Status.Message)
	}
}

// The metrics API has figures of the node and of a pod that works.
func TestMetricsHaveNumbers(t *testing.T) {
	n := clustertest.New(t, clustertest.Restricted)
	n.Running(clustertest.Pod("busy", clustertest.Bash, "bash", "-c", "while :; do :; done"))
	if err := n.Cluster.WaitMetrics(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.Wait("the pod's metrics", func(ctx context.Context) error {
		data, err := n.Client.Discovery().RESTClient().Get().AbsPath("/apis/metrics.k8s.io/v1beta1/namespaces/" + n.Name + "/pods/busy").DoRaw(ctx)
		if err != nil {
			return err
		}
		var pod struct {
			Containers []struct{ Usage corev1.ResourceList }
		}
		if err := json.Unmarshal(data, &pod); err != nil {
			return err
		}
		for _, c := range pod.Containers {
			if !c.Usage.Cpu().IsZero() && !c.Usage.Memory().IsZero() {
				return nil
			}
		}
		return fmt.Errorf("no figures in %s", data)
	})
}
