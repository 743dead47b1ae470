package skerry_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/skerry-run/skerry"

// mayImport is the map of the project: which package may import which other of
// ours. A package that is not here fails the test until it is given a place.
// "." is the root.
var mayImport = map[string][]string{
	".": {},

	// Backends and what they are made of.
	"local":                 {".", "internal/attach", "internal/boxes", "internal/bwrap", "internal/cgroups", "internal/hostnet", "internal/launch", "internal/seccompbpf", "internal/sweep"},
	"internal/attach":       {".", "internal/initproto"},
	"internal/boxes":        {"."},
	"internal/bwrap":        {"."},
	"internal/cgroups":      {},
	"internal/hostnet":      {"."},
	"internal/launch":       {"internal/seccompbpf"},
	"internal/launch/early": {"internal/launch"},
	"internal/seccompbpf":   {},
	"internal/seccompgen":   {},
	"internal/sweep":        {".", "internal/boxes", "internal/cgroups", "internal/hostnet"},
	"internal/supervise":    {".", "internal/boxes", "internal/bwrap", "internal/cgroups", "internal/control", "internal/hostnet", "internal/initconfig", "internal/keep", "internal/sweep"},

	// Inside the sandbox. Nothing here may reach a backend or a client.
	"internal/initd":      {".", "internal/initproto", "internal/initconfig", "internal/control", "internal/keep", "internal/sandboxfs", "internal/shellstate"},
	"internal/keep":       {},
	"internal/keep/early": {"internal/keep"},
	"internal/sandboxfs":  {"."},
	"internal/shellstate": {},
	"internal/probe":      {},

	// What both sides share.
	"internal/initproto":  {"."},
	"internal/initconfig": {"."},
	"internal/control":    {},

	// Proof.
	"sandboxtest":        {"."},
	"internal/testbuild": {},
	"internal/verify":    {".", "internal/probe"},
	"bench":              {".", "local", "internal/bwrap"},
	"examples/library":   {".", "local"},

	// Ways in.
	"internal/config": {"."},
	"cmd/skerry":      {".", "local", "internal/config", "internal/launch/early", "internal/verify"},
	"cmd/skerry-init": {"internal/initd", "internal/keep/early", "internal/probe", "internal/supervise"},
}

type goPackage struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

func listPackages(t *testing.T, args ...string) []goPackage {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Imports,Deps"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var pkgs []goPackage
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

// place gives the name of a package in mayImport, and whether it is ours.
func place(importPath string) (string, bool) {
	if importPath == module {
		return ".", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

func TestEveryPackageKeepsToItsPlace(t *testing.T) {
	for _, p := range listPackages(t, "./...") {
		name, _ := place(p.ImportPath)
		allowed, known := mayImport[name]
		if !known {
			t.Errorf("package %s has no place in mayImport", name)
			continue
		}
		for _, i := range p.Imports {
			if other, ours := place(i); ours && !slices.Contains(allowed, other) {
				t.Errorf("package %s imports %s, which its place does not allow", name, other)
			}
		}
	}
}

// The map that people read names every package, too.
func TestTheMapNamesEveryPackage(t *testing.T) {
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range mayImport {
		parent, _, _ := strings.Cut(name, "/")
		if !strings.Contains(string(text), "\n"+name) && (parent == "internal" || !strings.Contains(string(text), parent+"/")) && name != "." {
			t.Errorf("docs/architecture.md does not say what %s is", name)
		}
	}
}

func TestTheRootImportsOnlyTheStandardLibrary(t *testing.T) {
	for _, dep := range listPackages(t, ".")[0].Deps {
		if first, _, _ := strings.Cut(dep, "/"); strings.Contains(first, ".") {
			t.Errorf("the root depends on %s", dep)
		}
	}
}

func TestTheInitLinksNoKubernetesClient(t *testing.T) {
	for _, dep := range listPackages(t, "./cmd/skerry-init")[0].Deps {
		if strings.HasPrefix(dep, "k8s.io/") || strings.HasPrefix(dep, "sigs.k8s.io/") {
			t.Errorf("skerry-init depends on %s", dep)
		}
	}
}
