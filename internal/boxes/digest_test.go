//go:build linux

package boxes

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestADigestIsKeyedAndStable(t *testing.T) {
	const secret = "secret"
	d, other := newDirs(t), newDirs(t)
	keyed := func(d Dirs, text string) string {
		t.Helper()
		got, err := d.KeyedDigest(text)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first := keyed(d, secret)
	if first == "" || strings.Contains(first, secret) {
		t.Errorf("digest %q", first)
	}
	if again := keyed(d, secret); again != first {
		t.Errorf("%q, then %q for the same text", first, again)
	}
	if keyed(d, secret+"x") == first {
		t.Error("two texts have one digest")
	}
	if keyed(other, secret) == first {
		t.Error("two installations have one digest: it can be guessed without the key")
	}
	if got := keyed(d, ""); got != "" {
		t.Errorf("digest of nothing is %q", got)
	}
	if fi, err := os.Stat(filepath.Join(d.State, digestKeyName)); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("the key's file: %v, error %v", fi, err)
	}
}

func TestOfManyFirstUsesOneKeyHolds(t *testing.T) {
	d := newDirs(t)
	var got [8]string
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() {
			var err error
			if got[i], err = d.KeyedDigest("text"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, g := range got {
		if g != got[0] {
			t.Fatalf("digests differ: %q", got)
		}
	}
}

func TestABrokenKeyIsTold(t *testing.T) {
	d := newDirs(t)
	path := filepath.Join(d.State, digestKeyName)
	if err := os.WriteFile(path, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := d.KeyedDigest("text"); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("digest %q, error %v; want one that names the file", got, err)
	}
}
