//go:build linux

package probe

import (
	"bytes"
	"errors"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// networkAttacks try to reach beyond the sandbox. The host's ends of them
// answer with a token, so that open means a completed exchange.
var networkAttacks = []Attack{
	{Name: "host-tcp", Tries: "connect by TCP to the host's loopback and to its other addresses, IPv4 and IPv6", Args: "TOKEN ADDRESS...", run: exchangeAttack("tcp")},
	{Name: "host-udp", Tries: "exchange UDP packets with the host's loopback and its other addresses", Args: "TOKEN ADDRESS...", run: exchangeAttack("udp")},
	{Name: "host-unix", Tries: "connect to unix sockets of the host, by path and abstract", Args: "TOKEN ADDRESS...", run: exchangeAttack("unix")},
	{Name: "host-services", Tries: "connect to the sockets of well-known services: docker, containerd, dbus, systemd and others", run: hostServices},
	{Name: "metadata-address", Tries: "reach the cloud's metadata address, other private ranges and public addresses", run: unroutable},
	{Name: "network-interfaces", Tries: "find an interface other than loopback, or a route", run: interfaces},
	{Name: "network-sockets", Tries: "make raw, packet, vsock and other sockets that go around the network policy", run: specialSockets},
}

const networkPatience = 3 * time.Second

func exchangeAttack(network string) func([]string) Finding {
	return func(args []string) Finding {
		if len(args) < 2 {
			return unknown("it needs TOKEN ADDRESS...")
		}
		var attempts []attempt
		for _, address := range args[1:] {
			attempts = append(attempts, attempt{network + " " + address, exchange(network, address, args[0])})
		}
		return judge(attempts...)
	}
}

// exchange says hello and waits for the token. Whoever starts it proves that
// the other end is alive, so no answer is a refusal.
func exchange(network, address, token string) error {
	c, err := net.DialTimeout(network, address, networkPatience)
	if err != nil {
		return refusedAs("%v", err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(networkPatience)); err != nil {
		return err
	}
	if _, err := c.Write([]byte("hello")); err != nil {
		return refusedAs("%v", err)
	}
	buf := make([]byte, 256)
	n, err := c.Read(buf)
	if err != nil {
		return refusedAs("%v", err)
	}
	if !bytes.Contains(buf[:n], []byte(token)) {
		return errors.New("somebody else answered")
	}
	return nil
}

func hostServices([]string) Finding {
	var attempts []attempt
	for _, path := range []string{
		"/run/docker.sock", "/var/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock", "/run/crio/crio.sock", "/run/dbus/system_bus_socket", "/run/systemd/private",
		"/run/systemd/journal/stdout", "/dev/log", "/run/snapd.socket", "/run/nscd/socket", "/run/postgresql/.s.PGSQL.5432", "/tmp/.X11-unix/X0", "@/tmp/.X11-unix/X0", "/run/user/0/bus", "/run/user/1000/bus",
	} {
		c, err := net.DialTimeout("unix", path, networkPatience)
		if err == nil {
			c.Close()
		} else {
			err = refusedAs("%v", err)
		}
		attempts = append(attempts, attempt{"connect to " + path, err})
	}
	return judge(attempts...)
}

func unroutable([]string) Finding {
	var attempts []attempt
	for _, address := range []string{"169.254.169.254:80", "169.254.170.2:80", "100.100.100.200:80", "10.0.0.1:443", "172.17.0.1:80", "192.168.0.1:80", "100.64.0.1:80", "1.1.1.1:53", "8.8.8.8:53", "[fd00:ec2::254]:80", "[2606:4700:4700::1111]:53"} {
		for _, network := range []string{"tcp", "udp"} {
			c, err := net.DialTimeout(network, address, networkPatience)
			if err == nil {
				c.Close()
			}
			// Only when there is no way at all does the answer not depend on
			// whether somebody listens there.
			for _, e := range []error{unix.ENETUNREACH, unix.EADDRNOTAVAIL, unix.EAFNOSUPPORT, unix.ENETDOWN} {
				if errors.Is(err, e) {
					err = refusedAs("%v", e)
					break
				}
			}
			attempts = append(attempts, attempt{network + " " + address, err})
		}
	}
	return judge(attempts...)
}

func interfaces([]string) Finding {
	all, err := net.Interfaces()
	if err != nil {
		return unknown("%v", err)
	}
	for _, i := range all {
		if i.Flags&net.FlagLoopback == 0 {
			return open("there is the interface %s", i.Name)
		}
	}
	routes, err := os.ReadFile("/proc/net/route")
	if err != nil {
		return unknown("%v", err)
	}
	if n := strings.Count(strings.TrimSpace(string(routes)), "\n"); n > 0 {
		return open("there are %d routes", n)
	}
	return blocked("%d interfaces, loopback only, and no route", len(all))
}

func specialSockets([]string) Finding {
	var attempts []attempt
	for _, s := range []struct {
		name                   string
		family, kind, protocol int
	}{
		{"raw IPv4", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP},
		{"raw IPv6", unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6},
		{"packet", unix.AF_PACKET, unix.SOCK_RAW, 0x0300},
		{"packet datagram", unix.AF_PACKET, unix.SOCK_DGRAM, 0x0300},
		{"vsock", unix.AF_VSOCK, unix.SOCK_STREAM, 0},
		{"bluetooth", unix.AF_BLUETOOTH, unix.SOCK_RAW, 1},
		{"can", unix.AF_CAN, unix.SOCK_RAW, 1},
		{"tipc", unix.AF_TIPC, unix.SOCK_STREAM, 0},
		{"nfc", unix.AF_NFC, unix.SOCK_RAW, 0},
		{"xdp", unix.AF_XDP, unix.SOCK_RAW, 0},
	} {
		fd, err := unix.Socket(s.family, s.kind|unix.SOCK_CLOEXEC, s.protocol)
		if err == nil {
			unix.Close(fd)
		}
		if err == unix.EAFNOSUPPORT || err == unix.EPROTONOSUPPORT || err == unix.ESOCKTNOSUPPORT {
			err = refusedAs("this kernel has none")
		}
		attempts = append(attempts, attempt{s.name + " socket", err})
	}
	return judge(attempts...)
}
