//go:build linux

package proof

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/skerry-run/skerry/test/cluster/clustertest"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// listen answers on two ports with "hello".
const listen = `
import socket, threading
def serve(port):
    s = socket.create_server(("", port))
    while True:
        c, _ = s.accept()
        c.sendall(b"hello")
        c.close()
for port in (8001, 8002):
    threading.Thread(target=serve, args=(port,)).start()
`

// connect says "hello" when it got an answer within two seconds, which is ages
// on one machine, and ends with 1 when it did not.
const connect = `
import socket, sys
try:
    with socket.create_connection((sys.argv[1], int(sys.argv[2])), 2) as c:
        print(c.makefile().read())
except OSError as e:
    sys.exit(f"{type(e).__name__}: {e}")
`

type network struct {
	*clustertest.Namespace
	server string
}

// reaches waits until the client reaches the port, or no longer does. A policy
// takes a moment to hold.
func (n *network) reaches(port int, want bool) {
	n.Helper()
	n.Wait(fmt.Sprintf("port %d to be reachable: %v", port, want), func(context.Context) error {
		out, code := n.Exec("client", "python3", "-c", connect, n.server, fmt.Sprint(port))
		if reached := code == 0 && out == "hello"; reached != want {
			return fmt.Errorf("exit code %d: %s", code, out)
		}
		return nil
	})
}

// A denied connection fails, an allowed one succeeds at the same time, and the
// denied one works again when the policy is gone.
func TestNetworkPolicyIsEnforced(t *testing.T) {
	n := &network{Namespace: clustertest.New(t, clustertest.Restricted)}
	n.Create(clustertest.Pod("client", clustertest.Python, "sleep", "infinity"))
	n.server = n.Running(clustertest.Pod("server", clustertest.Python, "python3", "-c", listen)).Status.PodIP
	n.WaitPod("client", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	n.reaches(8001, true)
	n.reaches(8002, true)

	policies := n.Client.NetworkingV1().NetworkPolicies(n.Name)
	policy := &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "only-one-port"},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "server"}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress:     []networkingv1.NetworkPolicyIngressRule{{Ports: []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromInt32(8002))}}}},
		},
	}
	if _, err := policies.Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	n.reaches(8001, false)
	n.reaches(8002, true)

	// What is sent is filtered, too.
	egress := &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "nothing-out"},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "client"}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
		},
	}
	if _, err := policies.Create(t.Context(), egress, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	n.reaches(8002, false)

	for _, name := range []string{policy.Name, egress.Name} {
		if err := policies.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	n.reaches(8001, true)
	n.reaches(8002, true)
}

// Pods find services by name and reach them.
func TestServicesAndNames(t *testing.T) {
	n := &network{Namespace: clustertest.New(t, clustertest.Restricted)}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "greeter"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "server"}, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8001)}}},
	}
	if _, err := n.Client.CoreV1().Services(n.Name).Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	n.Create(clustertest.Pod("server", clustertest.Python, "python3", "-c", listen))
	n.Running(clustertest.Pod("client", clustertest.Python, "sleep", "infinity"))
	for _, name := range []string{"greeter", "greeter." + n.Name + ".svc.cluster.local"} {
		n.server = name
		n.reaches(80, true)
	}
	n.server = "nobody"
	n.reaches(80, false)
	n.Wait("the API server to be found", func(context.Context) error {
		out, _ := n.Exec("client", "python3", "-c", `import socket; print(socket.gethostbyname("kubernetes.default.svc.cluster.local"))`)
		if out != "10.96.0.1" {
			return errors.New(out)
		}
		return nil
	})
}
