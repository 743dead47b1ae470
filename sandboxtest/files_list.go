package sandboxtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/skerry-run/skerry"
)

func testFilesList(t *testing.T, s *suite) {
	b := s.session(t)
	b.sh("mkdir -p l/sub/deep l/empty; echo 12345 > l/b; echo x > l/a; echo y > l/sub/deep/c; ln -s b l/link; ln -s nowhere l/broken; ln -s . l/loop; mkfifo l/fifo; chmod 640 l/a").want(0)

	t.Run("list gives a folder sorted by name", func(t *testing.T) { // B137
		b := b.on(t)
		infos, err := b.Files().List(b.ctx, "l", skerry.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := paths(infos), "a b broken empty fifo link loop sub"; got != want {
			t.Errorf("listed %q, want %q", got, want)
		}
		types := map[string]skerry.FileType{"a": skerry.RegularFile, "empty": skerry.Directory, "link": skerry.SymbolicLink, "broken": skerry.SymbolicLink, "fifo": skerry.OtherFile}
		for _, info := range infos {
			if want, ok := types[info.Path]; ok && info.Type != want {
				t.Errorf("%s is a %s, want %s", info.Path, info.Type, want)
			}
			switch info.Path {
			case "a":
				if info.Mode != 0o640 || info.Size != 2 {
					t.Errorf("a is %+v", info)
				}
			case "b":
				if info.Size != 6 || info.Modified.IsZero() {
					t.Errorf("b is %+v", info)
				}
			case "broken":
				if info.Target != "nowhere" {
					t.Errorf("broken points to %q", info.Target)
				}
			}
			if info.Type != skerry.RegularFile && info.Size != 0 {
				t.Errorf("%s is a %s with a size of %d", info.Path, info.Type, info.Size)
			}
		}
	})

	t.Run("list recursive gives everything below with relative paths", func(t *testing.T) {
		b := b.on(t)
		infos, err := b.Files().List(b.ctx, "/workspace/l", skerry.ListOptions{Recursive: true})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := paths(infos), "a b broken empty fifo link loop sub sub/deep sub/deep/c"; got != want {
			t.Errorf("listed %q, want %q", got, want)
		}
	})

	t.Run("list of an empty folder is empty", func(t *testing.T) {
		b := b.on(t)
		if infos, err := b.Files().List(b.ctx, "l/empty", skerry.ListOptions{}); err != nil || len(infos) != 0 {
			t.Errorf("%v, error %v", infos, err)
		}
	})

	t.Run("list above its limit is busy and says what to do", func(t *testing.T) {
		b := b.on(t)
		b.sh("mkdir crowd; touch crowd/$(seq -s ' crowd/' 20)").want(0)
		_, err := b.Files().List(b.ctx, "crowd", skerry.ListOptions{Limit: 10})
		wantKind(t, "list", err, skerry.Busy)
		if skerry.HintOf(err) == "" {
			t.Errorf("no hint in %v", err)
		}
		if infos, err := b.Files().List(b.ctx, "crowd", skerry.ListOptions{Limit: 20}); err != nil || len(infos) != 20 {
			t.Errorf("%d entries, error %v", len(infos), err)
		}
	})

	t.Run("list of what is not there is not found, of a file invalid", func(t *testing.T) {
		b := b.on(t)
		_, err := b.Files().List(b.ctx, "nowhere", skerry.ListOptions{})
		wantKind(t, "list", err, skerry.NotFound)
		_, err = b.Files().List(b.ctx, "l/a", skerry.ListOptions{})
		wantKind(t, "list of a file", err, skerry.Invalid, skerry.NotFound)
	})

	t.Run("list gives any legal name", func(t *testing.T) {
		b := b.on(t)
		var want []string
		for _, name := range oddNames {
			if !strings.Contains(name, "/") {
				b.write("odd-list/"+name, "")
				want = append(want, name)
			}
		}
		slices.Sort(want)
		infos, err := b.Files().List(b.ctx, "odd-list", skerry.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := names(infos); !slices.Equal(got, want) {
			t.Errorf("listed %q, want %q", got, want)
		}
	})

	t.Run("stat tells about the path itself", func(t *testing.T) {
		b := b.on(t)
		info, err := b.Files().Stat(b.ctx, "l/link")
		if err != nil || info.Type != skerry.SymbolicLink || info.Target != "b" || info.Path != "l/link" {
			t.Errorf("%+v, error %v", info, err)
		}
		info, err = b.Files().Stat(b.ctx, "l/b")
		if err != nil || info.Type != skerry.RegularFile || info.Size != 6 {
			t.Errorf("%+v, error %v", info, err)
		}
		for _, path := range []string{".", "/workspace", "/tmp", "/home/skerry"} {
			if info, err := b.Files().Stat(b.ctx, path); err != nil || info.Type != skerry.Directory {
				t.Errorf("%s: %+v, error %v", path, info, err)
			}
		}
		_, err = b.Files().Stat(b.ctx, "l/none")
		wantKind(t, "stat", err, skerry.NotFound)
	})

	t.Run("move renames, and replaces an existing file", func(t *testing.T) {
		b := b.on(t)
		b.write("m1", "one")
		b.write("m2", "two")
		if err := b.Files().Move(b.ctx, "m1", "m2"); err != nil {
			t.Fatal(err)
		}
		if got := b.read("m2"); got != "one" || b.hasFile("m1") {
			t.Errorf("m2 holds %q, m1 exists: %v", got, b.hasFile("m1"))
		}
		wantKind(t, "move of nothing", b.Files().Move(b.ctx, "m1", "m3"), skerry.NotFound)
	})

	t.Run("move crosses the sandbox's folders", func(t *testing.T) {
		b := b.on(t)
		b.write("/tmp/crossing", "text")
		if err := b.Files().Move(b.ctx, "/tmp/crossing", "crossed"); err != nil {
			t.Fatal(err)
		}
		if got := b.read("crossed"); got != "text" || b.hasFile("/tmp/crossing") {
			t.Errorf("it holds %q, the old exists: %v", got, b.hasFile("/tmp/crossing"))
		}
	})

	t.Run("remove deletes a file or an empty folder, or a tree when asked", func(t *testing.T) {
		b := b.on(t)
		b.sh("mkdir -p r/tree/sub r/empty; touch r/file r/tree/sub/f; ln -s /workspace/l r/tree/link; ln -s /workspace/l r/link").want(0)
		for _, path := range []string{"r/file", "r/empty", "r/link"} {
			if err := b.Files().Remove(b.ctx, path, false); err != nil || b.hasFile(path) {
				t.Errorf("remove %s: %v", path, err)
			}
		}
		if err := b.Files().Remove(b.ctx, "r/tree", false); err == nil || !b.hasFile("r/tree/sub/f") {
			t.Errorf("a full folder was removed: %v", err)
		}
		if err := b.Files().Remove(b.ctx, "r/tree", true); err != nil || b.hasFile("r/tree") {
			t.Errorf("remove of the tree: %v", err)
		}
		if !b.hasFile("l/a") {
			t.Error("a link in the tree was followed")
		}
		wantKind(t, "remove of nothing", b.Files().Remove(b.ctx, "r/none", false), skerry.NotFound)
	})

	t.Run("the workspace itself can't be removed or moved", func(t *testing.T) {
		b := b.on(t)
		for _, path := range []string{".", "/workspace", "/tmp", "/home/skerry"} {
			if err := b.Files().Remove(b.ctx, path, true); err == nil {
				t.Errorf("%s was removed", path)
			}
		}
		b.sh("test -d /workspace && test -d /tmp && test -d ~").want(0)
	})

	t.Run("mkdir makes a folder and its parents, and one that exists is no error", func(t *testing.T) {
		b := b.on(t)
		for range 2 {
			if err := b.Files().Mkdir(b.ctx, "k/l/m"); err != nil {
				t.Fatal(err)
			}
		}
		b.sh("test -d k/l/m").want(0)
		b.write("k/file", "")
		if err := b.Files().Mkdir(b.ctx, "k/file"); err == nil {
			t.Error("a file became a folder")
		}
	})
}

func names(infos []skerry.FileInfo) []string {
	var names []string
	for _, info := range infos {
		names = append(names, info.Path)
	}
	return names
}

func paths(infos []skerry.FileInfo) string { return strings.Join(names(infos), " ") }
