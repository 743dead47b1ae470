//go:build linux

package parts

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// A goTool is the go command with a clean environment.
type goTool struct {
	path    string
	version string // as in "go1.26.8"
	env     []string
	proxy   string // GOPROXY, for messages
}

// kept are the settings of the user that say where modules come from and where
// files go, and decide nothing about what is built.
var kept = []string{
	"GOPROXY", "GOSUMDB", "GONOPROXY", "GONOSUMDB", "GOPRIVATE", "GOINSECURE", "GOVCS", "GOAUTH",
	"GOPATH", "GOMODCACHE", "GOCACHE", "GOTMPDIR",
}

// inherited are the variables of the environment that the go command and what
// it calls need beside its settings.
var inherited = []string{
	"PATH", "HOME", "USER", "TMPDIR", "GOMAXPROCS", "SSL_CERT_FILE", "SSL_CERT_DIR", "SSH_AUTH_SOCK", "NETRC",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
}

// findGo finds the go command on PATH and asks it for its version and settings.
func findGo(ctx context.Context) (goTool, error) {
	path, err := exec.LookPath("go")
	if err != nil {
		return goTool{}, fmt.Errorf("find Go to build the cluster's programs: %w (install Go 1.26 and put its bin folder on PATH)", err)
	}
	cmd := exec.CommandContext(ctx, path, append([]string{"env", "-json", "GOVERSION"}, kept...)...)
	// Away from any go.mod or go.work that could choose another toolchain.
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "GOTOOLCHAIN=local")
	out, err := cmd.Output()
	if err != nil {
		return goTool{}, fmt.Errorf("ask %s for its settings: %w", path, err)
	}
	var settings map[string]string
	if err := json.Unmarshal(out, &settings); err != nil {
		return goTool{}, fmt.Errorf("read the settings of %s: %w", path, err)
	}
	t := goTool{path: path, version: settings["GOVERSION"], proxy: settings["GOPROXY"]}
	delete(settings, "GOVERSION")
	for _, name := range inherited {
		if value, ok := os.LookupEnv(name); ok {
			t.env = append(t.env, name+"="+value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		t.env = append(t.env, name+"="+settings[name])
	}
	t.env = append(t.env, t.decisive()...)
	return t, nil
}

// identity is the compiler and the system it builds for.
func (t goTool) identity() string {
	return t.version + " for " + runtime.GOOS + "/" + runtime.GOARCH
}

// decisive are the settings that decide what comes out.
func (t goTool) decisive() []string {
	return []string{
		"GOENV=off",
		"GOFLAGS=-mod=readonly",
		"GOWORK=off",
		"GOTOOLCHAIN=local",
		"CGO_ENABLED=0",
		"GOOS=" + runtime.GOOS,
		"GOARCH=" + runtime.GOARCH,
	}
}

// buildArgs are the arguments of the go command that build bin to the file out.
func (t goTool) buildArgs(p part, bin binary, out string) []string {
	ldflags := "-s -w"
	if p.ldflags != "" {
		ldflags += " " + p.ldflags
	}
	return []string{"build", "-v", "-trimpath", "-buildvcs=false", "-ldflags", ldflags, "-o", out, bin.pkg}
}

// How long a compiler that was told to stop may keep its output open.
const stopGrace = 5 * time.Second

// build builds one binary in the module at dir. When ctx ends, or this process,
// the go command is killed.
func (t goTool) build(ctx context.Context, dir string, p part, bin binary, out string, job *job) error {
	// A parent-death signal is tied to the thread that started the child, not
	// to the process: the thread has to live as long as the child.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	heard := &output{job: job}
	cmd := exec.CommandContext(ctx, t.path, t.buildArgs(p, bin, out)...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, t.env, heard, heard
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = stopGrace
	err := cmd.Run()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil {
		return t.explain(bin, err, heard.complaints())
	}
	return nil
}
