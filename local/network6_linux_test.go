package local

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/skerry-run/skerry"
)

// Addresses of the world in IPv6: public, unique local, documentation, NAT64 and
// 6to4 of 10.9.9.9. Those of the link between machine and world are 1 and 2.
var world6 = []string{"2606:2800:220:1::34", "fd12:3456::9", "2001:db8::7", "64:ff9b::a09:909", "2002:a09:909::1"}

const (
	machine6   = "2606:2800:220:ffff::1"
	uplink6    = "2606:2800:220:ffff::2"
	machineLL6 = "fe80::1"
	uplinkLL6  = "fe80::2"
)

// hasIPv6 says whether the kernel has it, in the namespace of the thread.
func hasIPv6() bool {
	off, err := os.ReadFile("/proc/sys/net/ipv6/conf/all/disable_ipv6")
	return err == nil && strings.TrimSpace(string(off)) == "0"
}

func addAddress6(t *testing.T, addr, dev string) {
	t.Helper()
	must(t, "ip", "-6", "addr", "add", addr, "dev", dev, "nodad")
}

// beWorld6 gives the world its addresses, and a listener on all of them.
func beWorld6(t *testing.T, port int) net.Listener {
	addAddress6(t, uplink6+"/64", "up0")
	addAddress6(t, uplinkLL6+"/64", "up0")
	for _, a := range world6 {
		addAddress6(t, a+"/128", "lo")
	}
	must(t, "ip", "-6", "route", "add", "default", "via", machine6)
	l, err := net.Listen("tcp6", fmt.Sprintf("[::]:%d", port))
	if err != nil {
		t.Error(err)
	}
	return l
}

// beMachine6 connects the machine to the world, and lets it forward: what keeps
// a sandbox in must not be that nobody carries its packets.
func beMachine6(t *testing.T) {
	addAddress6(t, machine6+"/64", "up0")
	addAddress6(t, machineLL6+"/64", "up0")
	must(t, "ip", "-6", "route", "add", "default", "via", uplink6)
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("1\n"), 0); err != nil {
		t.Error(err)
	}
}

func (w world) at6(addrs ...string) []string {
	out := make([]string, len(addrs))
	for i, a := range addrs {
		out[i] = fmt.Sprintf("[%s]:%d", a, w.port)
	}
	return out
}

// mapped writes IPv4 addresses as IPv6 ones: their packets are IPv4 all the
// same.
func mapped(addrs ...string) []string {
	out := make([]string, len(addrs))
	for i, a := range addrs {
		out[i] = "::ffff:" + a
	}
	return out
}

// newWorld6 is a world in which every address answers the machine.
func newWorld6(t *testing.T) (w world, everywhere []string) {
	t.Helper()
	w = newWorld(t)
	if !hasIPv6() {
		t.Skip("the kernel has no IPv6")
	}
	everywhere = w.at6(append(append([]string{uplink6}, world6...), mapped(forbidden...)...)...)
	everywhere = append(everywhere, fmt.Sprintf("[%s%%up0]:%d", uplinkLL6, w.port))
	for _, a := range everywhere {
		answers(t, a)
	}
	return w, everywhere
}

// In no mode does a sandbox reach anything by IPv6, and IPv4 that is written as
// IPv6 is held to the rules of IPv4.
func TestIPv6LeadsNowhere(t *testing.T) {
	w, everywhere := newWorld6(t)
	b := newBackend(t)
	l, err := net.Listen("tcp", "[::]:0") // the machine itself
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go serve(l)
	own := l.Addr().(*net.TCPAddr).Port
	targets := slices.Clone(everywhere)
	for _, a := range []string{machine6, machineLL6 + "%eth0", "::1", "::", "::ffff:45.0.0.1", "::ffff:127.0.0.1"} {
		targets = append(targets, fmt.Sprintf("[%s]:%d", a, own))
	}
	// A link-local address needs the name of the sandbox's own link.
	targets = append(targets, w.at6(uplinkLL6+"%eth0", "ff02::1%eth0")...)
	open := w.at6(mapped(public...)...)
	targets = append(targets, open...)
	allow := func(rules string) skerry.Network {
		n, err := skerry.ParseNetwork("allow=" + rules)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for name, c := range map[string]struct {
		network skerry.Network
		want    []string
	}{
		"deny":                {skerry.Network{}, nil},
		"internet":            {skerry.Network{Mode: skerry.NetworkInternet}, open},
		"allow all of IPv6":   {allow("::/0"), nil},
		"allow some":          {allow("[2606:2800::/32]:443,fd00::/8,fe80::/10,64:ff9b::/96"), nil},
		"allow an IPv4 range": {allow("10.0.0.0/8,::/0"), w.at6(mapped("10.9.9.9")...)},
	} {
		got := reached(t, b, c.network, targets, c.want)
		for _, a := range c.want {
			if !got[a] {
				t.Errorf("%s: %s can't be reached", name, a)
			}
			delete(got, a)
		}
		for a := range got {
			t.Errorf("%s: %s can be reached", name, a)
		}
	}
	noNetworkLeft(t)
	wantNothingLeft(t, b)
}

// A rule that opens nothing, because there is no IPv6, is named.
func TestARuleForIPv6IsNamed(t *testing.T) {
	newWorld(t)
	n, err := skerry.ParseNetwork("allow=10.0.0.0/8,[fd00::/8]:443")
	if err != nil {
		t.Fatal(err)
	}
	r := sh(t, newBackend(t), "wc -l </proc/net/if_inet6", func(s *skerry.RunSpec) { s.Sandbox.Network = n })
	if r.Outcome != skerry.Exited || r.Stdout != "0\n" || !strings.Contains(strings.Join(r.Warnings, "\n"), "[fd00::/8]:443 opens nothing") {
		t.Errorf("%s %q, output %q, warnings %q; want no IPv6 inside and a warning", r.Outcome, r.Reason, r.Stdout, r.Warnings)
	}
}
