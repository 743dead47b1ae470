//go:build linux

package sandboxfs

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry"
)

// pack makes an archive; an entry with neither type nor a slash at its end is a
// file with the text of its Linkname.
func pack(t testing.TB, entries ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		text := ""
		if h.Typeflag == 0 && !strings.HasSuffix(h.Name, "/") {
			text, h.Linkname, h.Typeflag = h.Linkname, "", tar.TypeReg
			h.Size = int64(len(text))
		}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatalf("%q: %v", h.Name, err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func file(name, text string) tar.Header { return tar.Header{Name: name, Linkname: text} }
func link(name, target string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target}
}
func hard(name, target string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeLink, Linkname: target}
}
func dir(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o755} }

// tree describes everything below a folder.
func tree(t testing.TB, root string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrPermission) {
			return fs.SkipDir
		}
		if err != nil || path == root {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		fmt.Fprintf(&b, "%q", rel)
		switch {
		case e.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			fmt.Fprintf(&b, "->%q", target)
			if err != nil {
				return err
			}
		case e.IsDir():
			b.WriteString("/")
		case e.Type().IsRegular():
			text, err := os.ReadFile(path)
			fmt.Fprintf(&b, "=%.40q", text)
			if err != nil && !errors.Is(err, fs.ErrPermission) {
				return err
			}
		}
		b.WriteString(" ")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(b.String())
}

func TestTarInUnpacksAndMerges(t *testing.T) {
	x := newFixture(t)
	x.write(t, "d/keep", "kept")
	x.write(t, "d/sub/old", "old")
	x.write(t, "d/sub/both", "before")
	if err := os.Symlink("nowhere", filepath.Join(x.workspace, "d/link")); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("long/", 40) + strings.Repeat("n", 200)
	archive := pack(t,
		dir("./"), file("./a", "first"), file("a", "last"), file("sub/both", "after"), file("sub/new/deep", "deep"),
		link("sub/up", "../a"), link("l", "sub/new"), hard("h", "sub/both"), file("link", "over a link"), file(long, "PAX"),
		tar.Header{Name: "fifo", Typeflag: tar.TypeFifo}, tar.Header{Name: "dev", Typeflag: tar.TypeChar},
		file("\xffé\n", "odd"), dir("empty"),
	)
	result, err := x.TarIn(t.Context(), "d", bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Skipped) != 2 || result.Files != 10 {
		t.Errorf("the result is %+v", result)
	}
	for path, want := range map[string]string{
		"d/keep": "kept", "d/a": "last", "d/sub/old": "old", "d/sub/both": "after", "d/sub/new/deep": "deep",
		"d/sub/up": "last", "d/l/deep": "deep", "d/h": "after", "d/link": "over a link", "d/" + long: "PAX", "d/\xffé\n": "odd",
	} {
		if got := x.read(t, path); got != want {
			t.Errorf("%.40q holds %q, want %q", path, got, want)
		}
	}
	if fi, err := x.Stat(t.Context(), "d/empty"); err != nil || fi.Type != skerry.Directory {
		t.Errorf("the empty folder: %+v, %v", fi, err)
	}
	x.noStage(t)
}

func TestTarInKeepsModesAndTimesButNoSpecialBits(t *testing.T) {
	x := newFixture(t)
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	when := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	run := file("ro/run", "")
	run.Mode, run.ModTime = 0o6755, when
	closed := dir("ro/")
	closed.Mode, closed.ModTime = 0o1555, when
	future := file("future", "")
	future.ModTime = time.Unix(1<<40, 0)
	if _, err := x.TarIn(t.Context(), ".", bytes.NewReader(pack(t, closed, run, future, file("plain", "")))); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]uint32{"ro": 0o555, "ro/run": 0o755, "plain": 0o644} {
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(x.workspace, path), &st); err != nil {
			t.Fatal(err)
		}
		if st.Mode&0o7777 != want {
			t.Errorf("%s has mode %o, want %o", path, st.Mode&0o7777, want)
		}
		if path != "plain" && st.Mtim.Sec != when.Unix() {
			t.Errorf("%s is of %v, want %v", path, timeOf(st.Mtim), when)
		}
	}
}

