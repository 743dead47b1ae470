//go:build linux

package supervise

import (
	"fmt"
	"os"
	"strings"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/boxes"
	"github.com/skerry-run/skerry/internal/bwrap"
	"github.com/skerry-run/skerry/internal/hostnet"
)

// addData gives the files of /etc that are copied from the host, and those that
// are the sandbox's own.
func addData(child *filesForChild, layout bwrap.Layout, r boxes.Record) ([]bwrap.Data, error) {
	var out []bwrap.Data
	for _, c := range layout.Copies {
		file, err := os.Open(c.Source)
		if err != nil {
			continue // it went away since it was listed
		}
		out = append(out, bwrap.Data{FD: child.add(file), Dest: c.Dest})
	}
	for _, f := range []struct{ dest, text string }{
		{"/etc/passwd", fmt.Sprintf("root:x:0:0:root:/nonexistent:/bin/false\n%s:x:%d:%d:%s:%s:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n",
			bwrap.User, bwrap.UID, bwrap.GID, bwrap.User, bwrap.Home)},
		{"/etc/group", fmt.Sprintf("root:x:0:\n%s:x:%d:\nnogroup:x:65534:\n", bwrap.User, bwrap.GID)},
		{"/etc/hosts", fmt.Sprintf("127.0.0.1\tlocalhost %s\n::1\tlocalhost ip6-localhost ip6-loopback\n", bwrap.Hostname)},
		{"/etc/hostname", bwrap.Hostname + "\n"},
		{"/etc/nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\nprotocols: files\nservices: files\n"},
		{"/etc/resolv.conf", resolvConf(r.Network)},
	} {
		file, err := memfd("etc", []byte(f.text))
		if err != nil {
			return nil, err
		}
		out = append(out, bwrap.Data{FD: child.add(file), Dest: f.dest})
	}
	return out, nil
}

// resolvConf names the resolvers that the policy opens.
func resolvConf(n skerry.Network) string {
	var b strings.Builder
	b.WriteString("# made for this sandbox; its network is " + string(modeOf(n)) + "\n")
	if modeOf(n) == skerry.NetworkInternet {
		for _, a := range hostnet.Resolvers() {
			b.WriteString("nameserver " + a.String() + "\n")
		}
	}
	b.WriteString("options timeout:2 attempts:2\n")
	return b.String()
}

func modeOf(n skerry.Network) skerry.NetworkMode {
	if n.Mode == "" {
		return skerry.NetworkDeny
	}
	return n.Mode
}
