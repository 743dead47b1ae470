package sandboxtest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/skerry-run/skerry"
)

// oddNames are legal names that break careless code.
var oddNames = []string{
	"a b", "-rf", "--help", "$(id)", "'", "\"", "~x", "*", "a\nb", "end\\", "%2e%2e", "..\\x", "...", " ", "\u202e", // B131, B134
	"報告/図①😀.csv", "\u00e9", "e\u0301", // B133: NFC and NFD are two files
	"not\xffutf8", "a;rm -rf x", "#", "con", strings.Repeat("n", 255),
}

func testFilesReadWrite(t *testing.T, s *suite) {
	b := s.session(t)

	t.Run("write and read are exact", func(t *testing.T) {
		b := b.on(t)
		for _, size := range []int{0, 1, 4096, 65_536, 1_048_576, 3_000_001} {
			data := noise(size)
			sum := sha256.Sum256(data)
			info, err := b.Files().Write(b.ctx, "exact", bytes.NewReader(data), skerry.WriteOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if info.Path != "exact" || info.Type != skerry.RegularFile || info.Size != int64(size) || info.SHA256 != hex.EncodeToString(sum[:]) || info.Mode != 0o644 || info.Modified.IsZero() {
				t.Errorf("write of %d bytes gave %+v", size, info)
			}
			var w bytes.Buffer
			info, err = b.Files().Read(b.ctx, "exact", 0, -1, &w)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(w.Bytes(), data) || info.Size != int64(size) || info.SHA256 != hex.EncodeToString(sum[:]) {
				t.Errorf("read gave %d bytes and %+v, want %d", w.Len(), info, size)
			}
		}
	})

	t.Run("a file of 50 MB survives both ways", func(t *testing.T) { // B123
		b := b.on(t)
		data := noise(50_000_000)
		if _, err := b.Files().Write(b.ctx, "big", bytes.NewReader(data), skerry.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(data)
		b.do(argv("sha256sum", "big")).wantOut(hex.EncodeToString(sum[:]) + "  big\n")
		hash := sha256.New()
		if _, err := b.Files().Read(b.ctx, "big", 0, -1, hash); err != nil || !bytes.Equal(hash.Sum(nil), sum[:]) {
			t.Errorf("read back: error %v", err)
		}
		b.sh("rm big").want(0)
	})

	t.Run("programs see what was written, and the other way round", func(t *testing.T) { // B138
		b := b.on(t)
		for _, place := range []string{"seen", "/workspace/seen-2", "/tmp/seen", "/home/skerry/seen"} {
			b.write(place, "from outside\n")
			full := place
			if !strings.HasPrefix(place, "/") {
				full = "/workspace/" + place
			}
			b.do(argv("cat", full)).wantOut("from outside\n")
			b.do(argv("bash", "-c", `echo "from inside" > "$1"`, "x", full)).want(0)
			if got := b.read(place); got != "from inside\n" {
				t.Errorf("%s holds %q", place, got)
			}
		}
	})

	t.Run("read takes a range", func(t *testing.T) {
		b := b.on(t)
		b.write("range", "0123456789")
		for _, c := range []struct {
			offset, length int64
			want           string
		}{{0, 3, "012"}, {3, 4, "3456"}, {8, 10, "89"}, {10, 1, ""}, {100, 5, ""}, {4, -1, "456789"}, {0, 0, ""}} {
			var w bytes.Buffer
			if _, err := b.Files().Read(b.ctx, "range", c.offset, c.length, &w); err != nil || w.String() != c.want {
				t.Errorf("%d bytes from %d: %q, error %v, want %q", c.length, c.offset, w.String(), err, c.want)
			}
		}
		_, err := b.Files().Read(b.ctx, "range", -1, 1, io.Discard)
		wantKind(t, "a negative offset", err, skerry.Invalid)
	})

	t.Run("read of what is not there is not found, and only regular files are read", func(t *testing.T) {
		b := b.on(t)
		_, err := b.Files().Read(b.ctx, "nothing", 0, -1, io.Discard)
		wantKind(t, "read", err, skerry.NotFound)
		b.sh("mkdir a-folder; mkfifo a-fifo").want(0)
		for _, path := range []string{"a-folder", "a-fifo"} {
			_, err := b.Files().Read(b.ctx, path, 0, -1, io.Discard)
			wantKind(t, path, err, skerry.Invalid, skerry.Denied)
		}
	})

	t.Run("an error of the writer ends a read and is returned", func(t *testing.T) {
		b := b.on(t)
		b.write("read-error", strings.Repeat("x", 1_000_000))
		full := errors.New("full")
		if _, err := b.Files().Read(b.ctx, "read-error", 0, -1, failingWriter{full}); !errors.Is(err, full) {
			t.Errorf("error %v", err)
		}
	})

	t.Run("write makes parent folders and keeps paths apart", func(t *testing.T) { // B129, B132
		b := b.on(t)
		b.write("a/x.txt", "1")
		b.write("b/c/x.txt", "2")
		b.write("a/x.txt", "3")
		if got := b.read("a/x.txt") + b.read("b/c/x.txt"); got != "32" {
			t.Errorf("got %q", got)
		}
	})

	t.Run("write sets the mode", func(t *testing.T) {
		b := b.on(t)
		info, err := b.Files().Write(b.ctx, "tool", strings.NewReader("#!/bin/sh\necho ran\n"), skerry.WriteOptions{Mode: 0o750})
		if err != nil || info.Mode != 0o750 {
			t.Fatalf("info %+v, error %v", info, err)
		}
		b.sh("./tool; stat -c %a tool").wantOut("ran\n750\n")
	})

	t.Run("write with create refuses what exists", func(t *testing.T) {
		b := b.on(t)
		b.write("existing", "old")
		_, err := b.Files().Write(b.ctx, "existing", strings.NewReader("new"), skerry.WriteOptions{Create: true})
		wantKind(t, "write", err, skerry.Conflict)
		if got := b.read("existing"); got != "old" {
			t.Errorf("it holds %q", got)
		}
		if _, err := b.Files().Write(b.ctx, "not-existing", strings.NewReader("new"), skerry.WriteOptions{Create: true}); err != nil {
			t.Error(err)
		}
	})

	t.Run("write changes a file whole or not at all", func(t *testing.T) {
		b := b.on(t)
		b.write("atomic", "old")
		cut := errors.New("the source broke")
		_, err := b.Files().Write(b.ctx, "atomic", io.MultiReader(strings.NewReader(strings.Repeat("x", 3_000_000)), failingReader{cut}), skerry.WriteOptions{})
		if !errors.Is(err, cut) {
			t.Errorf("error %v", err)
		}
		if got := b.read("atomic"); got != "old" {
			t.Errorf("it holds %d bytes", len(got))
		}
		if _, err := b.Files().Write(b.ctx, "new-atomic", failingReader{cut}, skerry.WriteOptions{}); err == nil || b.hasFile("new-atomic") {
			t.Errorf("error %v, and the file exists: %v", err, b.hasFile("new-atomic"))
		}
		b.sh("ls -A | grep -v -x -e atomic | grep -i -e tmp -e partial -e '^\\.'; true").wantOut("")
	})

	t.Run("readers see the old or the new file, never a mixture", func(t *testing.T) {
		b := b.on(t)
		old, fresh := strings.Repeat("o", 2_000_000), strings.Repeat("n", 2_000_000)
		b.write("swap", old)
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := range 6 {
				text := fresh
				if i%2 == 1 {
					text = old
				}
				if _, err := b.Files().Write(b.ctx, "swap", strings.NewReader(text), skerry.WriteOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
		for range 10 {
			var w bytes.Buffer
			if _, err := b.Files().Read(b.ctx, "swap", 0, -1, &w); err != nil || w.String() != old && w.String() != fresh {
				t.Errorf("read %d bytes, error %v", w.Len(), err)
			}
		}
		wg.Wait()
	})

	t.Run("write replaces a link, and does not follow it", func(t *testing.T) {
		b := b.on(t)
		b.sh("echo target > link-target; ln -s link-target a-link").want(0)
		b.write("a-link", "new")
		if got := b.read("link-target"); got != "target\n" && got != "new" {
			t.Errorf("the link's target holds %q", got)
		}
		if got := b.read("a-link"); got != "new" {
			t.Errorf("the link's place holds %q", got)
		}
	})

	t.Run("any legal name round-trips", func(t *testing.T) { // B131, B133, B134
		b := b.on(t)
		for _, name := range oddNames {
			b.write("odd/"+name, name)
		}
		for _, name := range oddNames {
			if got := b.read("odd/" + name); got != name {
				t.Errorf("%q holds %q", name, got)
			}
			b.do(argv("cat", "--", "/workspace/odd/"+name)).wantOut(name)
		}
	})

	t.Run("several files stay for later commands", func(t *testing.T) { // B135
		b := b.on(t)
		for _, name := range []string{"many/1", "many/2", "many/3"} {
			b.write(name, name)
		}
		for range 3 {
			b.do(argv("ls", "/workspace/many")).wantOut("1\n2\n3\n")
		}
	})
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }

// noise gives bytes that compress badly and are the same every time.
func noise(n int) []byte {
	data := make([]byte, n)
	rand.NewChaCha8([32]byte{7}).Read(data)
	return data
}
