//go:build linux

package parts

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// childSource makes the test binary build the small part and exit: a process of
// its own that can be killed. Its value is the source folder and the cache,
// with a colon between.
const childSource = "SKERRY_PARTS_TEST_CHILD"

func TestMain(m *testing.M) {
	if source, cache, ok := strings.Cut(os.Getenv(childSource), ":"); ok {
		b, err := testBuilder(context.Background(), source, cache, os.Stderr)
		if err == nil {
			_, err = b.build(context.Background(), []part{small})
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var small = part{
	name:     "small",
	binaries: []binary{{name: "small", pkg: ".", aliases: []string{"little", "tiny"}}},
	ldflags:  "-X main.version=v1",
}

func testBuilder(ctx context.Context, source, cache string, log io.Writer) (*builder, error) {
	tool, err := findGo(ctx)
	if err != nil {
		return nil, err
	}
	return &builder{source: source, cache: cache, tool: tool, progress: newProgress(log)}, nil
}

// A part that names another begins when that one is finished, though there is
// room for both; one that follows a part which fails is not built at all.
func TestPartsFollowEachOther(t *testing.T) {
	b := newBench(t)
	count := filepath.Join(t.TempDir(), "builds")
	b.wrapGo("echo \"begin $(basename \"$PWD\")\" >>'" + count + "'\n\"$real\" \"$@\"; status=$?\necho \"end $(basename \"$PWD\")\" >>'" + count + "'\nexit $status\n")
	second := small
	second.name, second.after = "second", "small"
	if err := os.CopyFS(filepath.Join(b.source, "second"), os.DirFS(filepath.Join(b.source, "small"))); err != nil {
		t.Fatal(err)
	}
	run := func() (string, error) {
		builder, err := testBuilder(t.Context(), b.source, b.cache, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, buildErr := builder.build(t.Context(), []part{small, second})
		did, err := os.ReadFile(count)
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(strings.TrimSpace(string(did)), "\n", ", "), buildErr
	}
	did, err := run()
	if want := "begin small, end small, begin second, end second"; did != want || err != nil {
		t.Errorf("built: %s, %v; want %s", did, err, want)
	}

	if err := os.WriteFile(filepath.Join(b.source, "small", "broken.go"), []byte("package main\n\nvar x int = \"no\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(b.cache); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(count); err != nil {
		t.Fatal(err)
	}
	did, err = run()
	if want := "begin small, end small"; did != want || err == nil {
		t.Errorf("with the first broken: %s, %v; want %s and an error", did, err, want)
	}
}

// A bench is a source folder with a copy of the small part, and a cache.
type bench struct {
	t             *testing.T
	source, cache string
}

func newBench(t *testing.T) bench {
	t.Helper()
	b := bench{t: t, source: filepath.Join(t.TempDir(), "src"), cache: filepath.Join(t.TempDir(), "parts")}
	if err := os.CopyFS(b.source, os.DirFS("testdata/src")); err != nil {
		t.Fatal(err)
	}
	return b
}

// build builds part and returns its folder and whether anything was compiled.
func (b bench) build(p part, verify bool) (folder string, built bool) {
	b.t.Helper()
	var log bytes.Buffer
	builder, err := testBuilder(b.t.Context(), b.source, b.cache, &log)
	if err != nil {
		b.t.Fatal(err)
	}
	builder.verify = verify
	set, err := builder.build(b.t.Context(), []part{p})
	if err != nil {
		b.t.Fatalf("build %s: %v", p.name, err)
	}
	return filepath.Dir(set.Path(p.binaries[0].name)), strings.Contains(log.String(), ": built in ")
}

// A wrapped go command does all that the real one does, and what the script
// says around a build. It is there to stop a build at a known moment.
func (b bench) wrapGo(script string) {
	b.t.Helper()
	real, err := exec.LookPath("go")
	if err != nil {
		b.t.Fatal(err)
	}
	dir := b.t.TempDir()
	text := "#!/bin/sh\nif [ \"$1\" != build ]; then exec '" + real + "' \"$@\"; fi\nreal='" + real + "'\n" + script
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte(text), 0o755); err != nil {
		b.t.Fatal(err)
	}
	b.t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func mkfifo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestBuildOnceAndRun(t *testing.T) {
	b := newBench(t)
	folder, built := b.build(small, false)
	if !built {
		t.Error("the first build compiled nothing")
	}
	for _, name := range []string{"small", "little", "tiny"} {
		out, err := exec.Command(filepath.Join(folder, name)).Output()
		if err != nil {
			t.Fatalf("run %s: %v", name, err)
		}
		if got := strings.TrimSpace(string(out)); !strings.HasSuffix(got, "/"+name+" v1") {
			t.Errorf("%s says %q, want its own name and v1", name, got)
		}
	}
	again, built := b.build(small, true)
	if built || again != folder {
		t.Errorf("the second build: compiled %v, in %s; want the first one's %s", built, again, folder)
	}
	if left := unfinished(t, b.cache); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestKeyChangesWithEveryInput(t *testing.T) {
	b := newBench(t)
	builder, err := testBuilder(t.Context(), b.source, b.cache, nil)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	check := func(what string, p part) {
		t.Helper()
		key, err := builder.key(p)
		if err != nil {
			t.Fatal(err)
		}
		if before, ok := seen[key]; ok {
			t.Errorf("the key after %q is that after %q", what, before)
		}
		seen[key] = what
	}
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(b.source, "small", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, err := file.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}

	check("nothing", small)
	write("main.go", "// more\n")
	check("a line in main.go", small)
	write("go.mod", "// more\n")
	check("a line in go.mod", small)
	write("go.sum", "")
	check("a go.sum", small)
	write("sub/main.go", "package main\n")
	check("a file in a folder", small)

	other := small
	other.ldflags = "-X main.version=v2"
	check("other flags", other)
	other = small
	other.binaries = []binary{{name: "small", pkg: "./sub", aliases: small.binaries[0].aliases}}
	check("another package", other)
	other.binaries = []binary{{name: "small", pkg: ".", aliases: []string{"little"}}}
	check("fewer aliases", other)
	builder.tool.version = "go1.27.0"
	check("another Go", small)

	builder, err = testBuilder(t.Context(), b.source, b.cache, nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := builder.key(small)
	if err != nil {
		t.Fatal(err)
	}
	if seen[key] != "a file in a folder" {
		t.Errorf("the key of the same input is that of %q", seen[key])
	}
}

func TestChangeBuildsAgainAndLeavesTheOld(t *testing.T) {
	b := newBench(t)
	first, _ := b.build(small, false)
	changed := small
	changed.ldflags = "-X main.version=v2"
	second, built := b.build(changed, false)
	if !built || second == first {
		t.Fatalf("after a change: compiled %v in %s, the first is %s", built, second, first)
	}
	for folder, want := range map[string]string{first: "v1", second: "v2"} {
		out, err := exec.Command(filepath.Join(folder, "small")).Output()
		if err != nil || !strings.HasSuffix(strings.TrimSpace(string(out)), want) {
			t.Errorf("%s/small: %q, %v; want %s", folder, out, err, want)
		}
	}
	if back, built := b.build(small, true); built || back != first {
		t.Errorf("back to the first: compiled %v in %s, want %s as it was", built, back, first)
	}
}

// A builder that is killed in the middle leaves no compiler running and nothing
// that is taken for a build.
func TestKilledBuilderLeavesNothingToUse(t *testing.T) {
	b := newBench(t)
	fifo := mkfifo(t)
	path := os.Getenv("PATH")
	// The binary is there, the marker is not.
	b.wrapGo("\"$real\" \"$@\" || exit\nexec 3>'" + fifo + "'\necho built >&3\nexec sleep 1000\n")

	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childSource+"="+b.source+":"+b.cache)
	child.Stderr = os.Stderr
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	reached, err := os.Open(fifo)
	if err != nil {
		t.Fatal(err)
	}
	defer reached.Close()
	line, err := bufio.NewReader(reached).ReadString('\n')
	if err != nil || line != "built\n" {
		t.Fatalf("wait for the compiler: %q, %v", line, err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	child.Wait()
	// The end of the file is the end of the last process that could write.
	if _, err := io.ReadAll(reached); err != nil {
		t.Fatal(err)
	}

	left := unfinished(t, b.cache)
	if len(left) != 1 {
		t.Fatalf("unfinished after the kill: %v, want one", left)
	}
	if _, err := os.Stat(filepath.Join(left[0], "small")); err != nil {
		t.Fatalf("the kill was not in the middle: %v", err)
	}
	t.Setenv("PATH", path)
	builder, err := testBuilder(t.Context(), b.source, b.cache, nil)
	if err != nil {
		t.Fatal(err)
	}
	if missing, err := builder.missing([]part{small}); err != nil || len(missing) != 1 {
		t.Errorf("missing after the kill: %v, %v; want small", missing, err)
	}
	if _, built := b.build(small, true); !built {
		t.Error("the half-built part was used")
	}
	if left := unfinished(t, b.cache); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// When the caller gives up, the compiler ends and the cache stays as it was.
func TestCancelStopsTheCompiler(t *testing.T) {
	b := newBench(t)
	fifo := mkfifo(t)
	b.wrapGo("exec 3>'" + fifo + "'\necho began >&3\nsleep 1000\n")
	builder, err := testBuilder(t.Context(), b.source, b.cache, nil)
	if err != nil {
		t.Fatal(err)
	}
	gaveUp := errors.New("the caller gave up")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := builder.build(ctx, []part{small})
		done <- err
	}()
	reached, err := os.Open(fifo)
	if err != nil {
		t.Fatal(err)
	}
	defer reached.Close()
	if _, err := bufio.NewReader(reached).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	cancel(gaveUp)
	if err := <-done; !errors.Is(err, gaveUp) {
		t.Errorf("build: %v, want the cause", err)
	}
	if _, err := io.ReadAll(reached); err != nil {
		t.Fatal(err)
	}
	if left := unfinished(t, b.cache); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestTwoAtOnceBuildOnce(t *testing.T) {
	b := newBench(t)
	fifo := mkfifo(t)
	count := filepath.Join(t.TempDir(), "builds")
	// The compiler begins when the test says so: when the other one waits.
	b.wrapGo("echo build >>'" + count + "'\nread go <'" + fifo + "'\nexec \"$real\" \"$@\"\n")

	waits := newWatch("another process is building it")
	var wait sync.WaitGroup
	folders, errs := make([]string, 2), make([]error, 2)
	for i := range 2 {
		wait.Go(func() {
			builder, err := testBuilder(t.Context(), b.source, b.cache, waits)
			if err != nil {
				errs[i] = err
				return
			}
			set, err := builder.build(t.Context(), []part{small})
			if errs[i] = err; err == nil {
				folders[i] = set.Path("tiny")
			}
		})
	}
	<-waits.seen
	gate, err := os.OpenFile(fifo, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(gate, "go")
	gate.Close()
	wait.Wait()

	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if folders[0] != folders[1] {
		t.Errorf("two builds at once: %s and %s", folders[0], folders[1])
	}
	built, err := os.ReadFile(count)
	if err != nil {
		t.Fatal(err)
	}
	if string(built) != "build\n" {
		t.Errorf("two builders built %d times, want once", strings.Count(string(built), "\n"))
	}
}

func TestDamageIsNoticedAndBuiltAgain(t *testing.T) {
	damage := map[string]struct {
		do     func(folder string) error
		verify bool // only a checksum can tell
	}{
		"a bit flipped": {func(folder string) error {
			file, err := os.OpenFile(filepath.Join(folder, "small"), os.O_RDWR, 0)
			if err != nil {
				return err
			}
			defer file.Close()
			b := make([]byte, 1)
			if _, err := file.ReadAt(b, 100_000); err != nil {
				return err
			}
			b[0] ^= 1
			_, err = file.WriteAt(b, 100_000)
			return err
		}, true},
		"cut short":      {func(folder string) error { return os.Truncate(filepath.Join(folder, "small"), 1000) }, false},
		"not executable": {func(folder string) error { return os.Chmod(filepath.Join(folder, "small"), 0o644) }, false},
		"gone":           {func(folder string) error { return os.Remove(filepath.Join(folder, "small")) }, false},
		"an alias gone":  {func(folder string) error { return os.Remove(filepath.Join(folder, "tiny")) }, false},
		"no marker":      {func(folder string) error { return os.Remove(filepath.Join(folder, marker)) }, false},
		"empty marker":   {func(folder string) error { return os.Truncate(filepath.Join(folder, marker), 0) }, false},
		"marker of nothing": {func(folder string) error {
			return os.WriteFile(filepath.Join(folder, marker), []byte("{}"), 0o644)
		}, false},
	}
	b := newBench(t)
	folder, _ := b.build(small, false)
	for name, d := range damage {
		t.Run(name, func(t *testing.T) {
			b := bench{t, b.source, b.cache}
			if err := d.do(folder); err != nil {
				t.Fatal(err)
			}
			if d.verify {
				if _, built := b.build(small, false); built {
					t.Error("built again without being asked to read the binary: the test damages too much")
				}
			}
			if _, built := b.build(small, d.verify); !built {
				t.Error("the damage was not noticed")
			}
			if _, built := b.build(small, true); built {
				t.Error("the new build is taken for damaged")
			}
			if err := exec.Command(filepath.Join(folder, "tiny")).Run(); err != nil {
				t.Errorf("run what was built again: %v", err)
			}
		})
	}
}

func TestCacheThatCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	// /proc refuses new files even to root.
	for _, cache := range []string{filepath.Join(file, "cache"), "/proc/skerry", "/proc/self/task"} {
		b := newBench(t)
		builder, err := testBuilder(t.Context(), b.source, cache, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = builder.build(t.Context(), []part{small})
		if err == nil || !strings.Contains(err.Error(), "SKERRY_CLUSTER_CACHE") || !strings.Contains(err.Error(), cache) {
			t.Errorf("cache %s: %v, want an error that names it and what to set", cache, err)
		}
	}
}

func TestSourceThatDoesNotCompile(t *testing.T) {
	b := newBench(t)
	if err := os.WriteFile(filepath.Join(b.source, "small", "broken.go"), []byte("package main\n\nvar x int = \"no\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	builder, err := testBuilder(t.Context(), b.source, b.cache, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = builder.build(t.Context(), []part{small})
	if err == nil || !strings.Contains(err.Error(), "part small: build small") || !strings.Contains(err.Error(), "broken.go:3") {
		t.Errorf("build: %v, want the part, the binary and the compiler's words", err)
	}
	if left := unfinished(t, b.cache); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// With nothing fetched before and a module proxy that nobody serves, the error
// names the module and the setting.
func TestProxyThatCannotBeReached(t *testing.T) {
	t.Setenv("GOPROXY", "http://127.0.0.1:1")
	t.Setenv("GOMODCACHE", t.TempDir())
	source, err := findSource()
	if err != nil {
		t.Fatal(err)
	}
	builder, err := testBuilder(t.Context(), source, t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if p.name != "etcd" {
			continue
		}
		_, err := builder.build(t.Context(), []part{p})
		for _, want := range []string{"part etcd", "the module go.etcd.io/", "could not be fetched", "http://127.0.0.1:1", "refused"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("build without a proxy: %v, want %q in it", err, want)
			}
		}
	}
}

// unfinished are the folders of builds that did not end.
func unfinished(t *testing.T, cache string) []string {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(cache, "*"+building+"*"))
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// A watch is a log that closes seen when the words were written.
type watch struct {
	mu    sync.Mutex
	words string
	seen  chan struct{}
	text  strings.Builder
}

func newWatch(words string) *watch { return &watch{words: words, seen: make(chan struct{})} }

func (w *watch) Write(data []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := strings.Contains(w.text.String(), w.words)
	w.text.Write(data)
	if !before && strings.Contains(w.text.String(), w.words) {
		close(w.seen)
	}
	return len(data), nil
}

// age makes a build one that was last used so long ago.
func age(t *testing.T, folder string, by time.Duration) {
	t.Helper()
	when := time.Now().Add(-by)
	if err := os.Chtimes(filepath.Join(folder, marker), when, when); err != nil {
		t.Fatal(err)
	}
}
