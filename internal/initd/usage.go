//go:build linux

package initd

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/skerry-run/skerry"

	"github.com/skerry-run/skerry/internal/keep"
)

// counters reads the sandbox's cgroup, version 1 or 2, below root.
type counters struct{ root string }

// usage is one reading; -1 is a counter that can't be read.
type usage struct {
	cpuNS                    int64
	memory, peak, pids, ooms int64
}

// read reads all counters. What the platform does not show stays unknown.
func (c counters) read() usage {
	if c.isV2() {
		u := usage{
			memory: c.number("memory.current"), peak: c.number("memory.peak"), pids: c.number("pids.current"),
			ooms: c.field("memory.events", "oom_kill"), cpuNS: c.field("cpu.stat", "usage_usec"),
		}
		if u.cpuNS > 0 {
			u.cpuNS *= 1000
		}
		return u
	}
	return usage{
		memory: c.number("memory/memory.usage_in_bytes"), peak: c.number("memory/memory.max_usage_in_bytes"),
		pids: c.number("pids/pids.current"), ooms: c.field("memory/memory.oom_control", "oom_kill"),
		cpuNS: c.number("cpuacct/cpuacct.usage"),
	}
}

func (c counters) isV2() bool {
	_, err := os.Stat(filepath.Join(c.root, "cgroup.controllers"))
	return err == nil
}

// text reads one small file of the tree.
func (c counters) text(name string) (string, bool) {
	data, err := os.ReadFile(filepath.Join(c.root, name))
	return string(data), err == nil
}

func (c counters) number(name string) int64 {
	text, ok := c.text(name)
	if !ok {
		return -1
	}
	return parseCounter(strings.TrimSpace(text))
}

func (c counters) field(name, field string) int64 {
	text, ok := c.text(name)
	if !ok {
		return -1
	}
	for line := range strings.Lines(text) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), " "); key == field {
			return parseCounter(value)
		}
	}
	return -1
}

func parseCounter(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// now is the reading as the sandbox's usage.
func (u usage) now() skerry.Usage {
	s := skerry.Usage{CPUSeconds: -1, MemoryPeakBytes: u.peak, MemoryBytes: u.memory, PIDs: u.pids, OOMEvents: u.ooms}
	if u.cpuNS >= 0 {
		s.CPUSeconds = float64(u.cpuNS) / 1e9
	}
	return s
}

// until gives what a command used between two readings. The processor time is
// the keeper's, who waited for the command's processes: in a session others
// run at the same time. The peak of memory is the sandbox's when it rose, for
// the kernel keeps one for all; else the largest process.
func (u usage) until(after usage, p keep.Packet) skerry.Usage {
	s := skerry.Usage{CPUSeconds: -1, MemoryPeakBytes: -1, OOMEvents: -1}
	if p.Op == keep.OpExited {
		s.CPUSeconds, s.MemoryPeakBytes = float64(p.CPUNS)/1e9, p.MaxRSS
	}
	if after.peak > u.peak && after.peak > s.MemoryPeakBytes {
		s.MemoryPeakBytes = after.peak
	}
	if u.ooms >= 0 && after.ooms >= 0 {
		s.OOMEvents = max(0, after.ooms-u.ooms)
	}
	return s
}
