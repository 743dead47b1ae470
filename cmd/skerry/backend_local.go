package main

import (
	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/config"
	"github.com/skerry-run/skerry/local"
)

func openLocal(c *config.Config) (skerry.Backend, error) {
	return local.New(local.Config{
		StateDir:     c.Local.StateDir,
		Init:         c.Local.Init,
		Bwrap:        c.Local.Bwrap,
		StartTimeout: c.Timeouts.Start,
		MaxTTL:       c.Timeouts.MaxTTL,
	})
}
