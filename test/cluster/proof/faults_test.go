//go:build linux

package proof

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/skerry-run/skerry/test/cluster"
	"github.com/skerry-run/skerry/test/cluster/clustertest"
	"github.com/skerry-run/skerry/test/cluster/proxy"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// heal makes the cluster whole again after a test that broke it, and after one
// that failed in between.
func heal(n *clustertest.Namespace) {
	n.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), clustertest.Patience)
		defer cancel()
		parts, err := n.Cluster.Keeper().Status(ctx)
		if err != nil {
			n.Error(err)
		}
		for _, p := range parts {
			if err := n.Cluster.Start(ctx, p.Name); err != nil {
				n.Error(err)
			}
		}
		if err := n.Cluster.WaitReady(ctx); err != nil {
			n.Error(err)
		}
	})
}

// asks gives what the API server says to a small question.
func asks(ctx context.Context, client kubernetes.Interface, n *clustertest.Namespace) error {
	_, err := client.CoreV1().Namespaces().Get(ctx, n.Name, metav1.GetOptions{})
	return err
}

// An API server that is stopped does not answer until it is started; one that
// is killed comes back by itself. What runs goes on running.
func TestAPIServerStopsAndIsKilled(t *testing.T) {
	n := clustertest.New(t, clustertest.Restricted)
	heal(n)
	n.Running(clustertest.Pod("stays", clustertest.Bash, "sleep", "infinity"))
	if err := n.Cluster.Stop(t.Context(), cluster.APIServer); err != nil {
		t.Fatal(err)
	}
	if err := asks(t.Context(), n.Client, n); err == nil {
		t.Error("a stopped API server answers")
	}
	if err := n.Cluster.Start(t.Context(), cluster.APIServer); err != nil {
		t.Fatal(err)
	}
	n.Wait("the API server", func(ctx context.Context) error { return asks(ctx, n.Client, n) })
	if err := n.Cluster.Kill(t.Context(), cluster.APIServer); err != nil {
		t.Fatal(err)
	}
	n.Wait("the API server", func(ctx context.Context) error { return asks(ctx, n.Client, n) })
	if pod := n.WaitPod("stays", func(*corev1.Pod) bool { return true }); pod.Status.Phase != corev1.PodRunning || pod.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("the pod is %s, restarted %d times", pod.Status.Phase, pod.Status.ContainerStatuses[0].RestartCount)
	}
}

// Without the controller manager nobody makes a Job's pod; with it, somebody
// does.
func TestControllerManagerStops(t *testing.T) {
	n := clustertest.New(t, clustertest.Restricted)
	heal(n)
	if err := n.Cluster.Stop(t.Context(), cluster.ControllerManager); err != nil {
		t.Fatal(err)
	}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "waits"}}
	job.Spec.Template.Spec = clustertest.Pod("", clustertest.Bash, "true").Spec
	if _, err := n.Client.BatchV1().Jobs(n.Name).Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// What another pod takes to come and go is more than enough for the Job's.
	n.Ended(clustertest.Pod("other", clustertest.Bash, "true"))
	if job, err := n.Client.BatchV1().Jobs(n.Name).Get(t.Context(), "waits", metav1.GetOptions{}); err != nil || job.Status.StartTime != nil {
		t.Errorf("somebody started the job: %+v, error %v", job.Status, err)
	}
	if err := n.Cluster.Start(t.Context(), cluster.ControllerManager); err != nil {
		t.Fatal(err)
	}
	n.Wait("the job", func(ctx context.Context) error {
		job, err := n.Client.BatchV1().Jobs(n.Name).Get(ctx, "waits", metav1.GetOptions{})
		if err == nil && job.Status.Succeeded != 1 {
			err = fmt.Errorf("%+v", job.Status)
		}
		return err
	})
}

// A node whose kubelet is gone is not Ready, its containers go on, and it comes
// back.
func TestNodeIsLostAndComesBack(t *testing.T) {
	n := clustertest.New(t, clustertest.Restricted)
	heal(n)
	n.Running(clustertest.Pod("stays", clustertest.Bash, "sleep", "infinity"))
	if err := n.Cluster.LoseNode(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := n.Cluster.RestoreNode(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.Wait("commands in the pod", func(ctx context.Context) error {
		return n.Cluster.Exec(ctx, cluster.Exec{Namespace: n.Name, Pod: "stays", Command: []string{"true"}, Stdout: discard{}})
	})
	for _, program := range []string{cluster.Kubelet, cluster.Containerd} {
		if err := n.Cluster.Kill(t.Context(), program); err != nil {
			t.Fatal(err)
		}
		n.Wait("commands in the pod", func(ctx context.Context) error {
			return n.Cluster.Exec(ctx, cluster.Exec{Namespace: n.Name, Pod: "stays", Command: []string{"true"}, Stdout: discard{}})
		})
	}
	if pod := n.WaitPod("stays", func(*corev1.Pod) bool { return true }); pod.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("the pod was restarted")
	}
}

// discard takes output that nobody reads.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// A pod deleted under a running command is gone, and so is the command.
func TestPodIsDeletedUnderACommand(t *testing.T) {
	n := clustertest.New(t, clustertest.Restricted)
	n.Running(clustertest.Pod("victim", clustertest.Bash, "sleep", "infinity"))
	started := &signal{first: make(chan struct{})}
	ended := make(chan error, 1)
	go func() {
		ended <- n.Cluster.Exec(t.Context(), cluster.Exec{Namespace: n.Name, Pod: "victim", Command: []string{"sh", "-c", "echo started; sleep infinity"}, Stdout: started})
	}()
	select {
	case <-started.first:
	case err := <-ended:
		t.Fatal(err)
	}
	if err := n.Cluster.DeletePod(t.Context(), n.Name, "victim"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("a command without a pod ended well")
	}
	if err := n.Cluster.DeletePod(t.Context(), n.Name, "victim"); err != nil {
		t.Errorf("deleting what is gone: %v", err)
	}
}

// signal says when something is written for the first time.
type signal struct {
	first chan struct{}
	told  bool
}

func (s *signal) Write(p []byte) (int, error) {
	if !s.told {
		s.told = true
		close(s.first)
	}
	return len(p), nil
}

// The connection to the API server can be cut, in the middle of an answer too,
// and restored.
func TestConnectionIsCut(t *testing.T) {
	n := clustertest.New(t, nil)
	p, err := n.Cluster.Proxy()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	config, err := n.Cluster.Through(p)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := asks(t.Context(), client, n); err != nil {
		t.Fatal(err)
	}
	watch, err := client.CoreV1().Pods(n.Name).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p.Drop()
	for range watch.ResultChan() { // until it is over
	}
	if err := asks(t.Context(), client, n); err == nil {
		t.Error("it answers over a connection that is cut")
	}
	p.Restore()
	if err := asks(t.Context(), client, n); err != nil {
		t.Error(err)
	}
	p.CutAfter(proxy.ToClient, 100)
	list, err := client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
	if err == nil {
		t.Errorf("an answer of %d bytes came through whole", list.Size())
	}
	if err := asks(t.Context(), client, n); err != nil {
		t.Errorf("after the cut: %v", err)
	}
	p.Stall()
	ctx, cancel := context.WithCancel(t.Context())
	answered := make(chan error, 1)
	go func() { answered <- asks(ctx, client, n) }()
	// The request is on its way when the proxy holds its connection.
	select {
	case err := <-answered:
		t.Errorf("it answered through a connection that stands still: %v", err)
	default:
	}
	cancel()
	if err := <-answered; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	p.Restore()
}
