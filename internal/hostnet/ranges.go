//go:build linux

// Package hostnet gives a sandbox a network that reaches what its policy
// allows and nothing else: for root a pair of virtual interfaces with filters
// on the host's side, for an ordinary user pasta with filters in the sandbox's
// own network namespace, which its programs have no right to change. IPv6 is
// off in both. The host's own network namespace is never shared.
package hostnet

import "net/netip"

// closed are the ranges that are no part of the internet, or that lead to
// what serves one machine or one network: never reached in mode internet.
var closed = prefixes(
	"0.0.0.0/8",
	"10.0.0.0/8",
	"100.64.0.0/10", // shared (carriers); holds 100.100.100.200, metadata
	"127.0.0.0/8",
	"168.63.129.16/32", // a cloud's host agent, on a public address
	"169.254.0.0/16",   // link-local; holds 169.254.169.254, metadata
	"172.16.0.0/12",
	"192.0.0.0/24",
	"192.0.2.0/24", // documentation, as the two below with /24
	"192.88.99.0/24",
	"192.168.0.0/16",
	"198.18.0.0/15", // benchmarks; sandboxes have their addresses here
	"198.51.100.0/24",
	"203.0.113.0/24",
	"224.0.0.0/4",
	"240.0.0.0/4",
)

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}
