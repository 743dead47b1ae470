//go:build linux

package image

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func testBuilder(t *testing.T) *builder {
	return &builder{cache: t.TempDir(), log: &log{}}
}

// making gives a function that makes one image with that content, and counts.
func making(content string, count *atomic.Int32) func(string) ([]Image, error) {
	return func(work string) ([]Image, error) {
		count.Add(1)
		path := filepath.Join(work, "a.tar")
		if err := os.WriteFile(filepath.Join(work, "waste"), nil, 0o644); err != nil {
			return nil, err
		}
		return []Image{{Name: "skerry.test/a:1", Path: path, Digest: "sha256:a"}, {Name: "skerry.test/b:1", Path: path, Digest: "sha256:b"}},
			os.WriteFile(path, []byte(content), 0o644)
	}
}

func TestABuildIsKept(t *testing.T) {
	b := testBuilder(t)
	var count atomic.Int32
	first, err := b.ensure(t.Context(), "kind", "key", making("content", &count))
	if err != nil {
		t.Fatal(err)
	}
	again, err := b.ensure(t.Context(), "kind", "key", making("content", &count))
	if err != nil {
		t.Fatal(err)
	}
	if count.Load() != 1 || len(again) != 2 || first[0] != again[0] || first[1] != again[1] {
		t.Fatalf("built %d times: %v, then %v", count.Load(), first, again)
	}
	data, err := os.ReadFile(first[0].Path)
	if err != nil || string(data) != "content" {
		t.Fatalf("the archive holds %q, %v", data, err)
	}
	if entries, _ := os.ReadDir(filepath.Dir(first[0].Path)); len(entries) != 2 {
		t.Fatalf("beside the archive and the marker there is more: %v", entries)
	}
}

func TestHalfABuildIsNeverUsed(t *testing.T) {
	damages := map[string]func(t *testing.T, folder string){
		"without its marker": func(t *testing.T, folder string) {
			if err := os.Remove(filepath.Join(folder, marker)); err != nil {
				t.Fatal(err)
			}
		},
		"with half an archive": func(t *testing.T, folder string) {
			if err := os.Truncate(filepath.Join(folder, "a.tar"), 3); err != nil {
				t.Fatal(err)
			}
		},
		"without its archive": func(t *testing.T, folder string) {
			if err := os.Remove(filepath.Join(folder, "a.tar")); err != nil {
				t.Fatal(err)
			}
		},
		"with half a marker": func(t *testing.T, folder string) {
			if err := os.Truncate(filepath.Join(folder, marker), 5); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			b := testBuilder(t)
			var count atomic.Int32
			if _, err := b.ensure(t.Context(), "kind", "key", making("content", &count)); err != nil {
				t.Fatal(err)
			}
			damage(t, filepath.Join(b.cache, "kind-key"))
			images, err := b.ensure(t.Context(), "kind", "key", making("content", &count))
			if err != nil || count.Load() != 2 {
				t.Fatalf("built %d times, want it built again: %v", count.Load(), err)
			}
			if data, err := os.ReadFile(images[0].Path); err != nil || string(data) != "content" {
				t.Fatalf("the archive holds %q, %v", data, err)
			}
		})
	}
}

func TestABuildThatFailsLeavesNothing(t *testing.T) {
	b := testBuilder(t)
	failure := errors.New("no network")
	_, err := b.ensure(t.Context(), "kind", "key", func(work string) ([]Image, error) {
		return nil, errors.Join(failure, os.WriteFile(filepath.Join(work, "a.tar"), nil, 0o644))
	})
	if !errors.Is(err, failure) {
		t.Fatalf("got %v, want %v", err, failure)
	}
	// What died in the middle could not clean up; the next build does.
	if err := os.Mkdir(filepath.Join(b.cache, "kind-key"+building+"123"), 0o755); err != nil {
		t.Fatal(err)
	}
	var count atomic.Int32
	if _, err := b.ensure(t.Context(), "kind", "key", making("content", &count)); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(b.cache)
	if err != nil || len(entries) != 2 {
		t.Fatalf("want the build and its lock, got %v, %v", entries, err)
	}
}

func TestTwoThatWantTheSameBuildItOnce(t *testing.T) {
	b := testBuilder(t)
	var count atomic.Int32
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			if _, err := b.ensure(t.Context(), "kind", "key", making("content", &count)); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if count.Load() != 1 {
		t.Fatalf("built %d times, want once", count.Load())
	}
}

func TestTheWaitForAnotherEndsWithItsContext(t *testing.T) {
	b := testBuilder(t)
	unlock, err := lock(t.Context(), filepath.Join(b.cache, "kind.lock"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	var count atomic.Int32
	if _, err := b.ensure(ctx, "kind", "key", making("content", &count)); !errors.Is(err, enough) || count.Load() != 0 {
		t.Fatalf("got %v and %d builds, want %v and none", err, count.Load(), enough)
	}
}

func TestOldBuildsGo(t *testing.T) {
	b := testBuilder(t)
	var count atomic.Int32
	for _, key := range []string{"old", "recent"} {
		if _, err := b.ensure(t.Context(), "kind", key, making(key, &count)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.ensure(t.Context(), "kindred", "old", making("old", &count)); err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-2 * keptFor)
	for _, folder := range []string{"kind-old", "kindred-old"} {
		if err := os.Chtimes(filepath.Join(b.cache, folder, marker), long, long); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.ensure(t.Context(), "kind", "new", making("new", &count)); err != nil {
		t.Fatal(err)
	}
	for folder, want := range map[string]bool{"kind-old": false, "kind-recent": true, "kind-new": true, "kindred-old": true} {
		if _, err := os.Stat(filepath.Join(b.cache, folder)); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", folder, err == nil, want)
		}
	}
}

func TestACacheInsideOfTheCheckoutIsRefused(t *testing.T) {
	root, err := checkout("")
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(root, link); err != nil {
		t.Fatal(err)
	}
	for _, cache := range []string{root, filepath.Join(root, "cache"), filepath.Join(link, "new", "cache")} {
		if got, err := cacheFolder(cache, root); err == nil {
			t.Errorf("%s is a cache at %s, want it refused", cache, got)
		}
	}
}
