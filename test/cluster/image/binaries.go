//go:build linux

package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// stopGrace is how long a go command that was killed may keep its output open.
const stopGrace = 5 * time.Second

// nobody is the user of images whose programs need no user of their own.
const nobody = "65532:65532"

// initTags are the build tags that skerry-init is released with; see the
// Makefile.
const initTags = "grpcnotrace"

func (b *builder) pause(ctx context.Context) ([]Image, error) {
	return b.scratch(ctx, "pause", Pause, b.source("test", "cluster"), "./image/pause", "")
}

func (b *builder) init(ctx context.Context) ([]Image, error) {
	return b.scratch(ctx, "skerry-init", Init, b.root, "./cmd/skerry-init", initTags)
}

// scratch makes an image with one static program, /kind, and nothing else. The
// program is always built: the go command knows best whether anything changed,
// and what it built is the key.
func (b *builder) scratch(ctx context.Context, kind, name, module, pkg, tags string) ([]Image, error) {
	work, err := os.MkdirTemp("", "skerry-image-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	binary := filepath.Join(work, kind)
	if err := goBuild(ctx, module, pkg, tags, binary); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "%q %q\n", name, makers)
	hash.Write(data)
	return b.ensure(ctx, kind, hex.EncodeToString(hash.Sum(nil))[:keyDigits], func(work string) ([]Image, error) {
		files := tree{kind: fileOf(data, 0o555)}
		config := v1.Config{Entrypoint: []string{"/" + kind}, User: nobody, WorkingDir: "/"}
		layer, err := files.writeLayer(filepath.Join(work, kind+".layer"))
		if err != nil {
			return nil, err
		}
		img, err := newImage(config, layer)
		if err != nil {
			return nil, err
		}
		return writeArchive(filepath.Join(work, kind+".oci.tar"), []named{{name, img}})
	})
}

// goBuild builds a static program that does not know where it was built. When
// ctx ends, the go command and its compilers are killed.
func goBuild(ctx context.Context, module, pkg, tags, out string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-tags", tags, "-ldflags", "-s -w", "-o", out, pkg)
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off", "GOOS=linux", "GOARCH="+arch)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = stopGrace
	output, err := cmd.CombinedOutput()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil {
		return fmt.Errorf("go build %s: %w: %s", pkg, err, tail(string(output)))
	}
	return nil
}

// tail is the end of what a program said, which names the cause.
func tail(output string) string {
	const lines = 12
	all := strings.Split(strings.TrimSpace(output), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n\t")
}
