package config

import (
	"path/filepath"
	"strconv"
	"time"

	"github.com/skerry-run/skerry"
)

// setting is one value with a name: how it is read, shown and overridden.
type setting struct {
	key string // its path in the file, and its name everywhere
	env string // the variable that sets it; "" is none

	// terminal is the variable of other agents' terminal tools that means the
	// same; fromTerminal changes its notation into ours.
	terminal     string
	fromTerminal func(string) string

	profile bool // a profile may set it
	set     func(*Config, string) error
	get     func(*Config) string
}

// settings is every setting there is, in the order in which they are shown.
var settings = []setting{
	{key: "backend", env: "SKERRY_BACKEND", terminal: "TERMINAL_ENV", set: setName(func(c *Config) *string { return &c.Backend }), get: func(c *Config) string { return c.Backend }},
	{key: "org", env: "SKERRY_ORG", set: setName(func(c *Config) *string { return &c.Org }), get: func(c *Config) string { return c.Org }},
	{key: "profile", env: "SKERRY_PROFILE", set: setText(func(c *Config) *string { return &c.Profile }), get: func(c *Config) string { return c.Profile }},
	{key: "image", env: "SKERRY_IMAGE", profile: true, set: setText(func(c *Config) *string { return &c.Image }), get: func(c *Config) string { return c.Image }},
	{key: "network", env: "SKERRY_NETWORK", profile: true, set: setNetwork, get: func(c *Config) string { return c.Network.String() }},

	bytesSetting("limits.memory", "SKERRY_MEMORY", func(c *Config) *int64 { return &c.Limits.MemoryBytes }),
	cpuSetting("limits.cpu", "SKERRY_CPU", func(c *Config) *int64 { return &c.Limits.MilliCPU }),
	bytesSetting("limits.memory_request", "SKERRY_MEMORY_REQUEST", func(c *Config) *int64 { return &c.Limits.MemoryRequestBytes }),
	cpuSetting("limits.cpu_request", "SKERRY_CPU_REQUEST", func(c *Config) *int64 { return &c.Limits.MilliCPURequest }),
	{key: "limits.pids", env: "SKERRY_PIDS", profile: true, set: setPIDs, get: func(c *Config) string { return strconv.FormatInt(c.Limits.PIDs, 10) }},
	bytesSetting("limits.workspace", "SKERRY_WORKSPACE", func(c *Config) *int64 { return &c.Limits.WorkspaceBytes }),
	bytesSetting("limits.tmp", "SKERRY_TMP", func(c *Config) *int64 { return &c.Limits.TmpBytes }),
	bytesSetting("limits.shm", "SKERRY_SHM", func(c *Config) *int64 { return &c.Limits.ShmBytes }),

	timeSetting("timeouts.run", "SKERRY_TIMEOUT", func(c *Config) *time.Duration { return &c.Timeouts.Run }),
	inTerminals("TERMINAL_TIMEOUT", timeSetting("timeouts.command", "SKERRY_COMMAND_TIMEOUT", func(c *Config) *time.Duration { return &c.Timeouts.Command })),
	timeSetting("timeouts.max", "SKERRY_MAX_TIMEOUT", func(c *Config) *time.Duration { return &c.Timeouts.Max }),
	timeSetting("timeouts.max_ttl", "SKERRY_MAX_TTL", func(c *Config) *time.Duration { return &c.Timeouts.MaxTTL }),
	timeSetting("timeouts.ttl", "SKERRY_TTL", func(c *Config) *time.Duration { return &c.Timeouts.TTL }),
	inTerminals("TERMINAL_LIFETIME_SECONDS", timeSetting("timeouts.idle", "SKERRY_IDLE", func(c *Config) *time.Duration { return &c.Timeouts.Idle })),
	timeSetting("timeouts.grace", "SKERRY_GRACE", func(c *Config) *time.Duration { return &c.Timeouts.Grace }),
	timeSetting("timeouts.start", "SKERRY_START_TIMEOUT", func(c *Config) *time.Duration { return &c.Timeouts.Start }),
	pauseSetting("timeouts.retention", "SKERRY_RETENTION", func(c *Config) *time.Duration { return &c.Timeouts.Retention }),
	pauseSetting("timeouts.remember", "SKERRY_REMEMBER", func(c *Config) *time.Duration { return &c.Timeouts.Remember }),

	bytesSetting("artifacts.each", "SKERRY_ARTIFACTS_EACH", func(c *Config) *int64 { return &c.Artifacts.Each }),
	bytesSetting("artifacts.total", "SKERRY_ARTIFACTS_TOTAL", func(c *Config) *int64 { return &c.Artifacts.Total }),
	bytesSetting("inputs.total", "SKERRY_INPUTS_TOTAL", func(c *Config) *int64 { return &c.Inputs.Total }),
	bytesSetting("output.inline", "SKERRY_OUTPUT_INLINE", func(c *Config) *int64 { return &c.Output.Each }),

	pathSetting("local.state_dir", "SKERRY_STATE_DIR", func(c *Config) *string { return &c.Local.StateDir }),
	pathSetting("local.init", "SKERRY_INIT", func(c *Config) *string { return &c.Local.Init }),
	pathSetting("local.bwrap", "SKERRY_BWRAP", func(c *Config) *string { return &c.Local.Bwrap }),
}

