//go:build linux

package hostnet

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
)

const (
	forwardSwitch = "/proc/sys/net/ipv4/ip_forward"
	// What the kernel says of a thing that is not there.
	noDevice, noTable = "Cannot find device", "No such file or directory"
)

// Up does what Setup lists. When it fails, what it did is undone. notes are
// for people: what was changed on the host beyond the sandbox's own.
func Up(ctx context.Context, p Plan) (notes []string, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, Remove(context.WithoutCancel(ctx), p.Key))
		}
	}()
	if on, err := os.ReadFile(forwardSwitch); err == nil && strings.TrimSpace(string(on)) == "0" {
		if err := os.WriteFile(forwardSwitch, []byte("1\n"), 0); err != nil {
			return nil, fmt.Errorf("turn on forwarding: %w", err)
		}
		notes = append(notes, "net.ipv4.ip_forward was off on this machine and was turned on")
	}
	err = inside(p.PID, func() error {
		// Without IPv6 nothing can get around rules that are about IPv4.
		if err := os.WriteFile("/proc/sys/net/ipv6/conf/all/disable_ipv6", []byte("1\n"), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("turn off IPv6: %w", err)
		}
		return nil
	})
	if err != nil {
		return notes, err
	}
	for _, s := range p.Setup() {
		do := func() error {
			_, err := run(ctx, s.Argv, s.Stdin)
			return err
		}
		if s.Inside {
			err = inside(p.PID, do)
		} else {
			err = do()
		}
		if err != nil {
			return notes, err
		}
	}
	return notes, nil
}

// Remove removes what a sandbox has of the host's network; what is not there
// is no error.
func Remove(ctx context.Context, key string) error {
	var errs []error
	for _, s := range teardown(key) {
		text, err := run(ctx, s.Argv, s.Stdin)
		if err != nil && !errors.Is(err, errMissing) && !strings.Contains(text, noDevice) && !strings.Contains(text, noTable) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// FreeSubnet picks a subnet that no living sandbox has (taken) and that
// overlaps with nothing that the host routes or has. want is where to begin.
func FreeSubnet(ctx context.Context, want int, taken map[int]bool) (int, error) {
	const tries = 256
	text, err := run(ctx, []string{"ip", "-4", "-o", "route", "show", "table", "all"}, "")
	if err != nil {
		return 0, err
	}
	routes := parseRoutes(text)
	for i := range tries {
		n := (want + i) % Subnets
		if taken[n] {
			continue
		}
		host, _ := (Plan{Subnet: n}).Addresses()
		if !overlaps(host.Masked(), routes) {
			return n, nil
		}
	}
	return 0, fmt.Errorf("no free network among %d in %s", tries, pool)
}

// parseRoutes gives the destinations; the default route overlaps with
// everything and is left out.
func parseRoutes(text string) []netip.Prefix {
	var out []netip.Prefix
	for line := range strings.Lines(text) {
		for _, word := range strings.Fields(line) {
			if p, err := netip.ParsePrefix(word); err == nil {
				if p.Bits() > 0 {
					out = append(out, p)
				}
				break
			}
			if a, err := netip.ParseAddr(word); err == nil {
				out = append(out, netip.PrefixFrom(a, a.BitLen()))
				break
			}
			if word == "default" {
				break
			}
		}
	}
	return out
}

func overlaps(p netip.Prefix, with []netip.Prefix) bool {
	for _, q := range with {
		if p.Overlaps(q) {
			return true
		}
	}
	return false
}
