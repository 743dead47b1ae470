//go:build linux

package hostnet

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/skerry-run/skerry"
)

// Plan is one sandbox's network, before anything has been done.
type Plan struct {
	Key       string // of the sandbox; names of what is made derive from it
	PID       int    // a process in the sandbox's network namespace
	Subnet    int    // which of the pool's, 0 to Subnets-1
	Policy    skerry.Network
	Resolvers []netip.Addr
	// Own are the host's addresses, which stay closed wherever the packets to
	// them do not pass the host's input.
	Own []netip.Addr
}

// Subnets is how many sandboxes can have a network at the same time.
const Subnets = 1 << 15

// pool is where sandboxes have their addresses: a range for benchmarks of
// network devices, which nobody routes.
var pool = netip.MustParsePrefix("198.18.0.0/15")

// InsideName is the interface that a sandbox sees.
const InsideName = "eth0"

// HostName is the host's end of the pair; Linux allows 15 characters.
func (p Plan) HostName() string { return hostName(p.Key) }

func hostName(key string) string { return "sk" + key[:min(len(key), 12)] }

// Table is the name of the table that holds the sandbox's rules.
func (p Plan) Table() string { return table(p.Key) }

func table(key string) string { return "skerry_" + key }

// Addresses gives the host's and the sandbox's end of its /30.
func (p Plan) Addresses() (host, inside netip.Prefix) {
	base := pool.Addr().As4()
	n := uint32(base[0])<<24 | uint32(base[1])<<16 | uint32(base[2])<<8 | uint32(base[3])
	n += uint32(p.Subnet) * 4
	at := func(i uint32) netip.Prefix {
		m := n + i
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(m >> 24), byte(m >> 16), byte(m >> 8), byte(m)}), 30)
	}
	return at(1), at(2)
}

// Step is one program to run.
type Step struct {
	Inside bool // in the sandbox's network namespace
	Argv   []string
	Stdin  string
}

// Setup gives what root has to run, in order. The filter stands before there
// is an interface.
func (p Plan) Setup() []Step {
	host, inside := p.Addresses()
	return []Step{
		{Argv: []string{"nft", "-f", "-"}, Stdin: p.hostRules()},
		{Argv: []string{"ip", "link", "add", p.HostName(), "type", "veth", "peer", "name", InsideName, "netns", strconv.Itoa(p.PID)}},
		{Argv: []string{"ip", "addr", "add", host.String(), "dev", p.HostName()}},
		{Argv: []string{"ip", "link", "set", p.HostName(), "up"}},
		{Inside: true, Argv: []string{"ip", "addr", "add", inside.String(), "dev", InsideName}},
		{Inside: true, Argv: []string{"ip", "link", "set", InsideName, "up"}},
		{Inside: true, Argv: []string{"ip", "route", "add", "default", "via", host.Addr().String()}},
	}
}

// Teardown gives what undoes Setup on the host, whether or not all of it had
// been done. What is inside goes with the sandbox's namespace.
func (p Plan) Teardown() []Step { return teardown(p.Key) }

func teardown(key string) []Step {
	return []Step{
		{Argv: []string{"ip", "link", "del", hostName(key)}},
		{Argv: []string{"nft", "delete", "table", "inet", table(key)}},
	}
}

