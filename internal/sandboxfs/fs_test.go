//go:build linux

package sandboxfs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skerry-run/skerry"
)

// fixture is a sandbox's folders beside a folder that nothing may reach.
type fixture struct {
	*FS
	workspace, home, tmp, outside string
}

func newFixture(t testing.TB) fixture {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	x := fixture{
		workspace: filepath.Join(base, "ws"), home: filepath.Join(base, "home"),
		tmp: filepath.Join(base, "tmp"), outside: filepath.Join(base, "ws-evil"),
	}
	for _, d := range []string{x.workspace, x.home, x.tmp, x.outside} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(x.outside, "secret"), []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	if x.FS, err = New(x.workspace, x.home, x.tmp); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = x.Close()
		makeRemovable(base)
	})
	return x
}

// makeRemovable gives folders back the rights that a test took from them.
func makeRemovable(root string) {
	_ = filepath.WalkDir(root, func(path string, e os.DirEntry, _ error) error {
		if e != nil && e.IsDir() {
			_ = os.Chmod(path, 0o755)
		}
		return nil
	})
}

func (x fixture) write(t testing.TB, path, text string) {
	t.Helper()
	if _, err := x.Write(t.Context(), path, strings.NewReader(text), skerry.WriteOptions{}); err != nil {
		t.Fatalf("write %q: %v", path, err)
	}
}

func (x fixture) read(t testing.TB, path string) string {
	t.Helper()
	var b bytes.Buffer
	if _, err := x.Read(t.Context(), path, 0, -1, &b); err != nil {
		t.Fatalf("read %q: %v", path, err)
	}
	return b.String()
}

func (x fixture) wantKind(t testing.TB, what string, err error, want skerry.Kind) {
	t.Helper()
	if got := skerry.KindOf(err); got != want {
		t.Errorf("%s gave %v (%s), want %s", what, err, got, want)
	}
}

// noStage fails when something half-written is left anywhere.
func (x fixture) noStage(t testing.TB) {
	t.Helper()
	for _, d := range []string{x.workspace, x.home, x.tmp} {
		_ = filepath.WalkDir(d, func(p string, _ os.DirEntry, _ error) error {
			if strings.HasPrefix(filepath.Base(p), stagePrefix) {
				t.Errorf("%s was left behind", p)
			}
			return nil
		})
	}
	if len(x.staged) > 0 {
		t.Errorf("%d names are still staged", len(x.staged))
	}
}

func sumOf(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

func TestAFileIsReadBackAsItWasWritten(t *testing.T) {
	x := newFixture(t)
	data := bytes.Repeat([]byte("0123456789"), 100_000)
	wrote, err := x.Write(t.Context(), "a/b/c.bin", bytes.NewReader(data), skerry.WriteOptions{Mode: 0o4751})
	if err != nil {
		t.Fatal(err)
	}
	if wrote.Size != int64(len(data)) || wrote.SHA256 != sumOf(data) || wrote.Mode != 0o751 || wrote.Path != "a/b/c.bin" {
		t.Errorf("write gave %+v", wrote)
	}
	var b bytes.Buffer
	got, err := x.Read(t.Context(), x.workspace+"/a/b/c.bin", 0, -1, &b)
	if err != nil || !bytes.Equal(b.Bytes(), data) || got.SHA256 != sumOf(data) {
		t.Errorf("read %d bytes, %+v, %v", b.Len(), got, err)
	}
	b.Reset()
	if got, err = x.Read(t.Context(), "a/b/c.bin", 999_995, 100, &b); err != nil || b.String() != "56789" || got.SHA256 != "" {
		t.Errorf("the range past the end gave %q, %+v, %v", b.String(), got, err)
	}
	st, err := x.Stat(t.Context(), "a/b/c.bin")
	if err != nil || st.Size != int64(len(data)) || st.Type != skerry.RegularFile {
		t.Errorf("stat gave %+v, %v", st, err)
	}
	x.noStage(t)
}
