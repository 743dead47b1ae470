//go:build linux && !amd64

package probe

func compatAttempts() []attempt { return nil }

func callInt80() {}
