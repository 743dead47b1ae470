//go:build linux && !amd64

package probe

// machineCalls are those that only this architecture has.
var machineCalls []call
