// Package config reads skerry.yaml, the environment and the flags into the
// settings that are in force, and remembers where each one came from.
//
// The layers, the later wins: built-in, file, the profile that is chosen,
// environment (TERMINAL_* below SKERRY_*), flags.
package config

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/skerry-run/skerry"
)

// Config is what is in force.
type Config struct {
	Backend string // where sandboxes live
	Org     string
	Profile string // the name that was chosen; "" is none
	Image   string // for backends with images; "" is the language's
	Network skerry.Network
	Limits  skerry.Limits

	Timeouts  Timeouts
	Artifacts Bounds
	Inputs    Bounds // Each is not used
	Output    Bounds // Each is one stream in a result; Total is not used

	Env       map[string]string // of the profile: for every command
	Images    map[string]string // of the profile: image by language
	Languages skerry.Languages  // the built-in ones, then the file's
	Local     Local

	file     string // that was read; "" is none
	profiles map[string]*node
	sources  map[string]Source
}

// Timeouts are all the times. None is 0 but Retention and Remember, where 0 is
// none.
type Timeouts struct {
	Run       time.Duration // of a run's program
	Command   time.Duration // of a session's foreground command
	Max       time.Duration // no Run and no Command may be longer
	TTL       time.Duration // of a session
	Idle      time.Duration // of a session in which nothing happens
	Grace     time.Duration // between TERM and KILL
	Start     time.Duration // until a sandbox can be used
	Retention time.Duration // of a run that nobody waits for, after its end; 0 is until its time to live is over
	MaxTTL    time.Duration // the longest time to live, from the creation of a sandbox
	Remember  time.Duration // of the note about a run with an id of the caller's
}

// Bounds are sizes in bytes.
type Bounds struct {
	Each, Total int64
}

// Local are the settings of the local backend; an empty one is the backend's
// own choice.
type Local struct {
	StateDir string // where it keeps its sandboxes
	Init     string // the skerry-init binary
	Bwrap    string // the bubblewrap binary
}

// layer says how strong a source is.
type layer int

const (
	builtIn layer = iota
	fromFile
	fromProfile
	fromTerminal
	fromEnvironment
	fromFlag
)

// Source says where a setting's value came from.
type Source struct {
	layer layer
	text  string
}

// String gives "built-in", FILE:LINE, "env NAME" or "flag --name".
func (s Source) String() string {
	if s.text == "" {
		return "built-in"
	}
	return s.text
}

// Override is a value that a flag gives to a setting.
type Override struct {
	Key   string // of the setting, for example "limits.memory"
	Flag  string // its name with the dashes
	Value string
}

// Options say where settings come from.
type Options struct {
	Path  string                           // of the file, given by the caller; "" looks in the usual places
	Env   func(name string) (string, bool) // nil is an empty environment
	Flags []Override
}

// Builtin gives the settings of a machine where nobody set any.
func Builtin() *Config {
	return &Config{
		Backend: "local",
		Org:     skerry.DefaultOrg,
		Network: skerry.Network{Mode: skerry.NetworkDeny},
		Limits:  skerry.DefaultLimits,
		Timeouts: Timeouts{
			Run:       skerry.DefaultRunTimeout,
			Command:   skerry.DefaultCommandTimeout,
			Max:       skerry.MaxDuration,
			TTL:       skerry.DefaultSessionTTL,
			Idle:      skerry.DefaultSessionIdle,
			Grace:     skerry.DefaultKillGrace,
			Start:     skerry.DefaultStartTimeout,
			Retention: time.Hour,
			MaxTTL:    24 * time.Hour,
			Remember:  time.Hour,
		},
		Artifacts: Bounds{Each: skerry.DefaultArtifactBytes, Total: skerry.DefaultArtifactsBytes},
		Inputs:    Bounds{Total: skerry.DefaultInputsBytes},
		Output:    Bounds{Each: skerry.DefaultInlineOutputBytes},
		Env:       map[string]string{},
		Images:    map[string]string{},
		Languages: skerry.BuiltinLanguages(),
		profiles:  map[string]*node{},
		sources:   map[string]Source{},
	}
}

