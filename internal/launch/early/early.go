//go:build linux

// Package early is imported by the command line for its effect: skerry run
// starts the process of its supervisor before anything else, because the two
// take equally long to start. What the supervisor is to do it is told later, and
// if it turns out that there is nothing, or that another program is the init, it
// ends unused.
//
// See internal/keep/early for why it comes before the packages that take long.
package early

import (
	"os"
	"strings"

	"github.com/skerry-run/skerry/internal/launch"
)

func init() {
	if len(os.Args) < 2 || os.Args[1] != "run" {
		return
	}
	init := os.Getenv("SKERRY_INIT")
	if init == "" {
		self, err := os.Executable()
		if err != nil {
			return
		}
		init = self[:strings.LastIndexByte(self, '/')+1] + "skerry-init"
	}
	if strings.HasPrefix(init, "/") {
		launch.Ahead(init)
	}
}
