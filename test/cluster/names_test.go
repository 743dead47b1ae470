//go:build linux

package cluster

import (
	"net/netip"
	"strings"
	"testing"
)

func TestNamesThatCanNotBeAreRefused(t *testing.T) {
	for _, name := range []string{"a/b", "..", "-a", "A", "a_b", "1a", strings.Repeat("a", maxNameBytes+1)} {
		if _, err := folderOf(name); err == nil {
			t.Errorf("name %q is taken", name)
		}
	}
	t.Setenv(FolderVariable, t.TempDir())
	f, err := folderOf("")
	if err != nil || f.name != defaultName {
		t.Errorf("the default name: %+v, %v", f, err)
	}
	other := folder{name: f.name, dir: "/elsewhere/" + f.name}
	if f.cgroup() == other.cgroup() {
		t.Errorf("two folders share the cgroup %s", f.cgroup())
	}
}

func TestLinksHaveAddressesAndNamesOfTheirOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, from := range linkRanges {
		size := uint32(1) << (30 - from.Bits())
		for _, n := range []uint32{0, 1, 64, size - 1} {
			block := nthBlock(from, n)
			if block.Bits() != 30 || !from.Contains(block.Addr()) || block.Masked() != block {
				t.Errorf("block %d of %s is %s", n, from, block)
			}
			name := linkName(block)
			if len(name) > 15 || seen[name] {
				t.Errorf("the link of %s is called %s", block, name)
			}
			seen[name] = true
		}
	}
	taken := []netip.Prefix{netip.MustParsePrefix("10.229.4.0/24")}
	if !overlapsAny(netip.MustParsePrefix("10.229.4.8/30"), taken) || overlapsAny(netip.MustParsePrefix("10.229.5.0/30"), taken) {
		t.Error("what the host has routes to is taken, and nothing else")
	}
}
