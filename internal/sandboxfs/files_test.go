//go:build linux

package sandboxfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry"
)

func itoa(n int) string { return strconv.Itoa(n) }

func TestAWriteIsWholeOrNotAtAll(t *testing.T) {
	x := newFixture(t)
	x.write(t, "f", "old")
	broken := errors.New("the source broke")
	_, err := x.Write(t.Context(), "f", io.MultiReader(strings.NewReader("new"), iotestErr{broken}), skerry.WriteOptions{})
	if !errors.Is(err, broken) {
		t.Errorf("a broken source gave %v", err)
	}
	_, err = x.Write(t.Context(), "g/h", iotestErr{fmt.Errorf("wrapped: %w", os.ErrNotExist)}, skerry.WriteOptions{})
	x.wantKind(t, "a source with an error of its own", err, skerry.Internal)

	ctx, cancel := context.WithCancel(t.Context())
	_, err = x.Write(ctx, "f", cancelling{strings.NewReader("newer"), cancel}, skerry.WriteOptions{})
	if !errors.Is(err, context.Canceled) || skerry.KindOf(err) != skerry.Unavailable {
		t.Errorf("a cancelled write gave %v", err)
	}
	if got := x.read(t, "f"); got != "old" {
		t.Errorf("the file holds %q, want old", got)
	}
	x.noStage(t)
}

type iotestErr struct{ err error }

func (e iotestErr) Read([]byte) (int, error) { return 0, e.err }

type cancelling struct {
	io.Reader
	cancel func()
}

func (c cancelling) Read(p []byte) (int, error) {
	c.cancel()
	return c.Reader.Read(p)
}

