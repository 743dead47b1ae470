//go:build linux

package hostnet

import (
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/skerry-run/skerry"
)

var update = flag.Bool("update", false, "write the golden files anew")

func describe(steps []Step) string {
	var b strings.Builder
	for _, s := range steps {
		if s.Inside {
			b.WriteString("inside: ")
		}
		b.WriteString(strings.Join(s.Argv, " ") + "\n" + s.Stdin)
	}
	return b.String()
}

func TestPlansAgainstGoldenFiles(t *testing.T) {
	allow, err := skerry.ParseNetwork("allow=10.1.2.0/24:443,203.0.113.7,[2001:db8::/32]:53")
	if err != nil {
		t.Fatal(err)
	}
	addrs := func(list ...string) (out []netip.Addr) {
		for _, a := range list {
			out = append(out, netip.MustParseAddr(a))
		}
		return out
	}
	key := "0123456789abcdef0123456789abcdef"
	ns := namespaces{user: "/proc/9/fd/8", net: "/proc/42/ns/net"}
	internet := Plan{Key: key, PID: 42, Subnet: 300, Policy: skerry.Network{Mode: skerry.NetworkInternet}, Resolvers: addrs("10.0.0.53", "2001:db8::53")}
	listed := Plan{Key: key, PID: 42, Subnet: Subnets - 1, Policy: allow, Resolvers: addrs("10.0.0.53")}
	user := internet
	user.Own = addrs("93.184.216.1", "fe80::1", "10.0.0.9", "10.0.0.9")
	for name, got := range map[string]string{
		"root-internet": describe(internet.Setup()) + "--- teardown\n" + describe(internet.Teardown()),
		"root-allow":    describe(listed.Setup()),
		"user-internet": user.insideRules() + "pasta " + strings.Join(user.pastaArgs(ns), " ") + "\n",
	} {
		golden := filepath.Join("testdata", name+".golden")
		if *update {
			os.MkdirAll("testdata", 0o755)
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s: got:\n%s\nwant (go test -update writes it anew):\n%s", name, got, want)
		}
	}
	if w := listed.Warnings(); len(w) != 1 || !strings.Contains(w[0], "2001:db8::/32") {
		t.Errorf("warnings %q", w)
	}
	internet.Resolvers = addrs("::1")
	if w := internet.Warnings(); len(w) != 1 || !strings.Contains(w[0], "names") {
		t.Errorf("warnings %q", w)
	}
}

func TestEverySubnetLiesInThePool(t *testing.T) {
	seen := map[netip.Addr]bool{}
	for i := range Subnets {
		host, inside := (Plan{Subnet: i}).Addresses()
		if !pool.Contains(host.Addr()) || !pool.Contains(inside.Addr()) || host.Masked() != inside.Masked() || seen[host.Addr()] {
			t.Fatalf("subnet %d: %v %v", i, host, inside)
		}
		seen[host.Addr()] = true
	}
}

func TestRoutesThatAreTaken(t *testing.T) {
	routes := parseRoutes("default via 192.0.2.1 dev eth0\n192.0.2.0/24 dev eth0 proto kernel\nbroadcast 198.18.0.3 dev skx table local\n198.18.0.4/30 dev sky\n\nunreachable 10.0.0.0/8\nnonsense\n")
	want := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.18.0.3/32"), netip.MustParsePrefix("198.18.0.4/30"), netip.MustParsePrefix("10.0.0.0/8")}
	if !slices.Equal(routes, want) {
		t.Errorf("got %v", routes)
	}
	for n, taken := range map[int]bool{0: true, 1: true, 2: false} {
		host, _ := (Plan{Subnet: n}).Addresses()
		if overlaps(host.Masked(), routes) != taken {
			t.Errorf("subnet %d: taken is %v, want %v", n, !taken, taken)
		}
	}
}

func TestResolversThatASandboxCanReach(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755)
		os.WriteFile(filepath.Join(root, name), []byte(text), 0o644)
	}
	if got := resolvers(root); got != nil {
		t.Errorf("none: %v", got)
	}
	write("etc/resolv.conf", "# x\nnameserver 127.0.0.53\noptions edns0\nnameserver ::1\n")
	write("run/systemd/resolve/resolv.conf", "nameserver 10.0.0.1\nnameserver 10.0.0.1\nnameserver fe80::1%eth0\nnameserver x\nnameserver 10.0.0.2\nnameserver 10.0.0.3\nnameserver 10.0.0.4\n")
	if got := resolvers(root); len(got) != maxResolvers || got[0].String() != "10.0.0.1" || got[1].String() != "10.0.0.2" {
		t.Errorf("behind a stub: %v", got)
	}
	write("etc/resolv.conf", "nameserver 192.0.2.53\n")
	if got := resolvers(root); len(got) != 1 || got[0].String() != "192.0.2.53" {
		t.Errorf("plain: %v", got)
	}
}

func TestRouteTableOfAnInterface(t *testing.T) {
	head := "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
	if !hasDefaultRoute(head + "eth0\t00000000\t0200002D\t0003\t0\t0\t0\t00000000\t0\t0\t0\n") {
		t.Error("a default route is not seen")
	}
	if hasDefaultRoute(head+"eth0\t0000002D\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n") || hasDefaultRoute("") {
		t.Error("one is seen that is not there")
	}
}
