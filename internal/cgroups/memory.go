//go:build linux

package cgroups

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// OOMKills gives how many processes of g the kernel has killed for memory, -1
// when no folder of g counts them.
func (g *Group) OOMKills() int64 {
	for _, d := range g.Dirs {
		if !slices.Contains(d.Controllers, Memory) {
			continue
		}
		file := "memory.oom_control"
		if d.V2 {
			file = "memory.events"
		}
		data, err := os.ReadFile(filepath.Join(d.Path, file))
		if err != nil {
			return -1
		}
		for line := range strings.Lines(string(data)) {
			if key, value, _ := strings.Cut(strings.TrimSpace(line), " "); key == "oom_kill" {
				if n, err := strconv.ParseInt(value, 10, 64); err == nil {
					return n
				}
			}
		}
	}
	return -1
}
