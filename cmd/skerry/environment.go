package main

import (
	"maps"
	"os"
	"strings"

	"github.com/skerry-run/skerry"
)

const maxEnvFileBytes = 1 << 20

// environmentFlags are -e and --env-file.
type environmentFlags struct {
	pairs []string // K=V, or K for the caller's own value
	file  string
}

// resolve gives the variables: those of the settings, over them the file's,
// over them -e. Nothing of the caller's environment is passed on unless -e
// names it.
func (f environmentFlags) resolve(base map[string]string, caller func(string) (string, bool)) (map[string]string, error) {
	env := maps.Clone(base)
	if env == nil {
		env = map[string]string{}
	}
	if f.file != "" {
		if err := readEnvFile(f.file, env); err != nil {
			return nil, err
		}
	}
	for _, pair := range f.pairs {
		name, value, given := strings.Cut(pair, "=")
		if !given {
			v, ok := caller(name)
			if !ok {
				return nil, skerry.Errorf(skerry.Invalid, "-e", "%s is not set here", name).WithHint("give it a value: -e %s=…", name)
			}
			value = v
		}
		env[name] = value
	}
	return env, skerry.ValidateEnv(env)
}

// readEnvFile reads NAME=value lines. Blank lines and lines that start with #
// are skipped. The value is the rest of the line as it stands: no quotes are
// taken off and nothing is expanded.
func readEnvFile(file string, env map[string]string) error {
	f, err := os.Open(file)
	if err != nil {
		return skerry.Errorf(skerry.Invalid, "--env-file", "%w", err)
	}
	defer f.Close()
	data, err := readBounded(f, maxEnvFileBytes, file)
	if err != nil {
		return err
	}
	n := 0
	for line := range strings.SplitSeq(strings.TrimPrefix(string(data), "\ufeff"), "\n") {
		n++
		line = strings.TrimLeft(strings.TrimSuffix(line, "\r"), " \t")
		if line == "" || line[0] == '#' {
			continue
		}
		// The line itself may be a secret, so the error does not show it.
		name, value, ok := strings.Cut(line, "=")
		if !ok || name == "" || strings.ContainsAny(name, " \t") {
			return skerry.Errorf(skerry.Invalid, "--env-file", "%s:%d is not NAME=value", file, n)
		}
		env[name] = value
	}
	return nil
}
