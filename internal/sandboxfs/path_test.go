//go:build linux

package sandboxfs

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry"
)

// B128
func TestPathsOutsideAreDenied(t *testing.T) {
	x := newFixture(t)
	for _, path := range []string{
		"/etc/passwd", "/", "..", "../ws-evil/secret", "a/../../ws-evil/secret", x.outside + "/secret",
		x.workspace + "/../ws-evil/secret", x.workspace + "-evil/secret", x.workspace + "x", "/..", filepath.Dir(x.workspace),
	} {
		_, err := x.Stat(t.Context(), path)
		x.wantKind(t, "stat of "+path, err, skerry.Denied)
		_, err = x.Write(t.Context(), path, strings.NewReader("x"), skerry.WriteOptions{})
		if k := skerry.KindOf(err); k != skerry.Denied && k != skerry.Invalid {
			t.Errorf("write to %s gave %v", path, err)
		}
		if err != nil && !strings.Contains(err.Error(), `"`) {
			t.Errorf("%v does not quote the path", err)
		}
		if k := skerry.KindOf(x.Remove(t.Context(), path, true)); k != skerry.Denied {
			t.Errorf("remove of %s gave %s", path, k)
		}
	}
	if b, err := os.ReadFile(filepath.Join(x.outside, "secret")); err != nil || string(b) != "secret" {
		t.Errorf("the file outside holds %q, %v", b, err)
	}
}

func TestPathsThatNameNothingAreInvalid(t *testing.T) {
	x := newFixture(t)
	for _, path := range []string{"", "a\x00b", "\x00"} {
		_, err := x.Stat(t.Context(), path)
		x.wantKind(t, "stat", err, skerry.Invalid)
	}
	_, err := x.Write(t.Context(), "folder/", strings.NewReader(""), skerry.WriteOptions{})
	x.wantKind(t, "writing to a name that ends in a slash", err, skerry.Invalid)
	_, err = x.Write(t.Context(), strings.Repeat("n", 256), strings.NewReader(""), skerry.WriteOptions{})
	x.wantKind(t, "a name of 256 bytes", err, skerry.Invalid)
}

// B128: what looks like an escape and is none.
func TestPathsInsideAreFoundHoweverTheyAreWritten(t *testing.T) {
	x := newFixture(t)
	x.write(t, "b", "text")
	x.write(t, "%2e%2e/x", "percent")
	x.write(t, "..c/...", "dots")
	for path, want := range map[string]string{
		"b": "text", "./b": "text", "a/./../b": "text", "a/../b": "text", "//b": "", x.workspace + "//./b": "text",
		x.tmp + "/../ws/b": "text", "%2e%2e/x": "percent", "..c/...": "dots",
	} {
		var b bytes.Buffer
		_, err := x.Read(t.Context(), path, 0, -1, &b)
		if want == "" {
			x.wantKind(t, "read of "+path, err, skerry.Denied)
		} else if err != nil || b.String() != want {
			t.Errorf("read of %s gave %q, %v", path, b.String(), err)
		}
	}
}