// B125, B126: what is refused is refused whole, and the error names the entry.
func TestTarInRefusesWholeArchives(t *testing.T) {
	good := file("good", "good")
	for what, c := range map[string]struct {
		bad  []tar.Header
		name string
	}{
		"up":                          {[]tar.Header{file("../../x", "")}, "../../x"},
		"absolute":                    {[]tar.Header{file("/abs", "")}, "/abs"},
		"through":                     {[]tar.Header{file("a/../../x", "")}, "a/../../x"},
		"inside but climbing":         {[]tar.Header{file("a/../x", "")}, "a/../x"},
		"long path":                   {[]tar.Header{file(strings.Repeat(strings.Repeat("d", 200)+"/", 21)+"f", "")}, "ddd"},
		"the folder as a file":        {[]tar.Header{file(".", "x")}, "."},
		"long name":                   {[]tar.Header{file(strings.Repeat("n", 256), "")}, "nnn"},
		"too deep":                    {[]tar.Header{file(strings.Repeat("d/", maxDepth)+"f", "")}, "d/d"},
		"link out":                    {[]tar.Header{link("l", "../x")}, "l"},
		"link out of a folder":        {[]tar.Header{link("a/b/l", "../../../x")}, "a/b/l"},
		"absolute link":               {[]tar.Header{link("l", "/etc/passwd")}, "l"},
		"link that climbs later":      {[]tar.Header{link("l", "a/../../x")}, "l"},
		"link without target":         {[]tar.Header{link("l", "")}, "l"},
		"file through a link":         {[]tar.Header{link("d", "e"), file("d/x", "")}, "d/x"},
		"file through a link inside":  {[]tar.Header{file("e/y", ""), link("d", "e"), file("d/x", "")}, "d/x"},
		"folder over a link":          {[]tar.Header{link("d", "e"), dir("d")}, "d"},
		"hard link out":               {[]tar.Header{hard("h", "../ws-evil/secret")}, "h"},
		"absolute hard link":          {[]tar.Header{hard("h", "/etc/passwd")}, "h"},
		"hard link to nothing":        {[]tar.Header{hard("h", "later"), file("later", "")}, "h"},
		"hard link to what is there":  {[]tar.Header{hard("h", "there")}, "h"},
		"hard link through a link":    {[]tar.Header{file("e/y", ""), link("d", "e"), hard("h", "d/y")}, "h"},
		"hard link to a folder":       {[]tar.Header{dir("d"), hard("h", "d")}, "h"},
		"hard link to a link":         {[]tar.Header{link("l", "good"), hard("h", "l")}, "h"},
		"file over a folder":          {[]tar.Header{file("d/x", ""), file("d", "")}, "d"},
		"folder over a file":          {[]tar.Header{file("d", ""), dir("d")}, "d"},
		"below a file":                {[]tar.Header{file("d", ""), file("d/x", "")}, "d/x"},
		"file over a folder there":    {[]tar.Header{file("folder", "")}, "folder"},
		"folder over a file there":    {[]tar.Header{file("there/x", "")}, "there"},
		"through a link there":        {[]tar.Header{file("out/x", "")}, "out"},
		"through a link there inside": {[]tar.Header{file("in/x", "")}, "in"},
		"unknown type":                {[]tar.Header{{Name: "u", Typeflag: 'Z'}}, "u"},
	} {
		t.Run(what, func(t *testing.T) {
			x := newFixture(t)
			x.write(t, "d/there", "there")
			x.write(t, "d/folder/f", "f")
			for name, target := range map[string]string{"out": x.outside, "in": "folder"} {
				if err := os.Symlink(target, filepath.Join(x.workspace, "d", name)); err != nil {
					t.Fatal(err)
				}
			}
			before := tree(t, filepath.Dir(x.workspace))
			_, err := x.TarIn(t.Context(), "d", bytes.NewReader(pack(t, append([]tar.Header{good}, c.bad...)...)))
			if k := skerry.KindOf(err); k != skerry.Invalid && k != skerry.Conflict {
				t.Errorf("got %v (%s), want a refusal", err, k)
			} else if !strings.Contains(err.Error(), `"`+c.name) || skerry.HintOf(err) == "" {
				t.Errorf("%v does not name %q, or has no hint", err, c.name)
			}
			if after := tree(t, filepath.Dir(x.workspace)); after != before {
				t.Errorf("before %s\nafter  %s", before, after)
			}
		})
	}
}

