package skerry_test

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/skerry-run/skerry"
)

func TestNetworkReadsWhatItWrites(t *testing.T) {
	for in, want := range map[string]string{
		"deny":                               "deny",
		"internet":                           "internet",
		"allow=203.0.113.0/24":               "allow=203.0.113.0/24",
		"allow=203.0.113.7":                  "allow=203.0.113.7/32",
		"allow=203.0.113.7:443":              "allow=203.0.113.7/32:443",
		"allow=203.0.113.77/24:443":          "allow=203.0.113.0/24:443",
		"allow=2001:db8::/32":                "allow=2001:db8::/32",
		"allow=2001:db8::1":                  "allow=2001:db8::1/128",
		"allow=[2001:db8::/32]:443":          "allow=[2001:db8::/32]:443",
		"allow=[2001:db8::1]:65535":          "allow=[2001:db8::1/128]:65535",
		"allow=[2001:db8::1]":                "allow=2001:db8::1/128",
		"allow=::/0":                         "allow=::/0",
		"allow=0.0.0.0/0:53, [::/0]:53, ::1": "allow=0.0.0.0/0:53,[::/0]:53,::1/128",
	} {
		n, err := skerry.ParseNetwork(in)
		if err != nil {
			t.Errorf("%q: %v", in, err)
			continue
		}
		if got := n.String(); got != want {
			t.Errorf("%q was written as %q, want %q", in, got, want)
		}
	}
	if got := (skerry.Network{}).String(); got != "deny" {
		t.Errorf("the zero value is written as %q", got)
	}
}

func TestNetworksThatMakeNoSenseAreInvalid(t *testing.T) {
	many := "allow=" + strings.TrimSuffix(strings.Repeat("10.0.0.1,", 257), ",")
	for _, s := range []string{
		"", "none", "Deny", "deny ", "deny=", "deny=10.0.0.1", "internet=10.0.0.1", "allow", "allow=", "allow=,", "allow=10.0.0.1,", "allow=x",
		"allow=10.0.0.1:", "allow=10.0.0.1:0", "allow=10.0.0.1:65536", "allow=10.0.0.1:-1", "allow=10.0.0.1:+1", "allow=10.0.0.1:http",
		"allow=10.0.0.0/33", "allow=10.0.0.0/-1", "allow=[::1", "allow=[::1]x", "allow=[::1]:", "allow=fe80::1%eth0", "allow=fe80::1%eth0/64",
		"allow=example.com:443", "allow=::ffff:10.0.0.1", "allow=::ffff:10.0.0.0/104", "allow=10.0.0.1:80:90", "host", many,
	} {
		if n, err := skerry.ParseNetwork(s); skerry.KindOf(err) != skerry.Invalid {
			t.Errorf("%.40q gave %v, %v; want invalid", s, n, err)
		} else if len(s) < 100 && skerry.HintOf(err) == "" {
			t.Errorf("%v has no hint", err)
		}
	}
	rule := skerry.NetworkAllowRule{Prefix: netip.MustParsePrefix("10.0.0.0/8")}
	for _, n := range []skerry.Network{
		{Mode: "host"}, {Mode: skerry.NetworkAllow}, {Mode: skerry.NetworkAllow, Allow: []skerry.NetworkAllowRule{{}}},
		{Allow: []skerry.NetworkAllowRule{rule}}, {Mode: skerry.NetworkInternet, Allow: []skerry.NetworkAllowRule{rule}},
		{Mode: skerry.NetworkAllow, Allow: slices.Repeat([]skerry.NetworkAllowRule{rule}, 257)},
	} {
		if err := n.Validate(); skerry.KindOf(err) != skerry.Invalid {
			t.Errorf("%.60v gave %v, want invalid", n, err)
		}
	}
}

func FuzzParseNetwork(f *testing.F) {
	for _, s := range []string{
		"deny", "internet", "allow=203.0.113.0/24:443", "allow=[2001:db8::/32]:443,10.0.0.1", "allow=::1", "allow=[::1]", "allow=::ffff:1.2.3.4",
		"allow=fe80::1%a", "allow=", "=", "allow= 1.2.3.4 ,", "allow=1.2.3.4/0:1",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := skerry.ParseNetwork(s)
		if err != nil {
			if skerry.KindOf(err) != skerry.Invalid {
				t.Fatalf("%q gave %v", s, err)
			}
			return
		}
		if err := n.Validate(); err != nil {
			t.Fatalf("%q was read and is invalid: %v", s, err)
		}
		again, err := skerry.ParseNetwork(n.String())
		if err != nil || !reflect.DeepEqual(again, n) {
			t.Fatalf("%q was read as %v, written as %q, and read as %v, %v", s, n, n, again, err)
		}
	})
}
