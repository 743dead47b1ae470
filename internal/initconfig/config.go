//go:build linux

// Package initconfig is what an init is told when it starts.
package initconfig

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/skerry-run/skerry"
)

// MaxTerminals is how many pseudo-terminals a sandbox may have, of the few
// thousand that a machine has for all.
const MaxTerminals = 256

// TaskReserve is how many tasks more than Config.PIDs user code's
// RLIMIT_NPROC allows: the kernel counts the init's own threads and the
// keepers with it, because they have the same uid.
const TaskReserve = 64

// maxConfigBytes bounds the JSON of a Config.
const maxConfigBytes = 1 << 20

// Config is what the platform tells the init. Fields that are zero mean what
// they say: no limit, no watch.
type Config struct {
	Session    bool     `json:"session"`      // what commands leave running lives on
	Workspace  string   `json:"workspace"`    // "" is /workspace
	Home       string   `json:"home"`         // "" is /home/skerry
	Tmp        string   `json:"tmp"`          // "" is /tmp
	Env        []string `json:"env"`          // NAME=value, the complete base environment of commands
	TTLMS      int64    `json:"ttl_ms"`       // what is left of it; 0 is none
	TTLAskedMS int64    `json:"ttl_asked_ms"` // as it was asked for, to be told; 0 is TTLMS
	IdleMS     int64    `json:"idle_ms"`      // 0 is none; of a run it begins with the end of its command
	SpoolBytes int64    `json:"spool_bytes"`  // kept per stream; 0 is skerry.DefaultSpoolBytes

	PIDs           int64 `json:"pids"`            // tasks that user code may have; 0 sets no RLIMIT_NPROC
	WorkspaceBytes int64 `json:"workspace_bytes"` // 0 is no limit
	WatchWorkspace bool  `json:"watch_workspace"` // measure it: nothing else keeps WorkspaceBytes
	FileBytes      int64 `json:"file_bytes"`      // RLIMIT_FSIZE; 0 is none
	DataBytes      int64 `json:"data_bytes"`      // RLIMIT_DATA; 0 is none

	// ScoreKeepers says that whoever holds the control line makes the kernel
	// choose keepers, and what they start, before the init when memory is short.
	ScoreKeepers bool `json:"score_keepers,omitempty"`

	SandboxUID string `json:"sandbox_uid"` // what the platform calls this instance
	// Trusted says that who holds the control line needs no further proof:
	// connections that come over it need no key.
	Trusted bool `json:"trusted"`
	// CgroupRoot is where the cgroup's counters are; "" is /sys/fs/cgroup.
	CgroupRoot string `json:"cgroup_root,omitempty"`
}

// Read reads a Config to the end of r and fills in defaults.
func Read(r io.Reader) (Config, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxConfigBytes+1))
	if err != nil {
		return Config{}, fmt.Errorf("read config: %w", err)
	}
	if len(data) > maxConfigBytes {
		return Config{}, fmt.Errorf("read config: more than %d bytes", maxConfigBytes)
	}
	var c Config
	if err := json.Unmarshal(data, &c); err != nil {
		return Config{}, fmt.Errorf("read config: %w", err)
	}
	c.setDefaults()
	return c, c.validate()
}

func (c *Config) setDefaults() {
	for _, d := range []struct {
		field *string
		value string
	}{
		{&c.Workspace, "/workspace"}, {&c.Home, "/home/skerry"}, {&c.Tmp, "/tmp"}, {&c.CgroupRoot, "/sys/fs/cgroup"},
	} {
		if *d.field == "" {
			*d.field = d.value
		}
	}
	if c.SpoolBytes == 0 {
		c.SpoolBytes = skerry.DefaultSpoolBytes
	}
	if len(c.Env) == 0 {
		for name, value := range BaseEnvironment(c.Home, c.Tmp) {
			c.Env = append(c.Env, name+"="+value)
		}
		slices.Sort(c.Env)
	}
}

// BaseEnvironment is what every command finds in its environment unless the
// caller says otherwise. Programs write text as UTF-8, lose no output to a
// buffer when they are ended, and keep caches where they may write.
func BaseEnvironment(home, tmp string) map[string]string {
	return map[string]string{
		"HOME": home, "USER": "skerry", "LOGNAME": "skerry", "SHELL": "/bin/bash",
		"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8",
		"TMPDIR": tmp, "TMPPREFIX": tmp + "/zsh", // zsh keeps here-documents there
		"XDG_CACHE_HOME": home + "/.cache", "MPLCONFIGDIR": home + "/.config/matplotlib",
		"PYTHONUNBUFFERED": "1", "PYTHONUTF8": "1",
	}
}

func (c *Config) validate() error {
	for _, p := range []string{c.Workspace, c.Home, c.Tmp, c.CgroupRoot} {
		if !strings.HasPrefix(p, "/") {
			return fmt.Errorf("config: %q is not an absolute path", p)
		}
	}
	for _, e := range c.Env {
		if name, _, ok := strings.Cut(e, "="); !ok || name == "" {
			return fmt.Errorf("config: an environment entry has no name")
		}
	}
	for _, n := range []int64{c.TTLMS, c.TTLAskedMS, c.IdleMS, c.SpoolBytes, c.PIDs, c.WorkspaceBytes, c.FileBytes, c.DataBytes} {
		if n < 0 {
			return fmt.Errorf("config: a limit is negative")
		}
	}
	return nil
}

// TTL is how long the sandbox may live from now on; 0 is for ever.
func (c *Config) TTL() time.Duration { return time.Duration(c.TTLMS) * time.Millisecond }

// Idle is how long the sandbox may have nothing to do; 0 is for ever.
func (c *Config) Idle() time.Duration { return time.Duration(c.IdleMS) * time.Millisecond }
