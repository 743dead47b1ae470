//go:build linux

package image

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func TestTheSameProgramsGiveTheSameDigests(t *testing.T) {
	root, err := checkout("")
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := filepath.Join(t.TempDir(), "a", "checkout")
	copySources(t, root, elsewhere)
	var digests [][]string
	for _, root := range []string{root, elsewhere} {
		b, err := newBuilder(Options{Root: root, Cache: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, build := range []func() ([]Image, error){
			func() ([]Image, error) { return b.pause(t.Context()) },
			func() ([]Image, error) { return b.init(t.Context()) },
		} {
			images, err := build()
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, images[0].Name, images[0].Digest)
		}
		digests = append(digests, got)
	}
	if !slices.Equal(digests[0], digests[1]) {
		t.Fatalf("built in two folders, from two checkouts:\n%q\n%q", digests[0], digests[1])
	}
}

// copySources copies what the two programs are made of.
func copySources(t *testing.T, from, to string) {
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			// Somebody may be at work in the checkout.
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if slices.Contains([]string{".git", "bin", "docs", "test/cluster/parts"}, name) {
				return filepath.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		}
		if !entry.Type().IsRegular() || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), data, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAnArchiveIsAWholeLayout(t *testing.T) {
	image, err := BuildPause(t.Context(), Options{Cache: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "tar", "-xf", image.Path, "-C", folder).CombinedOutput(); err != nil {
		t.Fatalf("unpack: %v: %s", err, out)
	}
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	// Fast, because the other way takes every layer for a compressed one.
	if err := validate.Index(index, validate.Fast); err != nil {
		t.Fatalf("validate: %v", err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range manifest.Manifests {
		names = append(names, m.Annotations[nameAnnotation])
		if m.Digest.String() != image.Digest {
			t.Errorf("the archive has %s, want %s", m.Digest, image.Digest)
		}
	}
	if want := []string{Pause, "skerry.test/pause@" + image.Digest}; !slices.Equal(names, want) || image.Pinned() != want[1] {
		t.Errorf("the names are %q, want %q", names, want)
	}
	hash, err := v1.NewHash(image.Digest)
	if err != nil {
		t.Fatal(err)
	}
	img, err := index.Image(hash)
	if err != nil {
		t.Fatal(err)
	}
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("the layers are %v, %v, want one", layers, err)
	}
	content, err := layers[0].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	want, _ := layers[0].Digest()
	if got, _, err := v1.SHA256(content); got != want {
		t.Errorf("the layer's digest is %v, %v, want %v", got, err, want)
	}
	files := mutate.Extract(img)
	defer files.Close()
	header, err := tar.NewReader(files).Next()
	if err != nil || header.Name != "pause" || header.Mode != 0o555 {
		t.Errorf("the image holds %+v, %v, want one program, pause", header, err)
	}
}

func TestPauseReapsAndEndsWhenTold(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: a namespace of processes needs root")
	}
	root, err := checkout("")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "pause")
	if err := goBuild(t.Context(), filepath.Join(root, "test", "cluster"), "./image/pause", "", program); err != nil {
		t.Fatal(err)
	}
	// The shell becomes the first process of a pod that already has one more,
	// and one that has ended.
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `true & sleep 1000 & echo; exec "$0"`, program)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "only the process that runs to be left", func() bool { return len(children(t, cmd.Process.Pid)) == 1 })
	for _, pid := range children(t, cmd.Process.Pid) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, "its end to be collected", func() bool { return len(children(t, cmd.Process.Pid)) == 0 })
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("after SIGTERM: %v, want exit code 0", err)
	}
}

// children are the processes, dead ones included, that pid has to collect.
func children(t *testing.T, pid int) []int {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "task", strconv.Itoa(pid), "children"))
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for field := range strings.FieldsSeq(string(data)) {
		n, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, n)
	}
	return out
}

// waitFor looks until it is so; the test's own deadline ends it.
func waitFor(t *testing.T, what string, isSo func() bool) {
	for !isSo() {
		select {
		case <-t.Context().Done():
			t.Fatalf("waiting for %s: %v", what, t.Context().Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// extract unpacks an image of an archive into a folder.
func extract(t *testing.T, image Image, folder string) v1.ConfigFile {
	unpacked := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "tar", "-xf", image.Path, "-C", unpacked).CombinedOutput(); err != nil {
		t.Fatalf("unpack: %v: %s", err, out)
	}
	hash, err := v1.NewHash(image.Digest)
	if err != nil {
		t.Fatal(err)
	}
	path, err := layout.FromPath(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	img, err := path.Image(hash)
	if err != nil {
		t.Fatal(err)
	}
	files := mutate.Extract(img)
	defer files.Close()
	untar := exec.CommandContext(t.Context(), "tar", "-xp", "--numeric-owner", "-C", folder)
	untar.Stdin = files
	if out, err := untar.CombinedOutput(); err != nil {
		t.Fatalf("unpack the layers: %v: %s", err, out)
	}
	if _, err := io.Copy(io.Discard, files); err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	return *config
}

func TestInitIsBuiltAsItIsReleased(t *testing.T) {
	root, err := checkout("")
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^TAGS\s*:=\s*(.*?)\s*$`).FindSubmatch(makefile)
	if found == nil || string(found[1]) != initTags {
		t.Errorf("the Makefile's tags are %q, want %q", found, initTags)
	}
}
