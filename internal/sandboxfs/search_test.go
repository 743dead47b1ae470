//go:build linux

package sandboxfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/skerry-run/skerry"
)

func TestGlob(t *testing.T) {
	x := newFixture(t)
	for _, path := range []string{
		"a.py", "b.txt", "src/c.py", "src/deep/er/d.py", "src/e.js", ".env", ".github/workflows/ci.yml", "src/.hidden/f.py",
		"[x].py", "a,b", "{a}", `back\slash`, "src/語.py", "\xff.py",
	} {
		x.write(t, path, "")
	}
	if err := os.Symlink(".", filepath.Join(x.workspace, "src/loop")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ dir, pattern, want string }{
		{"", "*.py", `"[x].py" "a.py" "\xff.py"`},
		{".", "**/*.py", `"[x].py" "a.py" "src/.hidden/f.py" "src/c.py" "src/deep/er/d.py" "src/語.py" "\xff.py"`},
		{"src", "**/*.py", `".hidden/f.py" "c.py" "deep/er/d.py" "語.py"`},
		{"src", "**", `".hidden" ".hidden/f.py" "c.py" "deep" "deep/er" "deep/er/d.py" "e.js" "loop" "語.py"`},
		{".", "src/**/er/*", `"src/deep/er/d.py"`},
		{".", "src/**/**/c.py", `"src/c.py"`},
		{".", "{a,src/c}.py", `"a.py" "src/c.py"`},
		{".", "src/*.{py,js}", `"src/c.py" "src/e.js" "src/語.py"`},
		{".", "{src/{c,e},b}.*", `"b.txt" "src/c.py" "src/e.js"`},
		{".", "?.py", `"a.py" "\xff.py"`},
		{".", "src/?.py", `"src/c.py" "src/語.py"`},
		{".", "[!a].txt", `"b.txt"`},
		{".", "[a-b].*", `"a.py" "b.txt"`},
		{".", `\[x\].py`, `"[x].py"`},
		{".", `a\,b`, `"a,b"`},
		{".", "a,b", `"a,b"`},
		{".", `\{a\}`, `"{a}"`},
		{".", `back\\slash`, `"back\\slash"`},
		{".", ".env", `".env"`},
		{".", ".*", `".env" ".github"`},
		{".", ".github/**/*.yml", `".github/workflows/ci.yml"`},
		{".", "src/.hidden/*", `"src/.hidden/f.py"`},
		{".", "*/", `".github" "src"`},
		{".", "./src//c.py", `"src/c.py"`},
		{".", "nothing/**", ``},
		{".", "src/loop/**", ``},
		{x.workspace + "/src/loop", "c.py", `"c.py"`},
	} {
		found, err := x.Glob(t.Context(), c.dir, c.pattern, 0)
		var quoted []string
		for _, p := range found.Paths {
			quoted = append(quoted, fmt.Sprintf("%q", p))
		}
		if got := strings.Join(quoted, " "); err != nil || got != c.want || found.Truncated {
			t.Errorf("%q in %q gave %s, %v; want %s", c.pattern, c.dir, got, err, c.want)
		}
	}
}

