package sandboxtest

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerry-run/skerry"
)

func testFilesTar(t *testing.T, s *suite) {
	b := s.session(t)

	t.Run("in unpacks files, folders, modes and links", func(t *testing.T) {
		b := b.on(t)
		r, err := b.Files().TarIn(b.ctx, "in", tarOf(
			entry{name: "d/", kind: tar.TypeDir, mode: 0o750},
			entry{name: "d/f", data: "text", mode: 0o640},
			entry{name: "./run", data: "#!/bin/sh\necho ran\n", mode: 0o755},
			entry{name: "latest", kind: tar.TypeSymlink, link: "d/f"},
			entry{name: "no/parent/entry", data: "deep"},
			entry{name: "報告 ①\n'\"", data: "odd"},
		))
		if err != nil || r.Files < 4 || r.Bytes < 8 || len(r.Skipped) != 0 {
			t.Fatalf("%+v, error %v", r, err)
		}
		b.sh("(cd in && cat d/f latest no/parent/entry '報告 ①\n'\\''\"'; stat -c %a d d/f; ./run; readlink latest)").wantOut("texttextdeepodd750\n640\nran\nd/f\n")
	})

	t.Run("in and out round-trip", func(t *testing.T) { // B133, B137
		b := b.on(t)
		var entries []entry
		for _, name := range oddNames {
			entries = append(entries, entry{name: name, data: name})
		}
		entries = append(entries, entry{name: "broken", kind: tar.TypeSymlink, link: "nowhere"}, entry{name: "loop", kind: tar.TypeSymlink, link: "."}, entry{name: "empty/", kind: tar.TypeDir, mode: 0o755})
		if _, err := b.Files().TarIn(b.ctx, "trip", tarOf(entries...)); err != nil {
			t.Fatal(err)
		}
		var w bytes.Buffer
		if _, err := b.Files().TarOut(b.ctx, "trip", &w); err != nil {
			t.Fatal(err)
		}
		got := untar(t, &w)
		for _, e := range entries {
			name := strings.TrimSuffix(e.name, "/")
			if have, ok := got[name]; !ok || have.data != e.data || have.link != e.link {
				t.Errorf("%q came back as %+v (there: %v)", name, have, ok)
			}
		}
	})

	t.Run("out of a single file and of nothing", func(t *testing.T) {
		b := b.on(t)
		b.write("single", "text")
		var w bytes.Buffer
		if _, err := b.Files().TarOut(b.ctx, "single", &w); err != nil {
			t.Fatal(err)
		}
		if got := untar(t, &w); len(got) != 1 {
			t.Errorf("%d entries", len(got))
		} else if got["single"].data != "text" {
			t.Errorf("%+v", got)
		}
		_, err := b.Files().TarOut(b.ctx, "nothing", io.Discard)
		wantKind(t, "tar out", err, skerry.NotFound)
	})

	t.Run("out skips what is no file and says so", func(t *testing.T) {
		b := b.on(t)
		b.sh("mkdir odd; mkfifo odd/fifo; echo x > odd/f").want(0)
		var w bytes.Buffer
		r, err := b.Files().TarOut(b.ctx, "odd", &w)
		if err != nil || len(r.Skipped) != 1 || !strings.Contains(r.Skipped[0], "fifo") {
			t.Errorf("%+v, error %v", r, err)
		}
	})

	t.Run("an entry that would leave fails the whole before anything is visible", func(t *testing.T) { // B125, B126
		b := b.on(t)
		for name, bad := range map[string][]entry{
			"dotdot":               {{name: "../../x", data: "x"}},
			"dotdot inside":        {{name: "a/../../x", data: "x"}},
			"absolute":             {{name: "/tmp/tar-abs", data: "x"}},
			"through a link":       {{name: "d", kind: tar.TypeSymlink, link: "/tmp"}, {name: "d/tar-through", data: "x"}},
			"through a chain":      {{name: "a", kind: tar.TypeSymlink, link: "b"}, {name: "b", kind: tar.TypeSymlink, link: "/tmp"}, {name: "a/tar-chain", data: "x"}},
			"hard link to outside": {{name: "h", kind: tar.TypeLink, link: "/etc/passwd"}},
			"hard link by dotdot":  {{name: "h", kind: tar.TypeLink, link: "../../etc/passwd"}},
			"empty name":           {{name: "", data: "x"}},
		} {
			dir := "bad/" + name
			_, err := b.Files().TarIn(b.ctx, dir, tarOf(append([]entry{{name: "first", data: "good"}}, bad...)...))
			if err == nil {
				t.Errorf("%s was unpacked", name)
				continue
			}
			wantKind(t, name, err, skerry.Invalid, skerry.Denied)
			if b.hasFile(dir + "/first") {
				t.Errorf("%s: a part was unpacked", name)
			}
		}
		b.sh("ls /tmp/tar-* 2>/dev/null; true").wantOut("")
	})

	t.Run("a link that is there already is not followed", func(t *testing.T) {
		b := b.on(t)
		b.sh("mkdir there; ln -s /tmp there/d; ln -s /tmp/tar-there there/f").want(0)
		_, err := b.Files().TarIn(b.ctx, "there", tarOf(entry{name: "d/tar-there", data: "x"}))
		if err == nil {
			t.Error("it was followed")
		}
		b.Files().TarIn(b.ctx, "there", tarOf(entry{name: "f", data: "x"})) // may replace the link, not follow it
		b.sh("ls /tmp/tar-there 2>/dev/null; true").wantOut("")
	})

	t.Run("devices and FIFOs are skipped and counted", func(t *testing.T) {
		b := b.on(t)
		r, err := b.Files().TarIn(b.ctx, "special", tarOf(
			entry{name: "null", kind: tar.TypeChar}, entry{name: "fifo", kind: tar.TypeFifo}, entry{name: "disk", kind: tar.TypeBlock}, entry{name: "f", data: "x"},
		))
		if err != nil || len(r.Skipped) != 3 || r.Files != 1 {
			t.Errorf("%+v, error %v", r, err)
		}
		b.sh("ls special").wantOut("f\n")
	})

	t.Run("a stream that breaks leaves nothing", func(t *testing.T) {
		b := b.on(t)
		whole, err := io.ReadAll(tarOf(entry{name: "one", data: "1"}, entry{name: "two", data: strings.Repeat("2", 100_000)}))
		if err != nil {
			t.Fatal(err)
		}
		cut := errors.New("the source broke")
		_, err = b.Files().TarIn(b.ctx, "cut", io.MultiReader(bytes.NewReader(whole[:50_000]), failingReader{cut}))
		if !errors.Is(err, cut) {
			t.Errorf("error %v", err)
		}
		_, err = b.Files().TarIn(b.ctx, "cut", bytes.NewReader(whole[:50_000]))
		if err == nil {
			t.Error("half a tar stream was taken for a whole one")
		}
		_, err = b.Files().TarIn(b.ctx, "cut", strings.NewReader(strings.Repeat("not a tar stream", 1000)))
		wantKind(t, "nonsense", err, skerry.Invalid)
		if b.hasFile("cut/one") || b.hasFile("cut/two") {
			t.Error("a part was unpacked")
		}
	})
}

// entry is one entry of a tar stream; the zero kind is a regular file.
type entry struct {
	name, data, link string
	kind             byte
	mode             int64
}

func tarOf(entries ...entry) io.Reader {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Mode: e.mode, Linkname: e.link, Size: int64(len(e.data)), ModTime: time.Unix(1_700_000_000, 0)}
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		if err := w.WriteHeader(h); err != nil {
			panic(err) // a mistake in the suite
		}
		if _, err := io.WriteString(w, e.data); err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return &buf
}

// untar gives what a tar stream holds, by cleaned name.
func untar(t *testing.T, r io.Reader) map[string]entry {
	t.Helper()
	got := map[string]entry{}
	var order []string
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(strings.TrimPrefix(h.Name, "./"), "/")
		got[name] = entry{name: h.Name, data: string(data), link: h.Linkname, kind: h.Typeflag, mode: h.Mode}
		order = append(order, h.Name)
	}
	if len(slices.Compact(slices.Sorted(slices.Values(order)))) != len(order) {
		t.Errorf("an entry came twice: %q", order)
	}
	return got
}