// B129, B131, B133, B134
func TestAnyLegalNameRoundTrips(t *testing.T) {
	x := newFixture(t)
	names := []string{
		"報告/図①😀.csv", "é", "e\u0301", "a\nb", strings.Repeat("n", 255), strings.Repeat("語", 85),
		"a b", "-rf", "--help", "$(id)", "'", `a"b.txt`, `end\`, "~x", "*", "?", "[a]", "{a,b}", ".hidden", "...", `..\x`,
		"\xff\xfe", "a\x01\x1b[31m", " ", "\t", "CON", "a/x.txt", "b/x.txt", "x; rm -rf " + "y",
	}
	for i, name := range names {
		x.write(t, name, name)
		if i%2 == 0 {
			x.write(t, name, name) // B132: the last one counts, and it stays usable
		}
	}
	list, err := x.List(t.Context(), ".", skerry.ListOptions{Recursive: true})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for i, fi := range list {
		seen[fi.Path] = true
		if i > 0 && list[i-1].Path >= fi.Path {
			t.Errorf("%q comes after %q", fi.Path, list[i-1].Path)
		}
	}
	for _, name := range names {
		if got := x.read(t, name); got != name {
			t.Errorf("%q holds %q", name, got)
		}
		if !seen[name] {
			t.Errorf("%q is not listed", name)
		}
		if fi, err := x.Stat(t.Context(), name); err != nil || fi.Path != name || fi.Size != int64(len(name)) {
			t.Errorf("stat of %q gave %+v, %v", name, fi, err)
		}
		if err := x.Move(t.Context(), name, "moved"); err != nil {
			t.Errorf("move %q: %v", name, err)
		}
		if err := x.Move(t.Context(), "moved", name); err != nil {
			t.Errorf("move back %q: %v", name, err)
		}
		if err := x.Remove(t.Context(), name, false); err != nil {
			t.Errorf("remove %q: %v", name, err)
		}
	}
}

func TestLinksAreFollowedOnlyInside(t *testing.T) {
	x := newFixture(t)
	x.write(t, "v1/data", "one")
	x.write(t, x.tmp+"/t", "temporary")
	links := map[string]string{
		"relative": "v1", "absolute": x.workspace + "/v1", "across": x.tmp, "up": "../tmp", "chain": "absolute",
		"out": x.outside, "outUp": "../ws-evil", "loop": "loop", "etc": "/etc", "nowhere": x.workspace + "/new/place",
	}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(x.workspace, name)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		"relative/data": "one", "absolute/data": "one", "chain/data": "one", "across/t": "temporary", "up/t": "temporary",
	} {
		if got := x.read(t, path); got != want {
			t.Errorf("%s holds %q, want %q", path, got, want)
		}
	}
	for _, path := range []string{"out/secret", "outUp/secret", "etc/passwd"} {
		_, err := x.Read(t.Context(), path, 0, -1, &bytes.Buffer{})
		x.wantKind(t, "read of "+path, err, skerry.Denied)
		_, err = x.Stat(t.Context(), path)
		x.wantKind(t, "stat of "+path, err, skerry.Denied)
		_, err = x.Write(t.Context(), path, strings.NewReader("x"), skerry.WriteOptions{})
		x.wantKind(t, "write to "+path, err, skerry.Denied)
		x.wantKind(t, "remove of "+path, x.Remove(t.Context(), path, true), skerry.Denied)
		x.wantKind(t, "move of "+path, x.Move(t.Context(), path, "got"), skerry.Denied)
		x.wantKind(t, "move to "+path, x.Move(t.Context(), "v1/data", path), skerry.Denied)
		x.wantKind(t, "mkdir of "+path, x.Mkdir(t.Context(), path+"/d"), skerry.Denied)
		_, err = x.TarIn(t.Context(), path, bytes.NewReader(nil))
		x.wantKind(t, "tar into "+path, err, skerry.Denied)
	}
	_, err := x.Read(t.Context(), "loop/x", 0, -1, &bytes.Buffer{})
	x.wantKind(t, "a loop", err, skerry.Invalid)
	_, err = x.Write(t.Context(), "loop", strings.NewReader("x"), skerry.WriteOptions{})
	x.wantKind(t, "writing through a loop", err, skerry.Invalid)

	// A file that is a link: read and written through when it ends inside.
	for name, target := range map[string]string{"f": "v1/data", "g": x.workspace + "/v1/data", "h": x.outside + "/secret", "i": "fresh"} {
		if err := os.Symlink(target, filepath.Join(x.workspace, name)); err != nil {
			t.Fatal(err)
		}
	}
	if got := x.read(t, "f") + x.read(t, "g"); got != "oneone" {
		t.Errorf("through links: %q", got)
	}
	_, err = x.Read(t.Context(), "h", 0, -1, &bytes.Buffer{})
	x.wantKind(t, "reading a link out", err, skerry.Denied)
	_, err = x.Write(t.Context(), "h", strings.NewReader("x"), skerry.WriteOptions{})
	x.wantKind(t, "writing a link out", err, skerry.Denied)
	x.write(t, "g", "two")
	x.write(t, "i", "three")
	if x.read(t, "v1/data") != "two" || x.read(t, "fresh") != "three" {
		t.Error("writing through a link did not change its target")
	}
	x.write(t, "nowhere/n", "four")
	if x.read(t, "new/place/n") != "four" {
		t.Error("a folder behind a link was not made")
	}
	if fi, err := x.Stat(t.Context(), "h"); err != nil || fi.Type != skerry.SymbolicLink || fi.Target != x.outside+"/secret" || fi.Size != 0 {
		t.Errorf("stat of a link gave %+v, %v", fi, err)
	}
	if b, _ := os.ReadFile(filepath.Join(x.outside, "secret")); string(b) != "secret" {
		t.Errorf("the file outside holds %q", b)
	}
	x.noStage(t)
}

// Threat 6: FIFOs and devices would block for ever.
func TestOnlyRegularFilesAreRead(t *testing.T) {
	x := newFixture(t)
	if err := unix.Mkfifo(filepath.Join(x.workspace, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := os.Chdir(x.workspace); err != nil { // a socket's path is short
		t.Fatal(err)
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: "socket"}); err != nil {
		t.Fatal(err)
	}
	paths := map[string]string{"fifo": "FIFO", "socket": "socket", ".": "folder"}
	if unix.Mknod(filepath.Join(x.workspace, "device"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))) == nil {
		paths["device"] = "device"
	}
	for path, word := range paths {
		_, err := x.Read(t.Context(), path, 0, -1, &bytes.Buffer{})
		x.wantKind(t, "read of "+path, err, skerry.Invalid)
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%v does not say that it is a %s", err, word)
		}
		if fi, err := x.Stat(t.Context(), path); err != nil || path != "." && fi.Type != skerry.OtherFile {
			t.Errorf("stat of %s gave %+v, %v", path, fi, err)
		}
	}
	if found, err := x.Grep(t.Context(), skerry.GrepSpec{Pattern: "x"}); err != nil || len(found.Matches) > 0 {
		t.Errorf("grep gave %v, %v", found, err)
	}
	x.write(t, "fifo", "a file takes its place")
	if fi, err := x.Stat(t.Context(), "fifo"); err != nil || fi.Type != skerry.RegularFile {
		t.Errorf("the file that took the FIFO's place: %+v, %v", fi, err)
	}
}

// A program of the sandbox swaps a folder for a link to the outside while we
// work below it.
func TestSwappedFoldersLeadNowhere(t *testing.T) {
	x := newFixture(t)
	x.write(t, "d/secret", "ours")
	at := filepath.Join(x.workspace, "d")
	before := tree(t, x.outside)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.Rename(at, at+"-real")
			_ = os.Symlink(x.outside, at)
			_ = os.Remove(at)
			_ = os.Rename(at+"-real", at)
		}
	}()
	archive := pack(t, file("secret", "changed"), file("e/new", "new"))
	for range 300 {
		ctx := t.Context()
		var b bytes.Buffer
		if _, err := x.Read(ctx, "d/secret", 0, -1, &b); err == nil && b.String() == "secret" {
			t.Fatal("read the file outside")
		}
		_, _ = x.Write(ctx, "d/secret", strings.NewReader("ours"), skerry.WriteOptions{})
		_, _ = x.Write(ctx, "d/new/f", strings.NewReader("ours"), skerry.WriteOptions{})
		_ = x.Remove(ctx, "d/new", true)
		_, _ = x.TarIn(ctx, "d", bytes.NewReader(archive))
		_ = x.Move(ctx, "d/secret", "taken")
		if b, err := os.ReadFile(filepath.Join(x.workspace, "taken")); err == nil && string(b) == "secret" {
			t.Fatal("moved the file outside in")
		}
		_ = x.Move(ctx, "taken", "d/secret")
		if found, err := x.Grep(ctx, skerry.GrepSpec{Pattern: "secret"}); err == nil && len(found.Matches) > 0 {
			t.Fatalf("searched the outside: %v", found.Matches)
		}
	}
	close(stop)
	<-stopped
	if after := tree(t, x.outside); after != before {
		t.Errorf("outside before %s, after %s", before, after)
	}
}

func FuzzResolve(f *testing.F) {
	for _, s := range []string{
		"a", "../x", "/etc/passwd", "a/../../b", "/tmp/../etc", "/box/ws", "/box/ws-evil", "/box/ws/..", ".", "//", "a//b/./c/",
		"/box/home/x", "\xff/\x00", "link/out", "/box/ws/link/x", "..", "/", "", "./..", "a/..",
	} {
		f.Add(s)
	}
	x := newFixture(f)
	base := filepath.Dir(x.workspace)
	for name, target := range map[string]string{"link": "..", "out": "/etc", "rel": "../ws-evil", "in": x.home, "loop": "loop/x"} {
		if err := os.Symlink(target, filepath.Join(x.workspace, name)); err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, path string) {
		path = strings.ReplaceAll(path, "/work", base)
		p, err := x.resolve("test", path)
		if err != nil {
			if k := skerry.KindOf(err); k != skerry.Denied && k != skerry.Invalid {
				t.Fatalf("%q gave %v", path, err)
			}
			return
		}
		for _, e := range p.elems {
			if e == "" || e == "." || e == ".." || strings.ContainsAny(e, "/\x00") {
				t.Fatalf("%q has the element %q", path, e)
			}
		}
		// The letters say inside; so must the file system, links and all.
		d, err := x.openFolder(p)
		if err != nil {
			return
		}
		defer d.close()
		real, err := os.Readlink("/proc/self/fd/" + itoa(d.fd))
		if err != nil {
			t.Fatal(err)
		}
		ok := false
		for _, root := range []string{x.workspace, x.home, x.tmp} {
			ok = ok || real == root || strings.HasPrefix(real, root+"/")
		}
		if !ok {
			t.Fatalf("%q opened %q", path, real)
		}
	})
}
