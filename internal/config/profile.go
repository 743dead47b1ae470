package config

import (
	"fmt"
	"strings"

	"github.com/skerry-run/skerry"
)

// applyProfile puts the chosen profile's settings over those of the file.
func (c *Config) applyProfile() error {
	if c.Profile == "" {
		return nil
	}
	n, ok := c.profiles[c.Profile]
	if !ok {
		e := skerry.Errorf(skerry.Invalid, c.sources["profile"].where("profile"), "there is no profile %q", c.Profile)
		if names := c.ProfileNames(); len(names) > 0 {
			return e.WithHint("the profiles are %s", strings.Join(names, ", "))
		}
		return e.WithHint("the configuration defines no profiles; add it under \"profiles\" in skerry.yaml")
	}
	return c.parseProfile(c.Profile, n)
}

func (c *Config) parseProfile(name string, n *node) error {
	return c.walk(n, "", func(s *setting) bool { return s.profile }, fromProfile, func(f field) (bool, error) {
		switch f.key {
		case envKey:
			err := c.textMap(f, func(k, v string, line int) error {
				if err := skerry.ValidateEnv(map[string]string{k: v}); err != nil {
					return atLine(c.file, line, "%w", err)
				}
				c.Env[k] = v
				c.sources["env."+k] = Source{fromProfile, fmt.Sprintf("%s:%d", c.file, line)}
				return nil
			})
			return true, err
		case imagesKey:
			err := c.textMap(f, func(k, v string, line int) error {
				l, err := c.Languages.Find(k)
				if err != nil {
					return atLine(c.file, line, "%w", err).WithHint("%s", skerry.HintOf(err))
				}
				c.Images[l.Name] = v
				c.sources["images."+l.Name] = Source{fromProfile, fmt.Sprintf("%s:%d", c.file, line)}
				return nil
			})
			return true, err
		}
		return false, nil
	}, envKey, imagesKey)
}

// textMap calls set for each pair of a mapping of words to values.
func (c *Config) textMap(f field, set func(key, value string, line int) error) error {
	if f.value.shape == emptyShape {
		return nil
	}
	if f.value.shape != mappingShape {
		return atLine(c.file, f.line, "%s is %s, want a mapping", f.key, f.value.shape)
	}
	for _, pair := range f.value.fields {
		if pair.value.shape != scalarShape && pair.value.shape != emptyShape {
			return atLine(c.file, pair.line, "%s.%s is %s, want a single value", f.key, pair.key, pair.value.shape)
		}
		if err := set(pair.key, pair.value.scalar, pair.line); err != nil {
			return err
		}
	}
	return nil
}