// Load gives what is in force. Its errors are Invalid, or Denied for a file
// that somebody else could have written, and name the place.
func Load(o Options) (*Config, error) {
	if o.Env == nil {
		o.Env = func(string) (string, bool) { return "", false }
	}
	c := Builtin()
	if err := c.loadFile(o); err != nil {
		return nil, err
	}
	later, err := laterLayers(o)
	if err != nil {
		return nil, err
	}
	// The profile is a layer below the environment and the flags, and it is
	// they that may choose it.
	for _, v := range later {
		if v.setting.key == "profile" {
			c.Profile, c.sources["profile"] = v.value, v.source
		}
	}
	if err := c.applyProfile(); err != nil {
		return nil, err
	}
	for _, v := range later {
		if err := c.set(v.setting, v.value, v.source); err != nil {
			return nil, err
		}
	}
	if err := c.reconcile(); err != nil {
		return nil, err
	}
	return c, nil
}

type layered struct {
	setting *setting
	value   string
	source  Source
}

// laterLayers are the values from the environment and the flags, the weakest
// first. An empty variable counts as not set.
func laterLayers(o Options) ([]layered, error) {
	var out []layered
	for _, weak := range []bool{true, false} {
		for i := range settings {
			s := &settings[i]
			name, l, convert := s.env, fromEnvironment, func(s string) string { return s }
			if weak {
				name, l, convert = s.terminal, fromTerminal, s.fromTerminal
			}
			if name == "" {
				continue
			}
			if v, ok := o.Env(name); ok && v != "" {
				if convert != nil {
					v = convert(v)
				}
				out = append(out, layered{s, v, Source{l, "env " + name}})
			}
		}
	}
	for _, f := range o.Flags {
		s := findSetting(f.Key)
		if s == nil {
			return nil, skerry.Errorf(skerry.Internal, "configuration", "flag %s sets %q, which is no setting", f.Flag, f.Key)
		}
		out = append(out, layered{s, f.Value, Source{fromFlag, "flag " + f.Flag}})
	}
	return out, nil
}

func (c *Config) set(s *setting, value string, from Source) error {
	if err := s.set(c, value); err != nil {
		e := skerry.Errorf(skerry.Invalid, from.where(s.key), "%w", err)
		e.Hint = skerry.HintOf(err)
		return e
	}
	c.sources[s.key] = from
	return nil
}

// where names the place of a wrong value as the person who wrote it knows it.
func (s Source) where(key string) string {
	if s.layer == fromFlag {
		return s.text[len("flag "):]
	}
	return s.text + ": " + key
}

// ProfileNames are the profiles of the file, sorted.
func (c *Config) ProfileNames() []string { return slices.Sorted(maps.Keys(c.profiles)) }

// ImageFor gives the image for code in a language, "" where none is set.
func (c *Config) ImageFor(l skerry.Language) string {
	if c.sources["image"].layer > fromProfile {
		return c.Image
	}
	for _, image := range []string{c.Images[l.Name], c.Image, l.Image} {
		if image != "" {
			return image
		}
	}
	return ""
}

// ImageAsked says whether the image was named by the caller for this very
// call, rather than for every one.
func (c *Config) ImageAsked() bool { return c.sources["image"].layer == fromFlag }

// Setting is one line of what is in force.
type Setting struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Source string `json:"source"`
	About  string `json:"about,omitempty"`
}

// Settings lists every setting with its value and source. Values of
// environment variables are not shown: they may be secret.
func (c *Config) Settings() []Setting {
	var out []Setting
	for i := range settings {
		s := &settings[i]
		out = append(out, Setting{s.key, s.get(c), c.sources[s.key].String(), about[s.key]})
	}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		out = append(out, Setting{"env." + name, "(set)", c.sources["env."+name].String(), ""})
	}
	for _, name := range slices.Sorted(maps.Keys(c.Images)) {
		out = append(out, Setting{"images." + name, c.Images[name], c.sources["images."+name].String(), ""})
	}
	for _, name := range c.ProfileNames() {
		out = append(out, Setting{"profiles." + name, "(defined)", fmt.Sprintf("%s:%d", c.file, c.profiles[name].line), ""})
	}
	for _, name := range c.Languages.Names() {
		l, err := c.Languages.Find(name)
		if err != nil {
			continue // Names lists only what Find finds
		}
		out = append(out, Setting{"languages." + name, fmt.Sprintf("%q", l.Command), c.sources["languages."+name].String(), ""})
	}
	return out
}

// SourceOf says where the setting of that key came from.
func (c *Config) SourceOf(key string) Source { return c.sources[key] }

// File is the configuration file that was read, "" where there is none.
func (c *Config) File() string { return c.file }
