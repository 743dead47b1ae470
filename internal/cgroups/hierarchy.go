//go:build linux

// Package cgroups makes, fills and removes the control groups of sandboxes on
// the host, on version 1, version 2 and machines that have both.
package cgroups

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Controllers that limits need. Others are only read.
const (
	Memory  = "memory"
	PIDs    = "pids"
	CPU     = "cpu"
	CPUAcct = "cpuacct" // version 1 counts processor time apart from limiting it
)

// Host is how a machine mounts its control groups.
type Host struct {
	root string            // "" is the machine itself; a folder in tests
	v1   map[string]string // controller to mount point
	v2   string            // mount point, "" is none
	own  map[string]string // controller, "" for version 2, to the path of this process below the mount point
}

// ReadHost reads the mounts of this process. root is put before every path: ""
// is the machine.
func ReadHost(root string) (Host, error) {
	mounts, err := os.ReadFile(root + "/proc/self/mountinfo")
	if err != nil {
		return Host{}, fmt.Errorf("read mounts: %w", err)
	}
	own, err := os.ReadFile(root + "/proc/self/cgroup")
	if err != nil {
		return Host{}, fmt.Errorf("read own control groups: %w", err)
	}
	h := Host{root: root, v1: map[string]string{}, own: map[string]string{}}
	h.readMounts(mounts)
	h.readOwn(own)
	return h, nil
}

// readMounts skips every line that it can't make sense of: mountinfo holds
// roots that are no paths, options with commas and escapes of its own.
func (h *Host) readMounts(data []byte) {
	s := bufio.NewScanner(bytes.NewReader(data))
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		before, after, ok := strings.Cut(s.Text(), " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 5 || len(right) < 1 {
			continue
		}
		point := unescape(left[4])
		switch right[0] {
		case "cgroup2":
			if h.v2 == "" {
				h.v2 = point
			}
		case "cgroup":
			if len(right) < 3 {
				continue
			}
			for opt := range strings.SplitSeq(right[2], ",") {
				switch opt {
				case Memory, PIDs, CPU, CPUAcct:
					if h.v1[opt] == "" {
						h.v1[opt] = point
					}
				}
			}
		}
	}
}

func (h *Host) readOwn(data []byte) {
	for line := range strings.Lines(string(data)) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) != 3 {
			continue
		}
		for c := range strings.SplitSeq(f[1], ",") {
			h.own[c] = f[2]
		}
	}
}

// unescape undoes the octal escapes of mountinfo.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			var n int
			if _, err := fmt.Sscanf(s[i+1:i+4], "%03o", &n); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// place finds where groups can be made: for each controller the folder that
// will hold ours. A controller that is not permitted, or not there, is absent.
func (h Host) place() map[string]string {
	out := map[string]string{}
	for _, c := range []string{Memory, PIDs, CPU, CPUAcct} {
		if dir := h.v1[c]; dir != "" && h.writable(dir) {
			out[c] = dir
		}
	}
	if h.v2 == "" {
		return out
	}
	var missing []string
	for _, c := range []string{Memory, PIDs, CPU} {
		if h.v1[c] == "" { // a controller is in one version only
			missing = append(missing, c)
		}
	}
	if len(missing) == 0 {
		return out
	}
	if dir, got := h.placeV2(missing); dir != "" {
		for _, c := range got {
			out[c] = dir
		}
	}
	return out
}

// placeV2 walks from the mount point down to the group of this process, and
// takes the first folder in which groups with most of the controllers can be
// made. Where root owns all of it that is the top, where systemd delegates to
// a user it is the user's own subtree.
func (h Host) placeV2(want []string) (dir string, got []string) {
	own := path.Clean("/" + h.own[""])
	candidates := []string{h.v2}
	for i := 1; i < len(own); i++ {
		if own[i] == '/' {
			candidates = append(candidates, path.Join(h.v2, own[:i]))
		}
	}
	if own != "/" {
		candidates = append(candidates, path.Join(h.v2, own))
	}
	for _, c := range candidates {
		if !h.writable(c) || !h.writable(path.Join(c, "cgroup.procs")) {
			continue
		}
		if have := h.enable(c, want); len(have) > len(got) {
			dir, got = c, have
		}
	}
	return dir, got
}

// enable turns controllers on for the children of dir, as far as it may, and
// gives those of want that are on.
func (h Host) enable(dir string, want []string) []string {
	control := filepath.Join(h.root, dir, "cgroup.subtree_control")
	available := words(filepath.Join(h.root, dir, "cgroup.controllers"))
	on := words(control)
	for _, c := range want {
		if available[c] && !on[c] {
			// Refused where processes sit in dir itself; then it stays off.
			if os.WriteFile(control, []byte("+"+c), 0) == nil {
				on[c] = true
			}
		}
	}
	var got []string
	for _, c := range want {
		if on[c] {
			got = append(got, c)
		}
	}
	return got
}

func words(file string) map[string]bool {
	data, _ := os.ReadFile(file) // absent is the same as empty
	out := map[string]bool{}
	for w := range strings.FieldsSeq(string(data)) {
		out[strings.TrimPrefix(w, "+")] = true
	}
	return out
}

func (h Host) writable(dir string) bool {
	return unix.Access(filepath.Join(h.root, dir), unix.W_OK) == nil
}

// Permitted gives the controllers in which groups can be made here.
func (h Host) Permitted() map[string]bool {
	out := map[string]bool{}
	for c := range h.place() {
		out[c] = true
	}
	return out
}
