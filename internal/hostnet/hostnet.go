//go:build linux

// Package hostnet gives a sandbox a network on the host that reaches what its
// policy allows and nothing else.
package hostnet

import "net/netip"

// Remove removes what a sandbox has of the host's network.
func Remove(key string) error { return nil }

// Resolvers gives the addresses of the host's resolvers.
func Resolvers() []netip.Addr { return nil }
