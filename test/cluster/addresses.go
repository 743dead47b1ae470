//go:build linux

package cluster

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"os/exec"
	"strings"

	"github.com/skerry-run/skerry/test/cluster/keeper"
)

// Inside a cluster. They are the same for every one, since each has a network
// of its own.
const (
	clusterDomain = "cluster.local"
	podRange      = "10.244.0.0/16"
	serviceRange  = "10.96.0.0/16"
	apiServiceIP  = "10.96.0.1"
	dnsServiceIP  = "10.96.0.10"
	apiPort       = "6443"
)

// linkRanges are where the four addresses of a link between host and cluster
// are taken from: private ones that few networks use, and at last the one that
// is set aside for measuring networks, which none does.
var linkRanges = []netip.Prefix{
	netip.MustParsePrefix("10.229.0.0/16"),
	netip.MustParsePrefix("172.27.0.0/16"),
	netip.MustParsePrefix("198.18.0.0/15"),
}

// maxLinkTries bounds the search in each range.
const maxLinkTries = 64

// connect makes the link between the host and the cluster's network, with
// addresses that nothing else on the host uses, and fills in Link, NodeIP and
// HostIP. The link goes away with the cluster's network.
func (c *Cluster) connect(ctx context.Context) error {
	pid, err := keeper.PID(c.Dir)
	if err == nil && pid == 0 {
		err = ErrNotRunning
	}
	if err != nil {
		return err
	}
	taken, err := takenAddresses(ctx)
	if err != nil {
		return err
	}
	hash := fnv.New32a()
	hash.Write([]byte(c.Dir))
	for _, from := range linkRanges {
		size := uint32(1) << (30 - from.Bits())
		for try := range uint32(maxLinkTries) {
			block := nthBlock(from, (hash.Sum32()+try)%size)
			if overlapsAny(block, taken) {
				continue
			}
			// The name says which addresses are meant, and no two links can
			// have the same: to make it is to claim them.
			link := linkName(block)
			err := ip(ctx, "link", "add", "name", link, "type", "veth", "peer", "name", innerLink, "netns", fmt.Sprint(pid))
			if err != nil && strings.Contains(err.Error(), "File exists") {
				continue
			}
			if err != nil {
				return err
			}
			host := block.Addr().Next()
			node := host.Next()
			c.Link, c.HostIP, c.NodeIP = link, host.String(), node.String()
			return c.configureLink(ctx, pid, block.Bits())
		}
	}
	return errors.New("no free addresses for the link between host and cluster: the host has routes to all of those that are tried")
}

const innerLink = "eth0"

func (c *Cluster) configureLink(ctx context.Context, pid, bits int) error {
	for _, args := range [][]string{
		{"addr", "add", fmt.Sprintf("%s/%d", c.HostIP, bits), "dev", c.Link},
		{"link", "set", c.Link, "up"},
	} {
		if err := ip(ctx, args...); err != nil {
			return err
		}
	}
	return inNetwork(pid, func() error {
		for _, args := range [][]string{
			{"link", "set", "lo", "up"},
			{"addr", "add", fmt.Sprintf("%s/%d", c.NodeIP, bits), "dev", innerLink},
			{"link", "set", innerLink, "up"},
			{"route", "add", "default", "via", c.HostIP},
		} {
			if err := ip(ctx, args...); err != nil {
				return err
			}
		}
		return nil
	})
}

// linkName is "skc" and the address in hexadecimal: a name has 15 bytes.
func linkName(block netip.Prefix) string {
	a := block.Addr().As4()
	return fmt.Sprintf("skc%x", a[:])
}

func nthBlock(from netip.Prefix, n uint32) netip.Prefix {
	a := from.Addr().As4()
	binary.BigEndian.PutUint32(a[:], binary.BigEndian.Uint32(a[:])+4*n)
	return netip.PrefixFrom(netip.AddrFrom4(a), 30)
}

func overlapsAny(p netip.Prefix, others []netip.Prefix) bool {
	for _, o := range others {
		if p.Overlaps(o) {
			return true
		}
	}
	return false
}

// takenAddresses lists what the host has routes to, but for the default ones,
// and its own addresses.
func takenAddresses(ctx context.Context) ([]netip.Prefix, error) {
	var taken []netip.Prefix
	out, err := ipOutput(ctx, "-j", "-4", "route", "show", "table", "all")
	if err != nil {
		return nil, err
	}
	var routes []struct{ Dst string }
	if err := json.Unmarshal(out, &routes); err != nil {
		return nil, fmt.Errorf("read the host's routes: %w", err)
	}
	for _, r := range routes {
		if p, err := netip.ParsePrefix(r.Dst); err == nil && p.Bits() > 0 {
			taken = append(taken, p)
		} else if a, err := netip.ParseAddr(r.Dst); err == nil {
			taken = append(taken, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	return taken, nil
}

func ip(ctx context.Context, args ...string) error {
	_, err := ipOutput(ctx, args...)
	return err
}

func ipOutput(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "ip", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}