func TestAReaderSeesOneVersionWhileFilesAreReplaced(t *testing.T) {
	x := newFixture(t)
	versions := []string{strings.Repeat("a", 300_000), strings.Repeat("b", 300_000)}
	x.write(t, "f", versions[0])
	var wg sync.WaitGroup
	for _, v := range versions {
		wg.Go(func() {
			for range 20 {
				if _, err := x.Write(t.Context(), "f", strings.NewReader(v), skerry.WriteOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 40 {
		if got := x.read(t, "f"); got != versions[0] && got != versions[1] {
			t.Fatalf("%d bytes of neither version", len(got))
		}
		if list, err := x.List(t.Context(), ".", skerry.ListOptions{}); err != nil || len(list) != 1 {
			t.Fatalf("the folder lists %v, %v", list, err)
		}
	}
	wg.Wait()
	x.noStage(t)
}

func TestCreateTakesOnlyAFreeName(t *testing.T) {
	x := newFixture(t)
	var won sync.Map
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			_, err := x.Write(t.Context(), "f", strings.NewReader(itoa(i)), skerry.WriteOptions{Create: true})
			if err == nil {
				won.Store(i, true)
			} else if skerry.KindOf(err) != skerry.Conflict {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	winners := 0
	won.Range(func(k, _ any) bool {
		winners++
		if got := x.read(t, "f"); got != fmt.Sprint(k) {
			t.Errorf("%v won, and the file holds %q", k, got)
		}
		return true
	})
	if winners != 1 {
		t.Errorf("%d won, want 1", winners)
	}
	if err := os.Symlink("nowhere", filepath.Join(x.workspace, "l")); err != nil {
		t.Fatal(err)
	}
	_, err := x.Write(t.Context(), "l", strings.NewReader(""), skerry.WriteOptions{Create: true})
	x.wantKind(t, "creating over a link", err, skerry.Conflict)
	x.noStage(t)
}

func TestModesDoNotDependOnTheUmask(t *testing.T) {
	x := newFixture(t)
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	x.write(t, "d/f", "")
	if err := x.Mkdir(t.Context(), "e/g"); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]uint32{"d/f": 0o644, "d": 0o755, "e": 0o755, "e/g": 0o755} {
		if fi, err := x.Stat(t.Context(), path); err != nil || fi.Mode != want {
			t.Errorf("%s has mode %o, %v; want %o", path, fi.Mode, err, want)
		}
	}
}

func TestWritingOverAFolderIsAConflict(t *testing.T) {
	x := newFixture(t)
	x.write(t, "d/f", "")
	for _, path := range []string{"d", x.workspace + "/d"} {
		_, err := x.Write(t.Context(), path, strings.NewReader(""), skerry.WriteOptions{})
		x.wantKind(t, "writing over a folder", err, skerry.Conflict)
		if skerry.HintOf(err) == "" {
			t.Errorf("%v has no hint", err)
		}
	}
	_, err := x.Write(t.Context(), "d/f/g", strings.NewReader(""), skerry.WriteOptions{})
	x.wantKind(t, "writing below a file", err, skerry.Invalid)
	x.wantKind(t, "a folder over a file", x.Mkdir(t.Context(), "d/f"), skerry.Conflict)
	if err := x.Mkdir(t.Context(), "d"); err != nil {
		t.Errorf("a folder that exists: %v", err)
	}
	if err := x.Mkdir(t.Context(), "."); err != nil {
		t.Errorf("the workspace itself: %v", err)
	}
	x.noStage(t)
}

func TestRangesAreBounded(t *testing.T) {
	x := newFixture(t)
	x.write(t, "f", "0123456789")
	for _, c := range []struct {
		offset, length int64
		want           string
		sum            bool
	}{
		{0, -1, "0123456789", true}, {0, 10, "0123456789", true}, {0, 99, "0123456789", true}, {0, 9, "012345678", false},
		{3, 4, "3456", false}, {8, -1, "89", false}, {10, -1, "", false}, {1 << 62, 1 << 62, "", false}, {0, 0, "", false},
		{1<<63 - 1, 1<<63 - 1, "", false},
	} {
		var b bytes.Buffer
		fi, err := x.Read(t.Context(), "f", c.offset, c.length, &b)
		if err != nil || b.String() != c.want || (fi.SHA256 != "") != c.sum || fi.Size != 10 {
			t.Errorf("[%d, %d] gave %q, %+v, %v", c.offset, c.length, b.String(), fi, err)
		}
	}
	_, err := x.Read(t.Context(), "f", -1, 1, io.Discard)
	x.wantKind(t, "a negative offset", err, skerry.Invalid)
	full := errors.New("the reader's disk is full")
	_, err = x.Read(t.Context(), "f", 0, -1, failingWriter{full})
	if !errors.Is(err, full) {
		t.Errorf("a broken destination gave %v", err)
	}
	x.write(t, "empty", "")
	if fi, err := x.Read(t.Context(), "empty", 0, -1, io.Discard); err != nil || fi.SHA256 != sumOf(nil) {
		t.Errorf("an empty file gave %+v, %v", fi, err)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func TestAFileThatGrowsIsReadToWhereItWas(t *testing.T) {
	x := newFixture(t)
	x.write(t, "log", strings.Repeat("x", 1000))
	grow := func() {
		f, err := os.OpenFile(filepath.Join(x.workspace, "log"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString("more"); err != nil {
			t.Fatal(err)
		}
	}
	w := &calling{fn: grow}
	fi, err := x.Read(t.Context(), "log", 0, -1, w)
	if err != nil || w.n != 1000 || fi.SHA256 != sumOf(bytes.Repeat([]byte("x"), 1000)) {
		t.Errorf("read %d bytes, %+v, %v", w.n, fi, err)
	}
}

type calling struct {
	fn func()
	n  int
}

func (c *calling) Write(p []byte) (int, error) {
	c.fn()
	c.n += len(p)
	return len(p), nil
}

// B137
func TestListShowsLinksAndNeverFollowsThem(t *testing.T) {
	x := newFixture(t)
	x.write(t, "d/v1/f", "text")
	for name, target := range map[string]string{"d/latest": "v1", "d/broken": "nowhere", "d/loop": ".", "d/up": ".."} {
		if err := os.Symlink(target, filepath.Join(x.workspace, name)); err != nil {
			t.Fatal(err)
		}
	}
	list, err := x.List(t.Context(), "d", skerry.ListOptions{Recursive: true})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, fi := range list {
		got = append(got, fmt.Sprintf("%s:%s:%d:%s", fi.Path, fi.Type, fi.Size, fi.Target))
	}
	want := "broken:symlink:0:nowhere latest:symlink:0:v1 loop:symlink:0:. up:symlink:0:.. v1:directory:0: v1/f:file:4:"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
	if list, err = x.List(t.Context(), "d/latest", skerry.ListOptions{}); err != nil || len(list) != 1 || list[0].Path != "f" {
		t.Errorf("a link to a folder lists %v, %v", list, err)
	}
	_, err = x.List(t.Context(), "d/v1/f", skerry.ListOptions{})
	x.wantKind(t, "listing a file", err, skerry.Invalid)
	_, err = x.List(t.Context(), "missing", skerry.ListOptions{})
	x.wantKind(t, "listing nothing", err, skerry.NotFound)
}

func TestListSaysWhenThereIsMoreThanItMayGive(t *testing.T) {
	x := newFixture(t)
	for i := range 5 {
		x.write(t, fmt.Sprintf("d/%d", i), "")
	}
	_, err := x.List(t.Context(), "d", skerry.ListOptions{Limit: 4})
	x.wantKind(t, "five entries with a limit of four", err, skerry.Busy)
	if skerry.HintOf(err) == "" {
		t.Errorf("%v has no hint", err)
	}
	if list, err := x.List(t.Context(), "d", skerry.ListOptions{Limit: 5}); err != nil || len(list) != 5 {
		t.Errorf("five entries with a limit of five gave %v, %v", list, err)
	}
	_, err = x.List(t.Context(), "d", skerry.ListOptions{Limit: maxListLimit + 1})
	x.wantKind(t, "a limit above the highest", err, skerry.Invalid)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = x.List(ctx, "d", skerry.ListOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled list gave %v", err)
	}
}

func TestRemove(t *testing.T) {
	x := newFixture(t)
	x.write(t, "d/e/f", "")
	x.write(t, "g", "")
	if err := os.Symlink(x.outside, filepath.Join(x.workspace, "d/out")); err != nil {
		t.Fatal(err)
	}
	x.wantKind(t, "a full folder", x.Remove(t.Context(), "d", false), skerry.Conflict)
	x.wantKind(t, "nothing", x.Remove(t.Context(), "missing", true), skerry.NotFound)
	for _, root := range []string{".", x.workspace, x.home, x.tmp + "/", "d/.."} {
		x.wantKind(t, "a root", x.Remove(t.Context(), root, true), skerry.Denied)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := x.Remove(ctx, "d", true); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled remove gave %v", err)
	}
	if err := os.Chmod(filepath.Join(x.workspace, "d/e"), 0); err != nil {
		t.Fatal(err)
	}
	if err := x.Remove(t.Context(), "d", true); err != nil {
		t.Error(err)
	}
	if err := x.Remove(t.Context(), "g", false); err != nil {
		t.Error(err)
	}
	if list, err := x.List(t.Context(), ".", skerry.ListOptions{}); err != nil || len(list) > 0 {
		t.Errorf("%v is left, %v", list, err)
	}
	if b, _ := os.ReadFile(filepath.Join(x.outside, "secret")); string(b) != "secret" {
		t.Error("remove followed a link")
	}
}

func TestMove(t *testing.T) {
	x := newFixture(t)
	x.write(t, "a", "A")
	x.write(t, "b", "B")
	x.write(t, "d/e/f", "F")
	x.write(t, "full/f", "")
	if err := x.Move(t.Context(), "a", "b"); err != nil || x.read(t, "b") != "A" {
		t.Errorf("replacing a file: %v", err)
	}
	_, err := x.Stat(t.Context(), "a")
	x.wantKind(t, "what was moved", err, skerry.NotFound)
	x.wantKind(t, "nothing", x.Move(t.Context(), "missing", "c"), skerry.NotFound)
	x.wantKind(t, "into itself", x.Move(t.Context(), "d", "d/e/d"), skerry.Invalid)
	x.wantKind(t, "a file over a folder", x.Move(t.Context(), "b", "d"), skerry.Conflict)
	x.wantKind(t, "a folder over a file", x.Move(t.Context(), "d", "b"), skerry.Conflict)
	x.wantKind(t, "a folder over a full one", x.Move(t.Context(), "d", "full"), skerry.Conflict)
	x.wantKind(t, "a root", x.Move(t.Context(), ".", "x"), skerry.Denied)
	x.wantKind(t, "onto a root", x.Move(t.Context(), "b", x.tmp), skerry.Denied)
	if err := x.Move(t.Context(), "d", x.home+"/d"); err != nil || x.read(t, x.home+"/d/e/f") != "F" {
		t.Errorf("to another root: %v", err)
	}
	if err := x.Move(t.Context(), "b", "b"); err != nil || x.read(t, "b") != "A" {
		t.Errorf("onto itself: %v", err)
	}
	if err := os.Link(filepath.Join(x.workspace, "b"), filepath.Join(x.workspace, "c")); err != nil {
		t.Fatal(err)
	}
	if err := x.Move(t.Context(), "b", "c"); err != nil || x.read(t, "c") != "A" {
		t.Errorf("onto another name of the file: %v", err)
	}
	_, err = x.Stat(t.Context(), "b")
	x.wantKind(t, "what was moved onto its other name", err, skerry.NotFound)
}

// A move between file systems, as the workspace and /tmp of a sandbox are.
func TestMoveAcrossFileSystems(t *testing.T) {
	shm, err := os.MkdirTemp("/dev/shm", "skerry-test-")
	if err != nil {
		t.Skip("no second file system")
	}
	t.Cleanup(func() { _ = os.RemoveAll(shm) })
	x := newFixture(t)
	across, err := New(x.workspace, x.home, shm)
	if err != nil {
		t.Fatal(err)
	}
	defer across.Close()
	x.FS = across
	x.write(t, "d/e/f", "F")
	if err := os.Chmod(filepath.Join(x.workspace, "d/e/f"), 0o711); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("e/f", filepath.Join(x.workspace, "d/l")); err != nil {
		t.Fatal(err)
	}
	before, err := x.Stat(t.Context(), "d/e/f")
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Move(t.Context(), "d", shm+"/d"); err != nil {
		t.Fatal(err)
	}
	after, err := x.Stat(t.Context(), shm+"/d/e/f")
	if err != nil || after.Mode != 0o711 || !after.Modified.Equal(before.Modified) || x.read(t, shm+"/d/l") != "F" {
		t.Errorf("before %+v, after %+v, %v", before, after, err)
	}
	_, err = x.Stat(t.Context(), "d")
	x.wantKind(t, "what was moved", err, skerry.NotFound)

	x.write(t, "g", "G")
	x.wantKind(t, "a file over a folder", x.Move(t.Context(), "g", shm+"/d"), skerry.Conflict)
	if err := unix.Mkfifo(filepath.Join(x.workspace, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	x.wantKind(t, "a FIFO", x.Move(t.Context(), "fifo", shm+"/fifo"), skerry.Invalid)
	if _, err := x.Stat(t.Context(), "fifo"); err != nil {
		t.Errorf("what could not be moved is gone: %v", err)
	}
	x.noStage(t)
	if left, _ := os.ReadDir(shm); len(left) != 1 {
		t.Errorf("%v is left", left)
	}
}

func TestAFullDiskIsBusyAndNamesItsLimit(t *testing.T) {
	err := failed("write file", "f", &root{limit: "the workspace limit"}, unix.ENOSPC)
	if skerry.KindOf(err) != skerry.Busy || !strings.Contains(skerry.HintOf(err), "workspace limit") {
		t.Errorf("%v (%s), hint %q", err, skerry.KindOf(err), skerry.HintOf(err))
	}
	for _, errno := range []error{unix.EDQUOT, unix.EFBIG, unix.EMFILE} {
		if err := failed("write file", "f", nil, errno); skerry.KindOf(err) != skerry.Busy || skerry.HintOf(err) == "" {
			t.Errorf("%v (%s), hint %q", err, skerry.KindOf(err), skerry.HintOf(err))
		}
	}
}

func TestNewSweepsWhatAKilledInitLeft(t *testing.T) {
	x := newFixture(t)
	mine := filepath.Join(x.workspace, stagePrefix+strings.Repeat("0", 2*stageRandom)+stageSuffix)
	if err := os.MkdirAll(filepath.Join(mine, "deep"), 0o700); err != nil {
		t.Fatal(err)
	}
	x.write(t, ".skerry-notes", "the user's own")
	again, err := New(x.workspace, x.home, x.tmp)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if _, err := os.Lstat(mine); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was staged is still there: %v", err)
	}
	if x.read(t, ".skerry-notes") != "the user's own" {
		t.Error("a file that is not ours was swept")
	}
	if _, err := New("relative", x.home, x.tmp); skerry.KindOf(err) != skerry.Invalid {
		t.Errorf("a relative folder gave %v", err)
	}
	if _, err := New(x.workspace+"/missing", x.home, x.tmp); skerry.KindOf(err) != skerry.NotFound {
		t.Errorf("a missing folder gave %v", err)
	}
}

func TestDeepTreesEndWithAWord(t *testing.T) {
	x := newFixture(t)
	d, err := x.openFolder(place{root: x.roots[0]})
	if err != nil {
		t.Fatal(err)
	}
	for range maxDepth + 10 {
		if err := d.mkdir("d", 0o755); err != nil {
			t.Fatal(err)
		}
		sub, err := d.openFolder("d")
		d.close()
		if err != nil {
			t.Fatal(err)
		}
		d = sub
	}
	d.close()
	_, err = x.List(t.Context(), ".", skerry.ListOptions{Recursive: true})
	x.wantKind(t, "listing a tree that is too deep", err, skerry.Busy)
	x.wantKind(t, "removing it", x.Remove(t.Context(), "d", true), skerry.Busy)
	var b bytes.Buffer
	if result, err := x.TarOut(t.Context(), ".", &b); err != nil || len(result.Skipped) == 0 {
		t.Errorf("packing it gave %v, %v", result, err)
	}
}

func TestWhatCanNotBeReadIsSaidOrPassedOver(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root reads everything")
	}
	x := newFixture(t)
	x.write(t, "open/f", "text")
	x.write(t, "shut/f", "text")
	x.write(t, "secret", "text")
	for _, name := range []string{"shut", "secret"} {
		if err := os.Chmod(filepath.Join(x.workspace, name), 0); err != nil {
			t.Fatal(err)
		}
	}
	_, err := x.Read(t.Context(), "secret", 0, -1, io.Discard)
	x.wantKind(t, "reading it", err, skerry.Denied)
	_, err = x.Stat(t.Context(), "shut/f")
	x.wantKind(t, "looking into it", err, skerry.Denied)
	_, err = x.List(t.Context(), ".", skerry.ListOptions{Recursive: true})
	x.wantKind(t, "listing all", err, skerry.Denied)
	if list, err := x.List(t.Context(), ".", skerry.ListOptions{}); err != nil || len(list) != 3 {
		t.Errorf("listing the folder itself gave %v, %v", list, err)
	}
	if found, err := x.Glob(t.Context(), ".", "**/f", 0); err != nil || len(found.Paths) != 1 {
		t.Errorf("glob gave %v, %v", found, err)
	}
	if found, err := x.Grep(t.Context(), skerry.GrepSpec{Pattern: "text"}); err != nil || len(found.Matches) != 1 {
		t.Errorf("grep gave %v, %v", found, err)
	}
	var b bytes.Buffer
	if result, err := x.TarOut(t.Context(), ".", &b); err != nil || len(result.Skipped) != 2 || result.Files != 1 {
		t.Errorf("packing gave %+v, %v", result, err)
	}
	_, err = x.TarIn(t.Context(), ".", bytes.NewReader(pack(t, file("good", ""), file("shut/new", ""))))
	x.wantKind(t, "unpacking into it", err, skerry.Denied)
	if _, err := x.Stat(t.Context(), "good"); skerry.KindOf(err) != skerry.NotFound {
		t.Errorf("a part was unpacked: %v", err)
	}
	if err := x.Remove(t.Context(), "shut", true); err != nil {
		t.Errorf("removing it: %v", err)
	}
	x.noStage(t)
}
