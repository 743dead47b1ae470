package skerry

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// NetworkMode is what a sandbox may reach.
type NetworkMode string

const (
	NetworkDeny     NetworkMode = "deny"     // nothing but its own loopback
	NetworkInternet NetworkMode = "internet" // public addresses; private, link-local, shared and metadata ranges stay closed
	NetworkAllow    NetworkMode = "allow"    // what Allow lists, nothing else
)

// Network is the network policy of one sandbox. The zero value denies
// everything.
type Network struct {
	Mode  NetworkMode        // "" is deny
	Allow []NetworkAllowRule // only with NetworkAllow; then at least one
}

// NetworkAllowRule opens one range of addresses.
type NetworkAllowRule struct {
	Prefix netip.Prefix
	Port   uint16 // 0 is every port
}

// String gives CIDR or CIDR:PORT, IPv6 in brackets when a port follows.
func (r NetworkAllowRule) String() string {
	if r.Port == 0 {
		return r.Prefix.String()
	}
	if r.Prefix.Addr().Is6() {
		return fmt.Sprintf("[%s]:%d", r.Prefix, r.Port)
	}
	return fmt.Sprintf("%s:%d", r.Prefix, r.Port)
}

// String gives the form that ParseNetwork reads.
func (n Network) String() string {
	switch n.Mode {
	case "", NetworkDeny:
		return string(NetworkDeny)
	case NetworkAllow:
		parts := make([]string, len(n.Allow))
		for i, r := range n.Allow {
			parts[i] = r.String()
		}
		return "allow=" + strings.Join(parts, ",")
	}
	return string(n.Mode)
}

// maxAllowRules bounds a policy; more is a mistake, or an attack on the
// firewall that has to hold it.
const maxAllowRules = 256

// ParseNetwork reads deny, internet or allow=CIDR[:PORT],…; an address alone
// counts as a range of one.
func ParseNetwork(s string) (Network, error) {
	const op = "network"
	mode, list, hasList := strings.Cut(s, "=")
	switch m := NetworkMode(mode); {
	case (m == NetworkDeny || m == NetworkInternet) && !hasList:
		return Network{Mode: m}, nil
	case m == NetworkAllow && list != "":
		n := Network{Mode: m}
		for part := range strings.SplitSeq(list, ",") {
			r, err := parseAllowRule(strings.TrimSpace(part))
			if err != nil {
				return Network{}, Errorf(Invalid, op, "allow rule %q: %w", part, err).WithHint("write CIDR or CIDR:PORT, for example allow=203.0.113.0/24:443")
			}
			n.Allow = append(n.Allow, r)
		}
		return n, n.Validate()
	}
	return Network{}, Errorf(Invalid, op, "unknown network mode %q", s).WithHint("use deny, internet or allow=CIDR[:PORT],…")
}

// Validate refuses an unknown mode, allow without rules, rules without allow.
func (n Network) Validate() error {
	const op = "network"
	switch n.Mode {
	case "", NetworkDeny, NetworkInternet:
		if len(n.Allow) > 0 {
			return Errorf(Invalid, op, "mode %q takes no allow rules", n.Mode)
		}
	case NetworkAllow:
		if len(n.Allow) == 0 {
			return Errorf(Invalid, op, "mode allow needs at least one rule")
		}
		if len(n.Allow) > maxAllowRules {
			return Errorf(Invalid, op, "%d allow rules, at most %d", len(n.Allow), maxAllowRules)
		}
		for _, r := range n.Allow {
			if !r.Prefix.IsValid() {
				return Errorf(Invalid, op, "an allow rule has no valid range")
			}
			if r.Prefix.Addr().Is4In6() {
				return Errorf(Invalid, op, "allow rule %s is IPv4 written as IPv6", r).WithHint("write %s", r.Prefix.Addr().Unmap())
			}
		}
	default:
		return Errorf(Invalid, op, "unknown network mode %q", n.Mode)
	}
	return nil
}

func parseAllowRule(s string) (NetworkAllowRule, error) {
	addr, port := s, ""
	if inner, ok := strings.CutPrefix(s, "["); ok {
		var rest string
		var found bool
		if addr, rest, found = strings.Cut(inner, "]"); !found {
			return NetworkAllowRule{}, fmt.Errorf("no closing bracket")
		}
		if rest != "" {
			if port, found = strings.CutPrefix(rest, ":"); !found || port == "" {
				return NetworkAllowRule{}, fmt.Errorf("no port after the bracket")
			}
		}
	} else if strings.Count(s, ":") == 1 {
		addr, port, _ = strings.Cut(s, ":")
		if port == "" {
			return NetworkAllowRule{}, fmt.Errorf("no port after the colon")
		}
	}
	var r NetworkAllowRule
	if port != "" {
		p, err := strconv.ParseUint(port, 10, 16)
		if err != nil || p == 0 {
			return NetworkAllowRule{}, fmt.Errorf("port %q is not between 1 and 65535", port)
		}
		r.Port = uint16(p)
	}
	if p, err := netip.ParsePrefix(addr); err == nil {
		r.Prefix = p.Masked()
		return r, nil
	}
	a, err := netip.ParseAddr(addr)
	if err != nil || a.Zone() != "" {
		return NetworkAllowRule{}, fmt.Errorf("%q is neither an address nor a range", addr)
	}
	r.Prefix = netip.PrefixFrom(a, a.BitLen())
	return r, nil
}
