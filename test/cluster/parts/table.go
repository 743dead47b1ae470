//go:build linux

package parts

// A part is one module under src and the binaries that come out of it.
type part struct {
	name     string // its folder
	binaries []binary
	ldflags  string // beside -s -w
	after    string // the part, further up, that is finished before this one begins; empty: none
}

// A binary is one file that is linked.
type binary struct {
	name    string
	pkg     string   // the main package: a path inside the part's folder, or another module's
	aliases []string // names it is called by beside its own
}

// all begins with the longest, so that it does not end up alone on one core.
//
// The last three are built from the versions of kubernetes wherever they meet
// it. When it is finished the compiler's cache has most of them, which halves
// the time of a first build; beside it they would compile the same packages.
var all = []part{
	{
		name: "kubernetes",
		binaries: []binary{{name: "kubernetes", pkg: ".", aliases: []string{
			"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy",
		}}},
		// Without these a node reports a version that no client understands.
		ldflags: "-X k8s.io/component-base/version.gitVersion=v1.37.2 -X k8s.io/client-go/pkg/version.gitVersion=v1.37.2",
	},
	{
		name: "containerd",
		binaries: []binary{
			{name: "containerd", pkg: "github.com/containerd/containerd/v2/cmd/containerd"},
			{name: "containerd-shim-runc-v2", pkg: "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"},
			{name: "ctr", pkg: "github.com/containerd/containerd/v2/cmd/ctr"},
		},
		ldflags: "-X github.com/containerd/containerd/v2/version.Version=v2.4.2",
	},
	{
		name: "gvisor",
		binaries: []binary{
			{name: "runsc", pkg: "gvisor.dev/gvisor/runsc"},
			{name: "containerd-shim-runsc-v1", pkg: "./containerd-shim-runsc-v1"},
		},
		ldflags: "-X gvisor.dev/gvisor/runsc/version.version=20260905035102-160fafc42237",
	},
	{name: "etcd", binaries: []binary{{name: "etcd", pkg: "go.etcd.io/etcd/server/v3"}}},
	{
		name:     "kuberouter",
		binaries: []binary{{name: "kube-router", pkg: "github.com/cloudnativelabs/kube-router/v2/cmd/kube-router"}},
		ldflags:  "-X github.com/cloudnativelabs/kube-router/v2/pkg/version.Version=v2.1.0",
		after:    "kubernetes",
	},
	{
		name:     "metricsserver",
		binaries: []binary{{name: "metrics-server", pkg: "."}},
		ldflags:  "-X k8s.io/client-go/pkg/version.gitVersion=v0.8.0",
		after:    "kubernetes",
	},
	{name: "coredns", binaries: []binary{{name: "coredns", pkg: "."}}, after: "kubernetes"},
}

// names are what the part's programs are called by.
func (p part) names() []string {
	var names []string
	for _, b := range p.binaries {
		names = append(names, b.name)
		names = append(names, b.aliases...)
	}
	return names
}
