//go:build linux

package hostnet

import (
	"context"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry"
)

const (
	installRoot = "install nftables and iproute2: apt-get install nftables iproute2 (Debian, Ubuntu), dnf install nftables iproute (Fedora), apk add nftables iproute2 (Alpine)"
	installUser = "install passt and nftables: apt-get install passt nftables (Debian, Ubuntu), dnf install passt nftables (Fedora), apk add passt nftables (Alpine)"
)

// Available says why networks other than deny can't be had, or nil. They are
// refused then: the host's own network is never the fall-back.
func Available(root bool) error {
	need, hint := []string{"ip", "nft"}, installRoot
	if !root {
		need, hint = []string{"pasta", "nft", "nsenter"}, installUser
	}
	var missing []string
	for _, program := range need {
		if find(program) == "" {
			missing = append(missing, program)
		}
	}
	if len(missing) > 0 {
		return skerry.Errorf(skerry.Denied, "network", "a network needs %s, which this machine does not have", strings.Join(missing, " and ")).
			WithHint("%s; or use --network deny", hint).WithOutcome(skerry.Refused)
	}
	const tun = "/dev/net/tun"
	if !root && unix.Access(tun, unix.R_OK|unix.W_OK) != nil {
		reason := "is not there"
		if _, err := os.Stat(tun); err == nil {
			reason = "can't be opened by this user"
		}
		return skerry.Errorf(skerry.Denied, "network", "a network needs %s, which %s", tun, reason).
			WithHint("let an administrator run chmod 0666 %s (the usual mode), or use --network deny", tun).WithOutcome(skerry.Refused)
	}
	return nil
}

// Check says which network modes are available.
func Check(ctx context.Context, root bool) []skerry.Finding {
	found := func(name string, status skerry.FindingStatus, remedy, format string, args ...any) skerry.Finding {
		return skerry.Finding{Name: name, Status: status, Detail: fmt.Sprintf(format, args...), Remedy: remedy}
	}
	out := []skerry.Finding{found("network-deny", skerry.FindingOK, "", "a loopback of its own")}
	const name = "network-internet"
	if err := Available(root); err != nil {
		return append(out, found(name, skerry.FindingWarn, skerry.HintOf(err), "internet and allow are refused: %v", err))
	}
	if root {
		if _, err := run(ctx, []string{"nft", "list", "tables"}, ""); err != nil {
			return append(out, found(name, skerry.FindingWarn, "load nf_tables: modprobe nf_tables", "internet and allow will fail: %v", err))
		}
		forwards, _ := os.ReadFile(forwardSwitch) // where it can't be read it can't be off
		if strings.TrimSpace(string(forwards)) == "0" {
			return append(out, found(name, skerry.FindingOK, "", "internet and allow by veth and nftables; net.ipv4.ip_forward is off and will be turned on by the first sandbox that needs it"))
		}
		return append(out, found(name, skerry.FindingOK, "", "internet and allow by veth and nftables"))
	}
	return append(out, found(name, skerry.FindingOK, "", "internet and allow by pasta and nftables"))
}
