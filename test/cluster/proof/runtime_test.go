//go:build linux

package proof

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/skerry-run/skerry/test/cluster/clustertest"
	"github.com/skerry-run/skerry/test/cluster/image"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A restricted pod is what it says: not root, no privileges to gain, a filter
// of system calls, nothing to write to.
func TestRestrictedPodIsConfined(t *testing.T) {
	n := clustertest.New(t, clustertest.Restricted)
	n.Running(clustertest.Pod("confined", clustertest.Bash, "sleep", "infinity"))
	status, _ := n.Exec("confined", "cat", "/proc/self/status")
	for _, want := range []string{"NoNewPrivs:\t1", "Seccomp:\t2", "CapEff:\t0000000000000000", "Uid:\t12345\t12345"} {
		if !strings.Contains(status, want) {
			t.Errorf("there is no %q in %s", want, status)
		}
	}
	if out, code := n.Exec("confined", "touch", "/written"); code == 0 || !strings.Contains(out, "Read-only") {
		t.Errorf("touch ended with %d: %s", code, out)
	}
	if out, _ := n.Exec("confined", "cat", "/proc/sys/kernel/hostname"); out != "confined" {
		t.Errorf("its name is %q", out)
	}
}

// The RuntimeClass gvisor runs pods under another kernel than the node's.
func TestGVisor(t *testing.T) {
	n := clustertest.New(t, clustertest.Restricted)
	node := clustertest.Pod("node", clustertest.Bash, "uname", "-r")
	guest := clustertest.Pod("guest", clustertest.Bash, "uname", "-r")
	guest.Spec.RuntimeClassName = new("gvisor")
	n.Ended(node)
	n.Ended(guest)
	if own := n.Logs("node"); own == "" || strings.Contains(own, "gvisor") {
		t.Errorf("the node's kernel is %q", own)
	}
	if other := n.Logs("guest"); !strings.Contains(other, "gvisor") {
		t.Errorf("the guest's kernel is %q", other)
	}
}

// An image mounts as a volume that can be read and run, not written.
func TestImageVolume(t *testing.T) {
	n := clustertest.New(t, clustertest.Restricted)
	pod := clustertest.Pod("mounted", clustertest.Bash, "sleep", "infinity")
	pod.Spec.Volumes = []corev1.Volume{{Name: "init", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: image.Init, PullPolicy: corev1.PullIfNotPresent}}}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "init", MountPath: "/run/skerry", ReadOnly: true}}
	n.Running(pod)
	if out, code := n.Exec("mounted", "/run/skerry/skerry-init", "version"); code != 0 || out == "" {
		t.Errorf("it ended with %d: %s", code, out)
	}
	if out, code := n.Exec("mounted", "sh", "-c", "echo > /run/skerry/written"); code == 0 {
		t.Errorf("it can be written: %s", out)
	}
}

// The audit log has what the API server was asked, whole, soon after.
func TestAuditLogHasTheBodies(t *testing.T) {
	n := clustertest.New(t, nil)
	const said = "what was said to the API server"
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "said"}, Data: map[string]string{"text": said}}
	if _, err := n.Client.CoreV1().ConfigMaps(n.Name).Create(t.Context(), c, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	n.Wait("the audit log", func(context.Context) error {
		file, err := os.Open(n.Cluster.AuditLog())
		if err != nil {
			return err
		}
		defer file.Close()
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			var event struct {
				Level, Verb   string
				ObjectRef     struct{ Resource, Namespace, Name string }
				RequestObject struct{ Data map[string]string }
			}
			if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
				return err // half a line: the rest comes
			}
			if event.ObjectRef.Namespace == n.Name && event.ObjectRef.Resource == "configmaps" && event.Verb == "create" && event.RequestObject.Data["text"] == said {
				if event.Level != "RequestResponse" {
					t.Errorf("its level is %s", event.Level)
				}
				return nil
			}
		}
		return errors.Join(lines.Err(), errors.New("it does not have the request"))
	})
}
