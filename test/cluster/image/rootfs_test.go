//go:build linux

package image

import (
	"archive/tar"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// tarOf writes a tar file as a build would leave it.
func tarOf(t *testing.T, entries ...tar.Header) *os.File {
	file, err := os.Create(filepath.Join(t.TempDir(), "root.tar"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	w := tar.NewWriter(file)
	for _, header := range entries {
		content := header.Name
		if header.Typeflag == tar.TypeReg {
			header.Size = int64(len(content))
		}
		if err := w.WriteHeader(&header); err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeReg {
			if _, err := io.WriteString(w, content); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestARootFileSystemLosesWhatDiffers(t *testing.T) {
	begun := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	packaged := begun.Add(-time.Hour)
	now := begun.Add(time.Minute)
	reg := func(name string, mode int64, at time.Time) tar.Header {
		return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, ModTime: at, Uname: "root"}
	}
	dir := func(name string) tar.Header {
		return tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755, ModTime: now}
	}
	file := tarOf(t,
		dir("./"), dir("./usr/"), dir("./usr/bin/"),
		reg("./usr/bin/su", 0o4755, packaged), reg("./usr/bin/new", 0o755, now),
		tar.Header{Typeflag: tar.TypeLink, Name: "./usr/bin/again", Linkname: "./usr/bin/su", Mode: 0o4755, ModTime: packaged},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "./bin", Linkname: "usr/bin", Mode: 0o777, ModTime: packaged},
		dir("./dev/"), tar.Header{Typeflag: tar.TypeChar, Name: "./dev/null", ModTime: now},
		dir("./etc/"), reg("./etc/machine-id", 0o444, now), reg("./etc/resolv.conf", 0o644, now), reg("./etc/resolv.conf.d", 0o644, packaged),
		dir("./usr/share/doc/"), dir("./usr/share/doc/a/"), reg("./usr/share/doc/a/copyright", 0o644, packaged), reg("./usr/share/doc/a/README", 0o644, packaged),
		dir("./usr/share/doc/b/"), reg("./usr/share/doc/b/README", 0o644, packaged),
		dir("./usr/share/man/"), reg("./usr/share/man/a.1", 0o644, packaged),
		reg("./var/lib/dpkg/status", 0o644, now), reg("./var/lib/dpkg/status-old", 0o644, now),
		dir("./var/log/"), reg("./var/log/dpkg.log", 0o644, now),
	)
	got, err := readRootfs(file, begun)
	if err != nil {
		t.Fatal(err)
	}
	got.prune()
	want := []string{
		"bin", "dev", "etc", "etc/resolv.conf.d", "usr", "usr/bin", "usr/bin/again", "usr/bin/new", "usr/bin/su",
		"usr/share/doc", "usr/share/doc/a", "usr/share/doc/a/copyright", "var/lib/dpkg/status", "var/log",
	}
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, want) {
		t.Fatalf("got  %q\nwant %q", names, want)
	}
	su := got["usr/bin/su"]
	if su.header.Mode != 0o755 || !su.header.ModTime.Equal(packaged) || su.header.Uname != "" {
		t.Errorf("a packaged program has %+v, want its own time, no name of an owner and no set-user-id bit", su.header)
	}
	if made := got["usr/bin/new"].header.ModTime; !made.Equal(epoch) {
		t.Errorf("what the build wrote is of %v, want %v", made, epoch)
	}
	if !got["usr/bin/again"].equal(su) {
		t.Errorf("a link is %+v, want a copy of %+v", got["usr/bin/again"], su)
	}
}

func TestADeviceInARootFileSystemIsRefused(t *testing.T) {
	file := tarOf(t, tar.Header{Typeflag: tar.TypeChar, Name: "./srv/null"})
	if got, err := readRootfs(file, epoch); err == nil {
		t.Fatalf("got %v, want it refused", got)
	}
}

func TestALayerIsWhatIsNew(t *testing.T) {
	lower := tree{
		"a": folderOf(0o755), "a/same": fileOf([]byte("1"), 0o644), "a/changed": fileOf([]byte("1"), 0o644), "a/mode": fileOf([]byte("1"), 0o644),
		"a/gone": fileOf(nil, 0o644), "b": folderOf(0o755), "b/gone": fileOf(nil, 0o644),
	}
	upper := tree{
		"a": folderOf(0o755), "a/same": fileOf([]byte("1"), 0o644), "a/changed": fileOf([]byte("2"), 0o644), "a/mode": fileOf([]byte("1"), 0o755),
		"a/new": fileOf(nil, 0o644),
	}
	got := slices.Sorted(maps.Keys(upper.over(lower)))
	if want := []string{".wh.b", "a/.wh.gone", "a/changed", "a/mode", "a/new"}; !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
}

func TestALayerIsSortedAndNamesNobody(t *testing.T) {
	files := tree{"b": folderOf(0o755), "b/c": fileOf([]byte("text"), 0o555), "a": fileOf(nil, 0o644)}
	l, err := files.writeLayer(filepath.Join(t.TempDir(), "layer"))
	if err != nil {
		t.Fatal(err)
	}
	content, err := l.Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	var names []string
	for in := tar.NewReader(content); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
		if header.Uid != 0 || header.Gid != 0 || header.Uname != "" || header.Gname != "" || !header.ModTime.Equal(epoch) || len(header.PAXRecords) != 0 {
			t.Errorf("%s has the header %+v", header.Name, header)
		}
	}
	if want := []string{"a", "b/", "b/c"}; !slices.Equal(names, want) {
		t.Fatalf("the entries are %q, want %q", names, want)
	}
}
