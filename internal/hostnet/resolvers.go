//go:build linux

package hostnet

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxResolvers is how many a C library looks at.
const maxResolvers = 3

// Resolvers gives the addresses of the host's resolvers that are not on its
// own loopback, which no sandbox could reach.
func Resolvers() []netip.Addr { return resolvers("/") }

// resolvers reads the usual file, and where that names a stub of systemd the
// one in which systemd keeps what the stub asks.
func resolvers(root string) []netip.Addr {
	for _, name := range []string{"etc/resolv.conf", "run/systemd/resolve/resolv.conf"} {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			continue
		}
		if found := parseResolvers(string(data)); len(found) > 0 {
			return found
		}
	}
	return nil
}

func parseResolvers(text string) []netip.Addr {
	var out []netip.Addr
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "nameserver" {
			continue
		}
		a, err := netip.ParseAddr(f[1])
		if err != nil || a.IsLoopback() || a.IsUnspecified() || a.Zone() != "" || slices.Contains(out, a) || len(out) == maxResolvers {
			continue
		}
		out = append(out, a)
	}
	return out
}

// OwnAddresses gives the addresses of the host's interfaces.
func OwnAddresses() []netip.Addr {
	addrs, _ := net.InterfaceAddrs() // none where there is no network
	var out []netip.Addr
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && !p.Addr().IsLoopback() {
			out = append(out, p.Addr())
		}
	}
	return out
}
