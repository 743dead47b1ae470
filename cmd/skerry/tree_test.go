package main

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skerry-run/skerry"
)

func tarOf(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		data := []byte(h.Uname) // where the tables below put a file's contents
		h.Uname, h.Size = "", int64(len(data))
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatalf("%q: %v", h.Name, err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func receive(t *testing.T, dir string, stream []byte) ([]string, error) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	return receiveFolder(t.Context(), root, "got", nil, func(_ context.Context, w io.Writer) error {
		_, err := w.Write(stream)
		return err
	})
}

// B125, B126: a stream that would write outside is refused whole, and names
// the entry.
func TestBadTarLeavesNothing(t *testing.T) {
	good := tar.Header{Name: "good", Uname: "x"}
	for _, c := range []struct {
		name  string
		entry tar.Header
	}{
		{"dotdot", tar.Header{Name: "../../x", Uname: "x"}},
		{"absolute", tar.Header{Name: "/abs", Uname: "x"}},
		{"inner dotdot", tar.Header{Name: "a/../../x", Uname: "x"}},
		{"backslash", tar.Header{Name: `..\x`, Uname: "x"}},
		{"dot", tar.Header{Name: ".", Uname: "x"}},
		{"hard link", tar.Header{Name: "h", Linkname: "/etc/passwd", Typeflag: tar.TypeLink}},
		{"twice", good},
	} {
		t.Run(c.name, func(t *testing.T) {
			outer := t.TempDir()
			dir := filepath.Join(outer, "dir")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			_, err := receive(t, dir, tarOf(t, good, c.entry))
			if err == nil || !strings.Contains(err.Error(), strings.Trim(strings.ReplaceAll(c.entry.Name, `\`, `\\`), "/")) {
				t.Errorf("got %v, want an error that names %q", err, c.entry.Name)
			}
			for _, d := range []string{outer, dir} {
				entries, err := os.ReadDir(d)
				if err != nil || d == dir && len(entries) != 0 || d == outer && len(entries) != 1 {
					t.Errorf("%s has %v, %v", d, entries, err)
				}
			}
		})
	}
}

func TestTruncatedTarLeavesNothing(t *testing.T) {
	whole := tarOf(t, tar.Header{Name: "a", Uname: strings.Repeat("x", 2000)}, tar.Header{Name: "b", Uname: "y"})
	dir := t.TempDir()
	if _, err := receive(t, dir, whole[:1000]); err == nil {
		t.Error("half a stream was taken for a whole one")
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("left %v", entries)
	}
}

// A few bytes of a stream never become gigabytes here.
func TestSparseTarIsRefused(t *testing.T) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	noHoles := make([]byte, 512) // the map of a file that is one hole
	copy(noHoles, "0\n")
	h := tar.Header{Name: "hole", Typeflag: tar.TypeReg, Mode: 0o644, Size: 512, PAXRecords: map[string]string{
		"GNU_sparse.major": "1", "GNU_sparse.minor": "0", "GNU_sparse.name": "hole", "GNU_sparse.realsize": "8589934592",
	}}
	if err := w.WriteHeader(&h); err != nil {
		t.Fatal(err)
	}
	w.Write(noHoles)
	w.Close()
	// The writer makes no such records; the names are put in afterwards.
	stream := bytes.ReplaceAll(b.Bytes(), []byte("GNU_sparse"), []byte("GNU.sparse"))
	if _, err := receive(t, t.TempDir(), stream); err == nil || !strings.Contains(err.Error(), "sparse") {
		t.Errorf("got %v", err)
	}
}

func TestTarLinksStayInside(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	link := func(name, target string) tar.Header {
		return tar.Header{Name: name, Linkname: target, Typeflag: tar.TypeSymlink}
	}
	notes, err := receive(t, dir, tarOf(t,
		tar.Header{Name: "d/e/", Typeflag: tar.TypeDir, Mode: 0o755},
		tar.Header{Name: "v1", Uname: "one"},
		link("latest", "v1"), link("broken", "no"), link("loop", "loop"), link("d/e/up", "../../v1"),
		link("abs", outside), link("climb", "../x"), link("d/e/root", "../.."), link("trick", "d/e/root/.."),
		tar.Header{Name: "fifo", Typeflag: tar.TypeFifo},
	))
	if err != nil {
		t.Fatal(err)
	}
	got := filepath.Join(dir, "got")
	if data, err := os.ReadFile(filepath.Join(got, "latest")); err != nil || string(data) != "one" {
		t.Errorf("latest is %q, %v", data, err)
	}
	for _, kept := range []string{"broken", "loop", "d/e/up", "d/e/root"} {
		if _, err := os.Lstat(filepath.Join(got, kept)); err != nil {
			t.Error(err)
		}
	}
	for _, out := range []string{"abs", "climb", "trick", "fifo"} {
		if _, err := os.Lstat(filepath.Join(got, out)); err == nil {
			t.Errorf("%s was made", out)
		}
		if !strings.Contains(strings.Join(notes, "\n"), out+" was left out") {
			t.Errorf("no note about %s in %q", out, notes)
		}
	}
}

// A file never goes through a link, whichever comes first.
func TestTarFileThroughLink(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	_, err := receive(t, dir, tarOf(t, tar.Header{Name: "d", Linkname: outside, Typeflag: tar.TypeSymlink}, tar.Header{Name: "d/x", Uname: "evil"}))
	if entries, _ := os.ReadDir(outside); len(entries) != 0 {
		t.Errorf("outside has %v", entries)
	}
	_ = err // with the link left out, d is an ordinary folder
	if err := os.Symlink(outside, filepath.Join(dir, "got", "s")); err != nil {
		t.Fatal(err)
	}
	if _, err := receive(t, dir, tarOf(t, tar.Header{Name: "s/x", Uname: "evil"})); err == nil {
		t.Error("merged through a link that stood there")
	}
	if entries, _ := os.ReadDir(outside); len(entries) != 0 {
		t.Errorf("outside has %v", entries)
	}
}

func TestTarMergesIntoAFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "got", "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{"old": "old", "sub/both": "old"} {
		if err := os.WriteFile(filepath.Join(dir, "got", name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := receive(t, dir, tarOf(t, tar.Header{Name: "./sub/both", Uname: "new"}, tar.Header{Name: "sub/more", Uname: "new", Mode: 0o755})); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"old": "old", "sub/both": "new", "sub/more": "new"} {
		if data, err := os.ReadFile(filepath.Join(dir, "got", name)); err != nil || string(data) != want {
			t.Errorf("%s is %q, %v", name, data, err)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left %v", entries)
	}
}

func TestArtifactsStayInTheirFolder(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(outside, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(dir, "file")); err != nil {
		t.Fatal(err)
	}
	a, err := openArtifacts(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	write := func(name, data string, size int64) error {
		w, err := a.create(skerry.Artifact{Path: skerry.OutputDir + "/" + name, Size: size})
		if err != nil {
			return err
		}
		if _, err := io.WriteString(w, data); err != nil {
			return err
		}
		return w.Close()
	}
	for _, bad := range []string{"../x", "/x", "", "a/../../x", "link/x"} {
		if err := write(bad, "evil", 4); err == nil {
			t.Errorf("%q was written", bad)
		}
	}
	if err := write("short", "abc", 9); err == nil {
		t.Error("a file that is not whole was kept")
	}
	// A link that stands there is replaced, not followed.
	if err := write("file", "new", 3); err != nil {
		t.Error(err)
	}
	if data, _ := os.ReadFile(secret); string(data) != "secret" {
		t.Errorf("wrote through a link: %q", data)
	}
	for _, name := range []string{"sub/é b.txt", "\u0065\u0301", "a\nb", strings.Repeat("n", 255), "-rf", "$(id)"} {
		if err := write(name, "x", 1); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(data) != "x" {
			t.Errorf("%q is %q, %v", name, data, err)
		}
	}
	filepath.WalkDir(dir, func(p string, _ os.DirEntry, _ error) error {
		if strings.Contains(p, ".skerry-") {
			t.Errorf("left %s", p)
		}
		return nil
	})
}

// FuzzUnpack makes an archive of three entries, so that the fuzzer need not
// find checksums, and looks for anything outside of the folder.
func FuzzUnpack(f *testing.F) {
	f.Add("d/e/", "", byte(tar.TypeDir), "d/l", "../..", byte(tar.TypeSymlink), "d/l/x", "", byte(tar.TypeReg))
	f.Add("l", "../x", byte(tar.TypeSymlink), "l/y", "", byte(tar.TypeReg), "../z", "", byte(tar.TypeReg))
	f.Add("a", "b/..", byte(tar.TypeSymlink), "b", "c/d", byte(tar.TypeSymlink), "c/d/", "", byte(tar.TypeDir))
	f.Fuzz(func(t *testing.T, n1, l1 string, t1 byte, n2, l2 string, t2 byte, n3, l3 string, t3 byte) {
		var stream bytes.Buffer
		w := tar.NewWriter(&stream)
		for _, h := range []tar.Header{{Name: n1, Linkname: l1, Typeflag: t1}, {Name: n2, Linkname: l2, Typeflag: t2}, {Name: n3, Linkname: l3, Typeflag: t3}} {
			h.Mode = 0o644
			if w.WriteHeader(&h) != nil {
				return // no archive can hold it
			}
		}
		w.Close()
		outer := t.TempDir()
		inner := filepath.Join(outer, "inner")
		if err := os.Mkdir(inner, 0o755); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(inner)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		_, _ = receiveFolder(t.Context(), root, "got", nil, func(_ context.Context, w io.Writer) error {
			_, err := w.Write(stream.Bytes())
			return err
		})
		for _, d := range []string{outer, inner} {
			entries, err := os.ReadDir(d)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if e.Name() != "inner" && e.Name() != "got" {
					t.Errorf("%s has %s", d, e.Name())
				}
			}
		}
		filepath.WalkDir(inner, func(p string, e os.DirEntry, err error) error {
			if err != nil || e.Type()&os.ModeSymlink == 0 {
				return nil
			}
			if target, err := filepath.EvalSymlinks(p); err == nil && !strings.HasPrefix(target+"/", filepath.Join(inner, "got")+"/") {
				t.Errorf("%s leads to %s", p, target)
			}
			return nil
		})
	})
}
