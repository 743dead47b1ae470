//go:build linux && !amd64

package probe

import "golang.org/x/sys/unix"

func compatAttempts() []attempt { return nil }

func compat(string) int { return int(unix.ENOSYS) }
