package main

import (
	"slices"
	"strings"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/config"
)

// plannedBackends are words of the design that this build does not speak.
var plannedBackends = []string{"kubernetes", "docker", "ssh", "http"}

// openBackend makes the backend that the settings name.
func openBackend(c *config.Config) (skerry.Backend, error) {
	if c.Backend == "local" {
		return openLocal(c)
	}
	if slices.Contains(plannedBackends, c.Backend) {
		return nil, skerry.Errorf(skerry.Invalid, "backend", "%s (%s) is not in this version of skerry", c.Backend, c.SourceOf("backend")).WithHint("use --backend local")
	}
	return nil, skerry.Errorf(skerry.Invalid, "backend", "unknown backend %q (%s)", c.Backend, c.SourceOf("backend")).
		WithHint("the backends are local, %s", strings.Join(plannedBackends, ", "))
}
