package config

import (
	"strings"

	"github.com/skerry-run/skerry"
)

// reconcile refuses settings that contradict each other, so that a limit
// never loses silently to a smaller one of another name. What was set in an
// earlier layer gives way: a --ttl of 20s lowers the idle time of the file,
// but an --idle above it is a mistake.
func (c *Config) reconcile() error {
	pairs := []struct{ small, big string }{
		{"limits.memory_request", "limits.memory"},
		{"limits.cpu_request", "limits.cpu"},
		{"timeouts.run", "timeouts.max"},
		{"timeouts.command", "timeouts.max"},
		{"timeouts.idle", "timeouts.ttl"},
		{"artifacts.each", "artifacts.total"},
	}
	for _, p := range pairs {
		if !c.exceeds(p.small, p.big) {
			continue
		}
		small, big := findSetting(p.small), findSetting(p.big)
		if c.sources[p.small].layer >= c.sources[p.big].layer {
			return skerry.Errorf(skerry.Invalid, "configuration", "%s is %s (%s), more than %s, which is %s (%s)",
				p.small, small.get(c), c.sources[p.small], p.big, big.get(c), c.sources[p.big]).
				WithHint("lower %s or raise %s", p.small, p.big)
		}
		if err := c.set(small, big.get(c), Source{c.sources[p.big].layer, c.sources[p.big].String() + " (" + p.big + ")"}); err != nil {
			return err
		}
	}
	if err := c.Limits.Validate(); err != nil {
		return err
	}
	if c.Output.Each > maxInline {
		return skerry.Errorf(skerry.Invalid, "configuration", "output.inline is %s, at most %s", FormatBytes(c.Output.Each), FormatBytes(maxInline)).
			WithHint("larger output is for a stream, not for a result")
	}
	if c.Timeouts.Grace > maxGrace {
		return skerry.Errorf(skerry.Invalid, "configuration", "timeouts.grace is %s, at most %s", FormatDuration(c.Timeouts.Grace), FormatDuration(maxGrace))
	}
	return nil
}

func (c *Config) exceeds(small, big string) bool {
	switch {
	case strings.HasSuffix(small, "memory_request"):
		return c.Limits.MemoryRequestBytes > c.Limits.MemoryBytes
	case strings.HasSuffix(small, "cpu_request"):
		return c.Limits.MilliCPURequest > c.Limits.MilliCPU
	case small == "timeouts.run":
		return c.Timeouts.Run > c.Timeouts.Max
	case small == "timeouts.command":
		return c.Timeouts.Command > c.Timeouts.Max
	case small == "timeouts.idle":
		return c.Timeouts.Idle > c.Timeouts.TTL
	}
	return c.Artifacts.Each > c.Artifacts.Total
}