func TestGlobRefusesWhatCanNotMatch(t *testing.T) {
	x := newFixture(t)
	for _, pattern := range []string{
		"", "[", "[]", "{a", "a}{", `a\`, "/etc/*", "../*", "a/../b", "{a,/b}", "a\x00", strings.Repeat("a", maxPatternBytes+1), ".", "./", "{,}",
		strings.Repeat("{a,b}", 10), "{" + strings.Repeat(",", maxAlternatives+1) + "}", strings.Repeat("a/", maxPatternElems+1),
	} {
		found, err := x.Glob(t.Context(), ".", pattern, 0)
		if skerry.KindOf(err) != skerry.Invalid || skerry.HintOf(err) == "" {
			t.Errorf("%.40q gave %v, %v; want invalid", pattern, found, err)
		}
	}
}

func TestGlobGivesTheFirstPathsOfTooMany(t *testing.T) {
	x := newFixture(t)
	for i := range 50 {
		x.write(t, fmt.Sprintf("%02d/f", 49-i), "")
	}
	found, err := x.Glob(t.Context(), ".", "*/f", 3)
	if err != nil || !found.Truncated || !slices.Equal(found.Paths, []string{"00/f", "01/f", "02/f"}) {
		t.Errorf("got %+v, %v", found, err)
	}
	if found, err = x.Glob(t.Context(), ".", "*/f", 50); err != nil || found.Truncated || len(found.Paths) != 50 {
		t.Errorf("got %d, truncated %v, %v", len(found.Paths), found.Truncated, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = x.Glob(ctx, ".", "**", 0); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled glob gave %v", err)
	}
}

func FuzzGlob(f *testing.F) {
	for _, s := range []string{
		"*.py", "**/*", "{a,b}/**", "[a-z]*", `\[x`, "a/**/b", "{{a,b},c}", "[", "{[,],a}", "**/**/a", ".*", "[!a]", "{,a}", "a**b", `\`,
		"[{]", "{[}],x}", "?", "*/", "[]a]", "a/{b/c,d}/e",
	} {
		f.Add(s)
	}
	x := newFixture(f)
	for _, path := range []string{"a", "b/c/e", "a.py/x", ".h/i", "d/.j"} {
		if err := os.MkdirAll(filepath.Join(x.workspace, path), 0o755); err != nil {
			f.Fatal(err)
		}
	}
	all, err := x.List(f.Context(), ".", skerry.ListOptions{Recursive: true})
	if err != nil {
		f.Fatal(err)
	}
	exists := map[string]bool{}
	for _, fi := range all {
		exists[fi.Path] = true
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		found, err := x.Glob(t.Context(), ".", pattern, 0)
		if err != nil {
			if skerry.KindOf(err) != skerry.Invalid {
				t.Fatalf("%q gave %v", pattern, err)
			}
			return
		}
		for i, p := range found.Paths {
			if !exists[p] {
				t.Fatalf("%q found %q, which is not there", pattern, p)
			}
			if i > 0 && found.Paths[i-1] >= p {
				t.Fatalf("%q found %q after %q", pattern, p, found.Paths[i-1])
			}
		}
		// A path taken by the letter finds itself.
		for p := range exists {
			escaped := strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "{", `\{`, ",", `\,`, "}", `\}`).Replace(p)
			if pat, err := parsePattern(escaped); err != nil || !matches(pat, p) {
				t.Fatalf("%q does not find itself: %v", p, err)
			}
		}
	})
}

func matches(p *pattern, path string) bool {
	s, matched := p.start(), false
	for _, e := range strings.Split(path, "/") {
		s, matched = p.step(s, e, true)
	}
	return matched
}

func TestGrep(t *testing.T) {
	x := newFixture(t)
	x.write(t, "a.txt", "one\ntwo three\r\nTwo\n")
	x.write(t, "d/b.txt", "no\nlast two")
	x.write(t, "d/c.py", "two")
	x.write(t, "empty", "")
	x.write(t, "binary", "two\x00two\n")
	x.write(t, "latin1", "two \xe9\n")
	x.write(t, ".hidden", "two\n")
	if err := os.Symlink("a.txt", filepath.Join(x.workspace, "link")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		spec skerry.GrepSpec
		want string
	}{
		{skerry.GrepSpec{Pattern: "two"}, `.hidden:1:"two" a.txt:2:"two three" d/b.txt:2:"last two" d/c.py:1:"two" latin1:1:"two \xe9"`},
		{skerry.GrepSpec{Pattern: "two", Glob: "**/.*"}, `.hidden:1:"two"`},
		{skerry.GrepSpec{Pattern: "TWO", IgnoreCase: true, Glob: "*.txt"}, `a.txt:2:"two three" a.txt:3:"Two"`},
		{skerry.GrepSpec{Pattern: "two", Glob: "**/*.txt"}, `a.txt:2:"two three" d/b.txt:2:"last two"`},
		{skerry.GrepSpec{Pattern: "two", Dir: "d"}, `b.txt:2:"last two" c.py:1:"two"`},
		{skerry.GrepSpec{Pattern: "three$"}, `a.txt:2:"two three"`},
		{skerry.GrepSpec{Pattern: "^two$"}, `.hidden:1:"two" d/c.py:1:"two"`},
		{skerry.GrepSpec{Pattern: "t.o|a.*t"}, `.hidden:1:"two" a.txt:2:"two three" d/b.txt:2:"last two" d/c.py:1:"two" latin1:1:"two \xe9"`},
		{skerry.GrepSpec{Pattern: "t.o", Literal: true}, ``},
		{skerry.GrepSpec{Pattern: "two|three", IgnoreCase: true, Glob: "a.txt"}, `a.txt:2:"two three" a.txt:3:"Two"`},
	} {
		found, err := x.Grep(t.Context(), c.spec)
		var got []string
		for _, m := range found.Matches {
			got = append(got, fmt.Sprintf("%s:%d:%q", m.Path, m.Line, m.Text))
		}
		if s := strings.Join(got, " "); err != nil || s != c.want || found.Truncated {
			t.Errorf("%+v gave %s, %v; want %s", c.spec, s, err, c.want)
		}
	}
	for _, spec := range []skerry.GrepSpec{
		{}, {Pattern: "("}, {Pattern: "a\nb", Literal: true}, {Pattern: "a", Glob: "["}, {Pattern: "a", Limit: -1},
		{Pattern: strings.Repeat("a", maxGrepPattern+1)}, {Pattern: "a", Dir: "a.txt"},
	} {
		if _, err := x.Grep(t.Context(), spec); skerry.KindOf(err) != skerry.Invalid {
			t.Errorf("%.60v gave %v, want invalid", spec, err)
		}
	}
	if found, err := x.Grep(t.Context(), skerry.GrepSpec{Pattern: "two", Limit: 2}); err != nil || len(found.Matches) != 2 || !found.Truncated {
		t.Errorf("a limit of two gave %+v, %v", found, err)
	}
}

// B047
func TestGrepFindsInLongLinesWithoutHoldingThem(t *testing.T) {
	x := newFixture(t)
	for _, size := range []int{grepWindow - 2, grepWindow - 1, grepWindow, grepWindow + 1, 3 * grepWindow} {
		fill := strings.Repeat("y", size)
		for _, end := range []string{"", "\n", "\r\n", "\r", "\nnext end\n"} {
			x.write(t, "f", "first\n"+fill+"語end"+end)
			found, err := x.Grep(t.Context(), skerry.GrepSpec{Pattern: "^y+語end\r?$"})
			if err != nil || len(found.Matches) != 1 || found.Matches[0].Line != 2 {
				t.Fatalf("%d bytes, ending in %q, gave %d matches, %v", size, end, len(found.Matches), err)
			}
			if text := found.Matches[0].Text; len(text) != maxGrepText || text != fill[:maxGrepText] {
				t.Errorf("the text has %d bytes, want %d", len(text), maxGrepText)
			}
			strict, err := x.Grep(t.Context(), skerry.GrepSpec{Pattern: "語end$"})
			if want := end != "\r"; err != nil || (len(strict.Matches) == 1) != want {
				t.Errorf("%d bytes, ending in %q: matched %v, %v", size, end, strict.Matches != nil, err)
			}
			next, err := x.Grep(t.Context(), skerry.GrepSpec{Pattern: "next"})
			if want := strings.Contains(end, "next"); err != nil || (len(next.Matches) == 1 && next.Matches[0].Line == 3) != want {
				t.Errorf("%d bytes, ending in %q: the line after it gave %d matches, %v", size, end, len(next.Matches), err)
			}
		}
	}
}

func TestAHugeLineCostsNoMemory(t *testing.T) {
	x := newFixture(t)
	file, err := os.Create(filepath.Join(x.workspace, "huge"))
	if err != nil {
		t.Fatal(err)
	}
	chunk := bytes.Repeat([]byte("x"), 1<<20)
	const size = 8 << 20
	for range size >> 20 {
		if _, err := file.Write(chunk); err != nil {
			t.Fatal(err)
		}
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	found, err := x.Grep(t.Context(), skerry.GrepSpec{Pattern: "xy"})
	runtime.ReadMemStats(&after)
	if err != nil || len(found.Matches) > 0 {
		t.Errorf("got %v, %v", found, err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 2<<20 {
		t.Errorf("searching a line of %d bytes allocated %d", size, used)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := x.Grep(ctx, skerry.GrepSpec{Pattern: "xy"}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled search gave %v", err)
	}
}
