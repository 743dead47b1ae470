//go:build linux

// Package initd is PID 1 of every sandbox: it starts commands, keeps their
// output, knows how they ended from wait, serves files, and answers over gRPC.
//
// User code runs with the same uid, so everything that it can reach is
// treated as hostile, and everything that it can fill is bounded.
package initd

import (
	"fmt"
	"os"

	"github.com/skerry-run/skerry/internal/initconfig"
)

// Config is what the platform tells the init.
type Config = initconfig.Config

// readConfigFD reads the config from an inherited descriptor and closes it.
func readConfigFD(fd int) (Config, error) {
	f := os.NewFile(uintptr(fd), "config")
	if f == nil {
		return Config{}, fmt.Errorf("read config: descriptor %d is not open", fd)
	}
	defer f.Close()
	return initconfig.Read(f)
}
