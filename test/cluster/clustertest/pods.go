//go:build linux

package clustertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/skerry-run/skerry/test/cluster"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/exec"
)

// Images of the cluster that pods of tests run.
const (
	Bash   = "skerry.test/bash:5.2"
	Python = "skerry.test/python:3.11"
)

// Pod gives a pod of one container "main" as the restricted standard wants it,
// for the test to change before it is created.
func Pod(name, image string, command ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			RestartPolicy:                 corev1.RestartPolicyNever,
			AutomountServiceAccountToken:  new(false),
			TerminationGracePeriodSeconds: new(int64(1)),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot:   new(true),
				RunAsUser:      new(int64(12345)),
				RunAsGroup:     new(int64(12345)),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "main", Image: image, ImagePullPolicy: corev1.PullIfNotPresent, Command: command,
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: new(false),
					ReadOnlyRootFilesystem:   new(true),
					Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
}

// Create creates the pod, or fails the test.
func (n *Namespace) Create(pod *corev1.Pod) {
	n.Helper()
	if _, err := n.Client.CoreV1().Pods(n.Name).Create(n.Context(), pod, metav1.CreateOptions{}); err != nil {
		n.Fatal(err)
	}
}

// Running creates the pod and returns it when it runs.
func (n *Namespace) Running(pod *corev1.Pod) *corev1.Pod {
	n.Helper()
	n.Create(pod)
	return n.WaitPod(pod.Name, func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning && p.Status.PodIP != "" })
}

// Ended creates the pod and returns it when it has ended, in whatever way.
func (n *Namespace) Ended(pod *corev1.Pod) *corev1.Pod {
	n.Helper()
	n.Create(pod)
	return n.WaitEnd(pod.Name)
}

// WaitEnd returns the pod when it has ended.
func (n *Namespace) WaitEnd(name string) *corev1.Pod {
	n.Helper()
	return n.WaitPod(name, func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	})
}

// WaitPod returns the pod when it is as asked for.
func (n *Namespace) WaitPod(name string, is func(*corev1.Pod) bool) (pod *corev1.Pod) {
	n.Helper()
	n.Wait("pod "+name, func(ctx context.Context) (err error) {
		pod, err = n.Client.CoreV1().Pods(n.Name).Get(ctx, name, metav1.GetOptions{})
		if err == nil && !is(pod) {
			err = fmt.Errorf("%w: %s %s %+v", errNotYet, pod.Status.Phase, pod.Status.Reason, pod.Status.ContainerStatuses)
		}
		return err
	})
	return pod
}

// Logs gives what the pod has printed.
func (n *Namespace) Logs(name string) string {
	n.Helper()
	out, err := n.Client.CoreV1().Pods(n.Name).GetLogs(name, &corev1.PodLogOptions{}).DoRaw(n.Context())
	if err != nil {
		n.Fatal(err)
	}
	return string(out)
}

// streams collects two streams that are written at once.
type streams struct {
	mu    sync.Mutex
	bytes bytes.Buffer
}

func (o *streams) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes.Write(p)
}

func (o *streams) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.TrimSpace(o.bytes.String())
}

// Exec runs a command in the pod and gives what it printed on both outputs and
// the code that it ended with.
func (n *Namespace) Exec(pod string, command ...string) (output string, code int) {
	n.Helper()
	var out streams
	ctx, cancel := context.WithTimeout(n.Context(), Patience)
	defer cancel()
	err := n.Cluster.Exec(ctx, cluster.Exec{Namespace: n.Name, Pod: pod, Command: command, Stdout: &out, Stderr: &out})
	var ended exec.CodeExitError
	if errors.As(err, &ended) {
		return out.String(), ended.Code
	}
	if err != nil {
		n.Fatalf("exec %q in %s: %v", command, pod, err)
	}
	return out.String(), 0
}
