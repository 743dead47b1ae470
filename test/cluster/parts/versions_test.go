//go:build linux

package parts

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var required = regexp.MustCompile(`(?m)^(?:require)?\s+([^\s]+) (v[^\s]+)`)

// Where these parts meet kubernetes they use its versions. Nothing would break
// if they did not, but the same packages would be compiled once more for each.
func TestPartsMeetAtTheSameVersions(t *testing.T) {
	versions := func(name string) map[string]string {
		t.Helper()
		data, err := os.ReadFile(filepath.Join("src", name, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]string{}
		for _, m := range required.FindAllSubmatch(data, -1) {
			found[string(m[1])] = string(m[2])
		}
		return found
	}
	kubernetes := versions("kubernetes")
	for _, p := range all {
		name, shared := p.name, 0
		if p.after != "kubernetes" {
			continue
		}
		for module, version := range versions(name) {
			want, ok := kubernetes[module]
			if !ok {
				continue
			}
			shared++
			if version != want {
				t.Errorf("%s has %s %s, kubernetes %s: go -C src/%s get %s@%s", name, module, version, want, name, module, want)
			}
		}
		if shared < 20 {
			t.Errorf("%s shares %d modules with kubernetes, want at least 20: is its go.mod still read?", name, shared)
		}
	}
}

// The version a program reports is the one it is built from.
func TestReportedVersionIsTheBuiltOne(t *testing.T) {
	reported := regexp.MustCompile(`-X [^\s=]+=v?([^\s]+)`)
	for _, p := range all {
		data, err := os.ReadFile(filepath.Join("src", p.name, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range reported.FindAllStringSubmatch(p.ldflags, -1) {
			if !strings.Contains(string(data), m[1]) {
				t.Errorf("%s reports version %s, which its go.mod does not mention", p.name, m[1])
			}
		}
	}
}