func TestTarInRefusesWhatIsNoWholeArchive(t *testing.T) {
	whole := pack(t, file("a", strings.Repeat("a", 1000)), file("b", "b"))
	for what, archive := range map[string][]byte{
		"nothing":           {},
		"text":              []byte(strings.Repeat("this is no archive\n", 100)),
		"cut in a file":     whole[:800],
		"cut in a header":   whole[:1600],
		"without end mark":  whole[:len(whole)-1024],
		"with a long trail": append(bytes.Clone(whole), make([]byte, maxTarPadding+2)...),
	} {
		x := newFixture(t)
		_, err := x.TarIn(t.Context(), "new", bytes.NewReader(archive))
		if skerry.KindOf(err) != skerry.Invalid || skerry.HintOf(err) == "" {
			t.Errorf("%s gave %v, want invalid with a hint", what, err)
		}
		if left := tree(t, x.workspace); left != "" {
			t.Errorf("%s left %s", what, left)
		}
	}
	x := newFixture(t)
	for what, archive := range map[string][]byte{"an empty archive": pack(t), "padding": append(bytes.Clone(whole), make([]byte, 10240)...)} {
		if _, err := x.TarIn(t.Context(), "new", bytes.NewReader(archive)); err != nil {
			t.Errorf("%s gave %v", what, err)
		}
	}
	broken := errors.New("the source broke")
	_, err := x.TarIn(t.Context(), "other", io.MultiReader(bytes.NewReader(whole[:700]), iotestErr{broken}))
	if !errors.Is(err, broken) {
		t.Errorf("a broken source gave %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = x.TarIn(ctx, "other", cancelling{bytes.NewReader(whole), cancel})
	if !errors.Is(err, context.Canceled) || skerry.KindOf(err) != skerry.Unavailable {
		t.Errorf("a cancelled archive gave %v", err)
	}
	_, err = x.Stat(t.Context(), "other")
	x.wantKind(t, "the folder of a cancelled archive", err, skerry.NotFound)
	x.noStage(t)
}

func TestTarInBoundsSizeAndNumber(t *testing.T) {
	x := newFixture(t)
	x.tarBytes, x.tarEntries = 1000, 5
	_, err := x.TarIn(t.Context(), "d", bytes.NewReader(pack(t, file("a", strings.Repeat("a", 600)), file("b", strings.Repeat("b", 600)))))
	x.wantKind(t, "too many bytes", err, skerry.Busy)
	_, err = x.TarIn(t.Context(), "d", bytes.NewReader(pack(t, dir("1"), dir("2"), dir("3"), dir("4"), dir("5"), dir("6"))))
	x.wantKind(t, "too many entries", err, skerry.Busy)

	// A header alone that promises a terabyte.
	var b bytes.Buffer
	if err := tar.NewWriter(&b).WriteHeader(&tar.Header{Name: "bomb", Size: 1 << 40, Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	_, err = x.TarIn(t.Context(), "d", &b)
	x.wantKind(t, "a terabyte", err, skerry.Busy)
	if left := tree(t, x.workspace); left != "" {
		t.Errorf("%s is left", left)
	}
}

func TestTarInSkipsAreCounted(t *testing.T) {
	x := newFixture(t)
	var entries []tar.Header
	for i := range maxSkipped + 50 {
		entries = append(entries, tar.Header{Name: fmt.Sprintf("fifo\n%d", i), Typeflag: tar.TypeFifo})
	}
	result, err := x.TarIn(t.Context(), ".", bytes.NewReader(pack(t, entries...)))
	if err != nil || len(result.Skipped) != maxSkipped || result.Skipped[maxSkipped-1] != "and 51 more" || strings.Contains(result.Skipped[0], "\n") {
		t.Errorf("%d notes, the last %q, %v", len(result.Skipped), result.Skipped[len(result.Skipped)-1], err)
	}
}

// B137
func TestTarOutBringsLinksAndListsTheRest(t *testing.T) {
	x := newFixture(t)
	long := strings.Repeat("long/", 40) + strings.Repeat("n", 200)
	texts := map[string]string{"a": "A", "d/e": "E", "\xffé\n\"": "odd", long: "L", "d/.hidden": "H"}
	for path, text := range texts {
		x.write(t, "src/"+path, text)
	}
	for name, target := range map[string]string{"latest": "d", "broken": "nowhere", "loop": "loop", "out": "/etc/passwd"} {
		if err := os.Symlink(target, filepath.Join(x.workspace, "src", name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(x.workspace, "src/fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := x.Mkdir(t.Context(), "src/empty"); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	result, err := x.TarOut(t.Context(), "src", &b)
	if err != nil || len(result.Skipped) != 1 || !strings.Contains(result.Skipped[0], "FIFO") || result.Files != int64(len(texts)+4) {
		t.Errorf("the result is %+v, %v", result, err)
	}
	got := unpackAll(t, &b)
	for path, text := range texts {
		if got[path] != "file "+text {
			t.Errorf("%.40q is %q, want %q", path, got[path], text)
		}
	}
	for path, want := range map[string]string{"latest": "link d", "broken": "link nowhere", "out": "link /etc/passwd", "empty/": "folder ", "d/": "folder "} {
		if got[path] != want {
			t.Errorf("%q is %q, want %q", path, got[path], want)
		}
	}

	b.Reset()
	if result, err = x.TarOut(t.Context(), "src/a", &b); err != nil || result.Files != 1 || unpackAll(t, &b)["a"] != "file A" {
		t.Errorf("one file gave %+v, %v", result, err)
	}
	_, err = x.TarOut(t.Context(), "src/fifo", io.Discard)
	x.wantKind(t, "a FIFO alone", err, skerry.Invalid)
	_, err = x.TarOut(t.Context(), "missing", io.Discard)
	x.wantKind(t, "nothing", err, skerry.NotFound)
	full := errors.New("full")
	if _, err = x.TarOut(t.Context(), "src", failingWriter{full}); !errors.Is(err, full) {
		t.Errorf("a broken destination gave %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = x.TarOut(ctx, "src", io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled one gave %v", err)
	}
}

func unpackAll(t *testing.T, r io.Reader) map[string]string {
	t.Helper()
	got := map[string]string{}
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return got
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		switch h.Typeflag {
		case tar.TypeDir:
			got[h.Name] = "folder "
		case tar.TypeSymlink:
			got[h.Name] = "link " + h.Linkname
		default:
			got[h.Name] = "file " + string(text)
		}
	}
}

func TestTarOutSurvivesFilesThatChange(t *testing.T) {
	x := newFixture(t)
	const size = 2 << 20
	for name, change := range map[string]func(path string) error{
		"shrinks": func(path string) error { return os.Truncate(path, 10) },
		"grows":   func(path string) error { return os.Truncate(path, 2*size) },
		"goes":    os.Remove,
	} {
		path := filepath.Join(x.workspace, "a")
		x.write(t, "a", strings.Repeat("a", size))
		x.write(t, "b", "B")
		var b bytes.Buffer
		changed := false
		w := &calling{fn: func() {
			if !changed {
				changed = true
				if err := change(path); err != nil {
					t.Error(err)
				}
			}
		}}
		result, err := x.TarOut(t.Context(), ".", io.MultiWriter(w, &b))
		if err != nil {
			t.Fatal(err)
		}
		got := unpackAll(t, &b)
		if len(got["a"]) != len("file ")+size || got["b"] != "file B" {
			t.Errorf("a file that %s: %d bytes, and b is %q", name, len(got["a"]), got["b"])
		}
		if noted := len(result.Skipped) > 0; noted != (name == "shrinks") {
			t.Errorf("a file that %s: notes %q", name, result.Skipped)
		}
	}
}

func TestATreeRoundTripsThroughTar(t *testing.T) {
	x := newFixture(t)
	for _, path := range []string{"a", "d/e/f", "é", "e\u0301", "\xff", "-rf", "a b/c d"} {
		x.write(t, "src/"+path, path)
	}
	if err := os.Symlink("../a", filepath.Join(x.workspace, "src/d/up")); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := x.TarOut(t.Context(), "src", &b); err != nil {
		t.Fatal(err)
	}
	if _, err := x.TarIn(t.Context(), x.tmp+"/dst", &b); err != nil {
		t.Fatal(err)
	}
	if from, to := tree(t, filepath.Join(x.workspace, "src")), tree(t, filepath.Join(x.tmp, "dst")); from != to {
		t.Errorf("from %s\nto   %s", from, to)
	}
}

func FuzzTarIn(f *testing.F) {
	f.Add(pack(f, file("a", "A"), dir("d/"), file("d/x", "X"), link("l", "a"), hard("h", "a")))
	f.Add(pack(f, file("../../x", "")))
	f.Add(pack(f, file("/abs", "")))
	f.Add(pack(f, link("d", "/tmp"), file("d/x", "")))
	f.Add(pack(f, link("d", ".."), file("d/x", "")))
	f.Add(pack(f, hard("h", "../secret")))
	f.Add(pack(f, file("there/x", "")))
	f.Add(pack(f, file("out/x", "")))
	f.Add(pack(f, file(strings.Repeat("n/", 100)+"long", "PAX")))
	f.Add(pack(f, tar.Header{Name: "fifo", Typeflag: tar.TypeFifo}, file("f", "")))
	f.Add(pack(f, file("a", "1"), file("a", "2"), link("a", "b")))
	x := newFixture(f)
	x.tarBytes = 1 << 20 // a sparse file need not be large to be one
	setUp := func(t testing.TB) {
		if err := x.Remove(t.Context(), "d", true); err != nil && skerry.KindOf(err) != skerry.NotFound {
			t.Fatal(err)
		}
		x.write(t, "d/there", "there")
		for name, target := range map[string]string{"out": x.outside, "in": "there"} {
			if err := os.Symlink(target, filepath.Join(x.workspace, "d", name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	setUp(f)
	before := tree(f, filepath.Dir(x.workspace))
	f.Fuzz(func(t *testing.T, archive []byte) {
		fixChecksums(archive)
		_, err := x.TarIn(t.Context(), "d", bytes.NewReader(archive))
		if k := skerry.KindOf(err); k == skerry.Internal {
			t.Fatalf("a defect of ours: %v", err)
		}
		if err == nil {
			checkLinks(t, filepath.Join(x.workspace, "d"))
			setUp(t) // what an archive may change, and only that, is as it was
		}
		if after := tree(t, filepath.Dir(x.workspace)); after != before {
			t.Fatalf("%v: before %s\nafter %s", err, before, after)
		}
		x.noStage(t)
	})
}

// fixChecksums makes blocks that look like headers count as such: a mutated
// header would be refused for its sum alone.
func fixChecksums(archive []byte) {
	const block, at, end = 512, 148, 156
	for ; len(archive) >= block; archive = archive[block:] {
		h := archive[:block]
		if !bytes.HasPrefix(h[257:], []byte("ustar")) {
			continue
		}
		copy(h[at:end], "        ")
		sum := 0
		for _, c := range h {
			sum += int(c)
		}
		copy(h[at:end], fmt.Sprintf("%06o\x00 ", sum))
	}
}

// checkLinks fails when a link that an archive brought leaves the folder.
func checkLinks(t *testing.T, root string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrPermission) {
			return fs.SkipDir
		}
		if err != nil || e.Type()&fs.ModeSymlink == 0 {
			return err
		}
		target, err := os.Readlink(path)
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		if rel == "out" && strings.HasSuffix(target, "ws-evil") {
			return nil // it was there before
		}
		if to := filepath.Join(filepath.Dir(path), target); filepath.IsAbs(target) || to != root && !strings.HasPrefix(to, root+"/") {
			t.Errorf("the link %q leads to %q", rel, target)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
