//go:build linux

package cluster

import (
	"bytes"
	"context"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"text/template"

	"github.com/skerry-run/skerry/test/cluster/image"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// addons are the objects of every cluster. Programs of the cluster's own that
// run as pods have an image with nothing of theirs in it; the node lends them
// the program.
//
//go:embed addons/*.yaml
var addons embed.FS

func (b *boot) applyAddons(ctx context.Context) error {
	ca, err := os.ReadFile(b.path("pki", "ca.crt"))
	if err != nil {
		return err
	}
	values := map[string]string{
		"PauseImage":    image.Pause,
		"CoreDNS":       b.Programs["coredns"],
		"MetricsServer": b.Programs["metrics-server"],
		"PKI":           b.path("pki"),
		"DNSServiceIP":  dnsServiceIP,
		"CABundle":      base64.StdEncoding.EncodeToString(ca),
	}
	config, err := b.RESTConfig()
	if err != nil {
		return err
	}
	files, err := addons.ReadDir("addons")
	if err != nil {
		return err
	}
	for _, f := range files {
		t, err := template.ParseFS(addons, path.Join("addons", f.Name()))
		if err != nil {
			return err
		}
		var out bytes.Buffer
		if err := t.Option("missingkey=error").Execute(&out, values); err != nil {
			return fmt.Errorf("fill in %s: %w", f.Name(), err)
		}
		if err := apply(ctx, config, &out); err != nil {
			return fmt.Errorf("apply %s: %w", f.Name(), err)
		}
	}
	return nil
}

// applied are the kinds that [apply] knows, and whether they are in a
// namespace. To ask the API server instead would take a good part of the boot.
var applied = map[string]struct {
	resource   string
	namespaced bool
}{
	"ServiceAccount":     {"serviceaccounts", true},
	"ConfigMap":          {"configmaps", true},
	"Service":            {"services", true},
	"Deployment":         {"deployments", true},
	"RoleBinding":        {"rolebindings", true},
	"ClusterRole":        {"clusterroles", false},
	"ClusterRoleBinding": {"clusterrolebindings", false},
	"RuntimeClass":       {"runtimeclasses", false},
	"StorageClass":       {"storageclasses", false},
	"APIService":         {"apiservices", false},
	"Namespace":          {"namespaces", false},
}

const fieldManager = "skerry-cluster"

// apply makes objects, in YAML, what they are said to be.
func apply(ctx context.Context, config *rest.Config, from io.Reader) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	for d := yaml.NewYAMLOrJSONDecoder(from, 4096); ; {
		o := &unstructured.Unstructured{}
		err := d.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		kind, known := applied[o.GetKind()]
		if !known {
			return fmt.Errorf("kind %q is not one of those that can be applied", o.GetKind())
		}
		group, err := schema.ParseGroupVersion(o.GetAPIVersion())
		if err != nil {
			return err
		}
		resources := client.Resource(group.WithResource(kind.resource))
		var r dynamic.ResourceInterface = resources
		if kind.namespaced {
			r = resources.Namespace(o.GetNamespace())
		}
		if _, err := r.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: fieldManager, Force: true}); err != nil {
			return fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
}
