//go:build linux

package bwrap

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/skerry-run/skerry"
)

// Needed is the oldest bwrap with every option that sandboxes are made with
// (--size and --perms since 0.5 and 0.6, --disable-userns since 0.8).
var Needed = Version{0, 8}

// probeLimit bounds a call of bwrap that only prints something: an old one, or
// something else of that name, may wait for ever.
const probeLimit = 5 * time.Second

// Version is a version of bwrap.
type Version struct{ Major, Minor int }

// String gives "0.8".
func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

func (v Version) before(w Version) bool {
	return v.Major < w.Major || v.Major == w.Major && v.Minor < w.Minor
}

// InstallHint says how to get bubblewrap.
const InstallHint = "install bubblewrap: apt-get install bubblewrap (Debian, Ubuntu), dnf install bubblewrap (Fedora), apk add bubblewrap (Alpine), pacman -S bubblewrap (Arch); or use another backend"

// Find gives the path of bwrap: name itself when it holds a slash, else found
// on PATH; "" is "bwrap".
func Find(name string) (string, error) {
	if name == "" {
		name = "bwrap"
	}
	p, err := exec.LookPath(name)
	if err != nil {
		return "", skerry.Errorf(skerry.Denied, "find bubblewrap", "%w", err).WithHint(InstallHint).WithOutcome(skerry.StartFailed)
	}
	return p, nil
}

// ReadVersion asks the bwrap at path for its version, and refuses one that is
// too old or does not answer.
func ReadVersion(ctx context.Context, path string) (Version, error) {
	const op = "check bubblewrap"
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env = []string{}
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	fail := func(format string, args ...any) error {
		return skerry.Errorf(skerry.Denied, op, format, args...).WithHint("%s is needed in version %v or later; %s", "bubblewrap", Needed, InstallHint).WithOutcome(skerry.StartFailed)
	}
	if ctx.Err() != nil {
		return Version{}, fail("%s --version did not answer within %v", path, probeLimit)
	}
	if err != nil {
		if _, ok := errors.AsType[*exec.ExitError](err); ok {
			return Version{}, fail("%s --version: %w: %s", path, err, firstLine(out))
		}
		return Version{}, fail("%s --version: %w", path, err)
	}
	v, ok := parseVersion(string(out))
	if !ok {
		return Version{}, fail("%s does not say a version: %q", path, firstLine(out))
	}
	if v.before(Needed) {
		return v, fail("%s has version %v", path, v)
	}
	return v, nil
}

func parseVersion(s string) (Version, bool) {
	f := strings.Fields(s)
	if len(f) < 2 || f[0] != "bubblewrap" {
		return Version{}, false
	}
	parts := strings.Split(f[1], ".")
	if len(parts) < 2 {
		return Version{}, false
	}
	major, err1 := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	return Version{major, minor}, err1 == nil && err2 == nil
}

func firstLine(b []byte) string {
	const most = 200
	s, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	return s[:min(len(s), most)]
}
