package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/skerry-run/skerry"
)

const (
	maxFileBytes = 1 * skerry.MiB
	maxInline    = 64 * skerry.MiB // a result is held in memory, twice
	maxGrace     = time.Minute
	systemFile   = "/etc/skerry/skerry.yaml"
)

// places are the files to look for, the first that exists is read. The
// current directory is never among them: programs that nobody has vetted
// write there.
func places(env func(string) (string, bool)) []string {
	var out []string
	// A relative folder would be below the current directory.
	if dir, ok := env("XDG_CONFIG_HOME"); ok && filepath.IsAbs(dir) {
		out = append(out, filepath.Join(dir, "skerry", "skerry.yaml"))
	} else if home := homeDir(env); filepath.IsAbs(home) {
		out = append(out, filepath.Join(home, ".config", "skerry", "skerry.yaml"))
	}
	return append(out, systemFile)
}

func homeDir(env func(string) (string, bool)) string {
	for _, name := range homeVariables {
		if home, ok := env(name); ok && home != "" {
			return home
		}
	}
	return ""
}

func (c *Config) loadFile(o Options) error {
	path, named := o.Path, "--config"
	if path == "" {
		named = fileVariable
		if v, ok := o.Env(named); ok {
			path = v
		}
	}
	if path != "" {
		data, err := readFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return skerry.Errorf(skerry.Invalid, named, "there is no file %s", path)
		}
		if err != nil {
			return err
		}
		return c.parseFile(path, data)
	}
	for _, path := range places(o.Env) {
		data, err := readFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		return c.parseFile(path, data)
	}
	return nil
}

// readFile refuses a file that somebody other than the caller and root can
// write: its settings say how code is locked in.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, skerry.Errorf(skerry.Invalid, "configuration", "%s is not a regular file", path)
	}
	if err := checkOwner(path, info); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("configuration: read %s: %w", path, err)
	}
	if int64(len(data)) > maxFileBytes {
		return nil, skerry.Errorf(skerry.Invalid, "configuration", "%s has more than %d bytes", path, maxFileBytes)
	}
	return data, nil
}

// groups are the keys of the file that hold others.
const (
	profilesKey  = "profiles"
	languagesKey = "languages"
	envKey       = "env"
	imagesKey    = "images"
)

func (c *Config) parseFile(path string, data []byte) error {
	doc, err := parseDocument(path, data)
	if err != nil {
		return err
	}
	c.file = path
	var deferred []func() error
	err = c.walk(doc, "", func(*setting) bool { return true }, fromFile, func(f field) (bool, error) {
		switch f.key {
		case profilesKey:
			if f.value.shape == emptyShape {
				return true, nil
			}
			if f.value.shape != mappingShape {
				return true, atLine(path, f.line, "profiles is %s, want a mapping of names", f.value.shape)
			}
			for _, p := range f.value.fields {
				p.value.line = p.line
				c.profiles[p.key] = p.value
			}
			return true, nil
		case languagesKey:
			deferred = append(deferred, func() error { return c.parseLanguages(f) })
			return true, nil
		}
		return false, nil
	}, profilesKey, languagesKey)
	for _, do := range deferred {
		if err != nil {
			break
		}
		err = do()
	}
	if err != nil {
		return err
	}
	// A profile that nobody chose is checked too: its mistakes are found now,
	// not on the day it is needed.
	for _, name := range c.ProfileNames() {
		trial := Builtin()
		trial.file, trial.Languages = c.file, c.Languages
		if err := trial.parseProfile(name, c.profiles[name]); err != nil {
			return err
		}
	}
	return nil
}

// walk sets what a mapping holds. allowed says which settings may stand there,
// other handles keys of its own (named in extra).
func (c *Config) walk(n *node, prefix string, allowed func(*setting) bool, l layer, other func(field) (bool, error), extra ...string) error {
	if n.shape == emptyShape {
		return nil
	}
	if n.shape != mappingShape {
		return atLine(c.file, n.line, "%s is %s, want a mapping", nameOf(prefix), n.shape)
	}
	for _, f := range n.fields {
		if other != nil {
			if done, err := other(f); err != nil {
				return err
			} else if done {
				continue
			}
		}
		key := prefix + f.key
		if s := findSetting(key); s != nil && allowed(s) {
			if f.value.shape != scalarShape {
				return atLine(c.file, f.line, "%s is %s, want a single value", key, f.value.shape)
			}
			if err := c.set(s, f.value.scalar, Source{l, fmt.Sprintf("%s:%d", c.file, f.line)}); err != nil {
				return err
			}
			continue
		}
		if hasGroup(key, allowed) {
			if err := c.walk(f.value, key+".", allowed, l, nil); err != nil {
				return err
			}
			continue
		}
		where := ""
		if prefix != "" {
			where = " in " + strings.TrimSuffix(prefix, ".")
		}
		return unknownKey(c.file, f, where, append(keysBelow(prefix, allowed), extra...))
	}
	return nil
}

func nameOf(prefix string) string {
	if prefix == "" {
		return "the configuration"
	}
	return strings.TrimSuffix(prefix, ".")
}

func hasGroup(key string, allowed func(*setting) bool) bool {
	return len(keysBelow(key+".", allowed)) > 0
}

// keysBelow lists the words that may follow prefix, each once.
func keysBelow(prefix string, allowed func(*setting) bool) []string {
	var out []string
	for i := range settings {
		rest, ok := strings.CutPrefix(settings[i].key, prefix)
		if !ok || !allowed(&settings[i]) {
			continue
		}
		word, _, _ := strings.Cut(rest, ".")
		if len(out) == 0 || out[len(out)-1] != word {
			out = append(out, word)
		}
	}
	return out
}
