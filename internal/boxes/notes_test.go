//go:build linux

package boxes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skerry-run/skerry"
)

func TestANoteIsKeptUntilItsTime(t *testing.T) {
	d := newDirs(t)
	code := 3
	ref := skerry.Ref{Kind: skerry.RunKind, Name: "r"}
	now := time.Now()
	note := Note{Ref: ref, Ended: now, Until: now.Add(time.Hour), Reason: EndedTTL, Digest: "d", Exit: &skerry.Exit{Outcome: skerry.Exited, ExitCode: &code}}
	if err := d.Remember(ref.Key(), note); err != nil {
		t.Fatal(err)
	}
	got, ok := d.Recall(ref.Key())
	if !ok || got.Ref != ref || got.Digest != "d" || got.Exit == nil || got.Exit.ExitCode == nil || *got.Exit.ExitCode != 3 {
		t.Errorf("recalled %+v, %v", got, ok)
	}
	note.Until = now.Add(-time.Second)
	if err := d.Remember(ref.Key(), note); err != nil {
		t.Fatal(err)
	}
	if got, ok := d.Recall(ref.Key()); ok {
		t.Errorf("recalled %+v after its time", got)
	}
	for range 2 { // what is forgotten already is no error
		if err := d.Forget(ref.Key()); err != nil {
			t.Error(err)
		}
	}
}

func TestPruningForgetsWhatIsOver(t *testing.T) {
	d := newDirs(t)
	now := time.Now()
	keys := map[string]time.Duration{}
	for name, left := range map[string]time.Duration{"over": -time.Minute, "long over": -time.Hour, "kept": time.Hour} {
		ref := skerry.Ref{Kind: skerry.RunKind, Name: name}
		keys[ref.Key()] = left
		if err := d.Remember(ref.Key(), Note{Ref: ref, Ended: now, Until: now.Add(left)}); err != nil {
			t.Fatal(err)
		}
	}
	stale, fresh := filepath.Join(d.ended(), "a.json.1.tmp"), filepath.Join(d.ended(), "b.json.1.tmp")
	for _, f := range []string{stale, fresh} {
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old := now.Add(-2 * staleTemporary)
	if err := os.Chtimes(stale, old, old); err != nil {
		t.Fatal(err)
	}
	if err := d.prune(); err != nil {
		t.Fatal(err)
	}
	for key, left := range keys {
		_, err := os.Lstat(filepath.Join(d.ended(), key+".json"))
		if there := err == nil; there != (left > 0) {
			t.Errorf("a note with %v left is there: %v", left, there)
		}
	}
	if _, err := os.Lstat(stale); err == nil {
		t.Error("a temporary file that its writer gave up is still there")
	}
	if _, err := os.Lstat(fresh); err != nil {
		t.Error("a file that is being written was removed")
	}
}

func TestANoteThatIsBrokenIsNone(t *testing.T) {
	d := newDirs(t)
	key := skerry.Ref{Kind: skerry.RunKind, Name: "x"}.Key()
	for _, text := range []string{"", "{", "[]", `{"until":"` + strings.Repeat("9", maxRecord) + `"}`} {
		if err := os.WriteFile(filepath.Join(d.ended(), key+".json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if n, ok := d.Recall(key); ok {
			t.Errorf("%.20q was recalled as %+v", text, n)
		}
	}
}

func TestEveryEndHasWords(t *testing.T) {
	seen := map[string]string{}
	for _, reason := range []string{EndedTTL, EndedIdle, EndedShutdown, EndedOwner, EndedOOM, EndedLost} {
		words := Note{Reason: reason, Ended: time.Unix(0, 0)}.Words()
		if other, ok := seen[words]; ok || !strings.Contains(words, "1970-01-01T00:00:00Z") {
			t.Errorf("%s: %q (also of %q)", reason, words, other)
		}
		seen[words] = reason
	}
}
