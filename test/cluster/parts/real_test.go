//go:build linux

package parts

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// answers are how each program is asked for its version, and what it says.
var answers = []struct{ name, flag, want string }{
	{"kube-apiserver", "--version", "Kubernetes v1.37.2"},
	{"kube-controller-manager", "--version", "Kubernetes v1.37.2"},
	{"kube-scheduler", "--version", "Kubernetes v1.37.2"},
	{"kubelet", "--version", "Kubernetes v1.37.2"},
	{"kube-proxy", "--version", "Kubernetes v1.37.2"},
	{"containerd", "--version", "v2.4.2"},
	{"containerd-shim-runc-v2", "-v", "Version:  v2.4.2"},
	{"ctr", "--version", "v2.4.2"},
	{"etcd", "--version", "etcd Version: 3.6.7"},
	{"kube-router", "--version", "v2.1.0"},
	{"coredns", "-version", "CoreDNS-1.14.1"},
	{"metrics-server", "--version", "v0.8.0"},
	{"runsc", "--version", "runsc version 20260905035102"},
	{"containerd-shim-runsc-v1", "-v", "containerd-shim-runsc-v1"},
}

// The real parts answer. To build them takes many minutes, so this asks for it:
// SKERRY_CLUSTER_BUILD=1 builds what is missing.
func TestEveryProgramAnswers(t *testing.T) {
	opts := Options{Log: t.Output(), Verify: true}
	missing, err := Missing(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	if len(missing) > 0 && os.Getenv("SKERRY_CLUSTER_BUILD") == "" {
		t.Skipf("NOT TESTED: %s are not built yet; SKERRY_CLUSTER_BUILD=1 builds them first (20 minutes on 2 cores), and so does make cluster-up",
			strings.Join(missing, ", "))
	}
	set, err := Build(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	asked := map[string]bool{}
	for _, a := range answers {
		asked[a.name] = true
		out, err := exec.CommandContext(t.Context(), set.Path(a.name), a.flag).CombinedOutput()
		if err != nil || !strings.Contains(string(out), a.want) {
			t.Errorf("%s %s: %v, %q; want %q in it", a.name, a.flag, err, out, a.want)
		}
	}
	for _, p := range all {
		for _, name := range p.names() {
			if !asked[name] && name != "kubernetes" {
				t.Errorf("%s is built and not asked", name)
			}
		}
	}
}

// Called by its own name the binary takes its first argument for the program.
func TestKubernetesByArgument(t *testing.T) {
	missing, err := Missing(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(missing) > 0 {
		t.Skipf("NOT TESTED: %s are not built yet", strings.Join(missing, ", "))
	}
	set, err := Build(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), set.Path("kubernetes"), "kubelet", "--version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Kubernetes v1.37.2") {
		t.Errorf("kubernetes kubelet --version: %v, %q", err, out)
	}
	out, err = exec.CommandContext(t.Context(), set.Path("kubernetes"), "nothing").CombinedOutput()
	if err == nil || !strings.Contains(string(out), `no program "nothing"`) {
		t.Errorf("kubernetes nothing: %v, %q; want a refusal", err, out)
	}
}
