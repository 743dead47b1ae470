//go:build linux

package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestUnknownArgumentsGiveUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"nonsense"}, {"--help"}} {
		var stderr bytes.Buffer
		if code := run(args, &stderr); code != exitUsage || !strings.HasPrefix(stderr.String(), "usage:") {
			t.Errorf("%q gave %d and %q", args, code, stderr.String())
		}
	}
}

func TestServeRefusesToBeStartedByHand(t *testing.T) {
	var stderr bytes.Buffer
	if code := run([]string{"connect"}, &stderr); code != exitUsage || !strings.Contains(stderr.String(), "skerry-init: error:") {
		t.Errorf("connect without a name gave %d and %q", code, stderr.String())
	}
}