func findSetting(key string) *setting {
	for i := range settings {
		if settings[i].key == key {
			return &settings[i]
		}
	}
	return nil
}

func bytesSetting(key, env string, at func(*Config) *int64) setting {
	return setting{
		key: key, env: env, profile: true,
		set: func(c *Config, s string) (err error) { return assign(at(c), s, ParseBytes) },
		get: func(c *Config) string { return FormatBytes(*at(c)) },
	}
}

func cpuSetting(key, env string, at func(*Config) *int64) setting {
	return setting{
		key: key, env: env, profile: true,
		set: func(c *Config, s string) (err error) { return assign(at(c), s, ParseMilliCPU) },
		get: func(c *Config) string { return FormatMilliCPU(*at(c)) },
	}
}

func timeSetting(key, env string, at func(*Config) *time.Duration) setting {
	return setting{
		key: key, env: env, profile: true,
		set: func(c *Config, s string) (err error) { return assign(at(c), s, ParseDuration) },
		get: func(c *Config) string { return FormatDuration(*at(c)) },
	}
}

func pauseSetting(key, env string, at func(*Config) *time.Duration) setting {
	s := timeSetting(key, env, at)
	s.set = func(c *Config, v string) error { return assign(at(c), v, parsePause) }
	return s
}

func pathSetting(key, env string, at func(*Config) *string) setting {
	return setting{key: key, env: env, get: func(c *Config) string { return *at(c) }, set: func(c *Config, s string) error {
		if !filepath.IsAbs(s) {
			return skerry.Errorf(skerry.Invalid, "", "%q is not an absolute path", s).WithHint("a relative path would mean another file in every folder")
		}
		*at(c) = filepath.Clean(s)
		return nil
	}}
}

// inTerminals adds a variable that holds seconds.
func inTerminals(name string, s setting) setting {
	s.terminal = name
	return s
}

func assign[T any](to *T, s string, parse func(string) (T, error)) error {
	v, err := parse(s)
	if err == nil {
		*to = v
	}
	return err
}

func setName(at func(*Config) *string) func(*Config, string) error {
	return func(c *Config, s string) error {
		if err := skerry.ValidateName("it", s); err != nil {
			return err
		}
		*at(c) = s
		return nil
	}
}

func setText(at func(*Config) *string) func(*Config, string) error {
	return func(c *Config, s string) error {
		*at(c) = s
		return nil
	}
}

func setNetwork(c *Config, s string) (err error) { return assign(&c.Network, s, skerry.ParseNetwork) }
func setPIDs(c *Config, s string) (err error)    { return assign(&c.Limits.PIDs, s, parseCount) }
