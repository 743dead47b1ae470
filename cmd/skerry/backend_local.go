package main

import (
	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/config"
)

func openLocal(*config.Config) (skerry.Backend, error) {
	return nil, skerry.Errorf(skerry.Unavailable, "backend", "local is not in this version of skerry")
}
