//go:build linux

// Package clustertest gives tests a cluster and a namespace of their own in it,
// and starts pods there.
package clustertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/skerry-run/skerry/test/cluster"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Patience bounds one wait for the cluster. It is no measure of speed: whatever
// waits that long has failed.
const Patience = 3 * time.Minute

// Restricted are the labels of a namespace that takes only pods of the
// restricted Pod Security Standard.
var Restricted = map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}

var shared struct {
	cluster *cluster.Cluster
	skip    string
}

// Main boots the cluster of that name, runs the tests, takes the cluster down,
// and exits. Where there can't be a cluster every test that asks for one is
// skipped with the reason; with -short too. SKERRY_CLUSTER_KEEP=1 leaves the
// cluster running, for the next run and for a look into it.
func Main(m *testing.M, name string) { os.Exit(run(m, name)) }

func run(m *testing.M, name string) (code int) {
	ctx := context.Background()
	parse()
	switch {
	case testing.Short():
		shared.skip = "-short leaves out what needs a cluster"
		return m.Run()
	case os.Geteuid() != 0:
		shared.skip = "a cluster needs root"
		return m.Run()
	}
	c, err := cluster.Up(ctx, cluster.Config{Name: name, Log: os.Stderr})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	shared.cluster = c
	code = m.Run()
	if os.Getenv("SKERRY_CLUSTER_KEEP") != "" {
		return code
	}
	if err := cluster.Down(ctx, name); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// A Namespace is one test's part of the cluster. It is deleted, without waiting
// for it, when the test is over.
type Namespace struct {
	*testing.T
	Cluster *cluster.Cluster
	Client  kubernetes.Interface
	Name    string
}

// New makes a namespace with these labels, which may be nil, and skips the test
// where there is no cluster.
func New(t *testing.T, labels map[string]string) *Namespace {
	t.Helper()
	if shared.cluster == nil {
		t.Skip("SKIPPED: " + shared.skip)
	}
	client, err := shared.cluster.Client()
	if err != nil {
		t.Fatal(err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-", Labels: labels}}
	ns, err = client.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n := &Namespace{T: t, Cluster: shared.cluster, Client: client, Name: ns.Name}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		if err := client.CoreV1().Namespaces().Delete(ctx, n.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("delete the namespace: %v", err)
		}
	})
	n.Wait("the namespace's service account", func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts(n.Name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	return n
}

// pause is how long is waited between two looks.
const pause = 100 * time.Millisecond

// Wait looks until look gives nil, and fails the test with what it gave last
// when that takes longer than Patience.
func (n *Namespace) Wait(what string, look func(context.Context) error) {
	n.Helper()
	ctx, cancel := context.WithTimeout(n.Context(), Patience)
	defer cancel()
	for {
		err := look(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			n.Fatalf("waiting for %s: %v", what, err)
		case <-time.After(pause):
		}
	}
}

// errNotYet is for looks that have nothing more to say.
var errNotYet = errors.New("not yet")