// hostRules is the filter on the host's side.
func (p Plan) hostRules() string {
	_, inside := p.Addresses()
	var b strings.Builder
	w := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	name, tab := p.HostName(), p.Table()
	w("table inet %s", tab) // so that the deletion below never fails
	w("delete table inet %s", tab)
	w("table inet %s {", tab)
	w("\tchain forward {")
	w("\t\ttype filter hook forward priority filter - 10; policy accept;")
	w("\t\tiifname %q jump out", name)
	w("\t\toifname %q ct state established,related accept", name)
	w("\t\toifname %q drop", name)
	w("\t}")
	w("\tchain input {")
	w("\t\ttype filter hook input priority filter - 10; policy accept;")
	// The host itself is closed, on every address that it has.
	for _, a := range p.resolvers4() {
		w("\t\tiifname %q ip saddr %s ip daddr %s meta l4proto { tcp, udp } th dport 53 accept", name, inside.Addr(), a)
	}
	w("\t\tiifname %q drop", name)
	w("\t}")
	w("\tchain output {")
	w("\t\ttype filter hook output priority filter - 10; policy accept;")
	w("\t\toifname %q ct state established,related accept", name)
	w("\t\toifname %q drop", name)
	w("\t}")
	w("\tchain out {")
	w("\t\tmeta nfproto ipv6 drop")
	w("\t\tip saddr != %s drop", inside.Addr())
	w("\t\tct state established,related accept")
	p.policy(w)
	w("\t}")
	w("\tchain postrouting {")
	w("\t\ttype nat hook postrouting priority srcnat; policy accept;")
	w("\t\tip saddr %s oifname != %q masquerade", inside.Addr(), name)
	w("\t}")
	w("}")
	return b.String()
}

// insideRules is the filter in the sandbox's own namespace, for pasta.
func (p Plan) insideRules() string {
	var b strings.Builder
	w := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	w("table inet %s {", p.Table())
	w("\tchain output {")
	w("\t\ttype filter hook output priority filter; policy drop;")
	w("\t\toifname \"lo\" accept")
	w("\t\tmeta nfproto ipv6 drop")
	w("\t\tct state established,related accept")
	p.policy(w)
	w("\t}")
	w("\tchain input {")
	w("\t\ttype filter hook input priority filter; policy drop;")
	w("\t\tiifname \"lo\" accept")
	w("\t\tmeta nfproto ipv6 drop")
	w("\t\tct state established,related accept")
	w("\t}")
	w("}")
	return b.String()
}

// policy writes the rules for new connections; its last one drops.
func (p Plan) policy(w func(format string, args ...any)) {
	switch p.Policy.Mode {
	case skerry.NetworkInternet:
		for _, a := range p.resolvers4() {
			w("\t\tip daddr %s meta l4proto { tcp, udp } th dport 53 accept", a)
		}
		ranges := make([]string, len(closed))
		for i, c := range closed {
			ranges[i] = c.String()
		}
		w("\t\tip daddr { %s } drop", strings.Join(ranges, ", "))
		p.closeOwn(w)
		w("\t\tmeta l4proto { tcp, udp, icmp } accept")
	case skerry.NetworkAllow:
		p.closeOwn(w)
		for _, r := range p.Policy.Allow {
			if !r.Prefix.Addr().Is4() {
				continue // there is no IPv6 inside; Warnings says so
			}
			if r.Port == 0 {
				w("\t\tip daddr %s meta l4proto { tcp, udp } accept", r.Prefix.Masked())
			} else {
				w("\t\tip daddr %s meta l4proto { tcp, udp } th dport %d accept", r.Prefix.Masked(), r.Port)
			}
		}
	}
	w("\t\tdrop")
}

func (p Plan) closeOwn(w func(format string, args ...any)) {
	var own []string
	for _, a := range p.Own {
		if a.Is4() {
			own = append(own, a.String())
		}
	}
	slices.Sort(own)
	if own = slices.Compact(own); len(own) > 0 {
		w("\t\tip daddr { %s } drop", strings.Join(own, ", "))
	}
}

// resolvers4 are those that mode internet opens. In mode allow a resolver is
// reached when a rule says so, like anything else.
func (p Plan) resolvers4() []netip.Addr {
	if p.Policy.Mode != skerry.NetworkInternet {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(p.Resolvers), func(a netip.Addr) bool { return !a.Is4() })
}

// Warnings says what of the policy can't be had.
func (p Plan) Warnings() []string {
	var out []string
	for _, r := range p.Policy.Allow {
		if !r.Prefix.Addr().Is4() {
			out = append(out, fmt.Sprintf("the network rule %s opens nothing: sandboxes on this machine have no IPv6", r))
		}
	}
	if p.Policy.Mode == skerry.NetworkInternet && len(p.resolvers4()) == 0 {
		out = append(out, "names can't be resolved: the host has no resolver that a sandbox could reach")
	}
	return out
}
