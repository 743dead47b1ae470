package sandboxtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/skerry-run/skerry"
)

func testFilesSearch(t *testing.T, s *suite) {
	b := s.session(t)
	b.sh("mkdir -p g/src/deep g/.hidden g/empty; printf 'one\\ntwo needle\\nthree\\n' > g/a.txt; echo 'Needle' > g/src/b.go; printf 'x\\nneedle' > g/src/deep/c.go; echo needle > g/.hidden/d.go; printf 'needle\\0' > g/binary; ln -s . g/loop; ln -s /etc g/etc; mkfifo g/fifo").want(0)

	t.Run("glob gives what matches, sorted", func(t *testing.T) {
		b := b.on(t)
		for pattern, want := range map[string][]string{
			"*.txt":       {"a.txt"},
			"*.go":        nil,
			"**/*.go":     {".hidden/d.go", "src/b.go", "src/deep/c.go"},
			"src/*":       {"src/b.go", "src/deep"},
			"src/**/*.go": {"src/b.go", "src/deep/c.go"},
			"s?c/[bc].go": {"src/b.go"},
			"none*":       nil,
			"{a,b}.txt":   {"a.txt"},
		} {
			r, err := b.Files().Glob(b.ctx, "g", pattern, 0)
			if err != nil || !slices.Equal(r.Paths, want) || r.Truncated {
				t.Errorf("%s: %q, truncated %v, error %v, want %q", pattern, r.Paths, r.Truncated, err, want)
			}
		}
	})

	t.Run("glob stops at its limit and says so", func(t *testing.T) {
		b := b.on(t)
		r, err := b.Files().Glob(b.ctx, "g", "**/*.go", 2)
		if err != nil || len(r.Paths) != 2 || !r.Truncated {
			t.Errorf("%+v, error %v", r, err)
		}
		r, err = b.Files().Glob(b.ctx, "g", "**/*.go", 3)
		if err != nil || len(r.Paths) != 3 || r.Truncated {
			t.Errorf("%+v, error %v", r, err)
		}
	})

	t.Run("glob of a bad pattern is invalid, of no folder not found", func(t *testing.T) {
		b := b.on(t)
		_, err := b.Files().Glob(b.ctx, "g", "[", 0)
		wantKind(t, "glob", err, skerry.Invalid)
		_, err = b.Files().Glob(b.ctx, "nowhere", "*", 0)
		wantKind(t, "glob", err, skerry.NotFound)
	})

	t.Run("grep gives lines that match", func(t *testing.T) {
		b := b.on(t)
		for _, c := range []struct {
			spec skerry.GrepSpec
			want []string
		}{
			{skerry.GrepSpec{Pattern: "needle"}, []string{".hidden/d.go:1:needle", "a.txt:2:two needle", "src/deep/c.go:2:needle"}},
			{skerry.GrepSpec{Pattern: "needle", IgnoreCase: true, Glob: "**/*.go"}, []string{".hidden/d.go:1:needle", "src/b.go:1:Needle", "src/deep/c.go:2:needle"}},
			{skerry.GrepSpec{Pattern: "^t.*e$"}, []string{"a.txt:2:two needle", "a.txt:3:three"}},
			{skerry.GrepSpec{Pattern: "^t.*e$", Literal: true}, nil},
			{skerry.GrepSpec{Pattern: "needle", Glob: "*.txt"}, []string{"a.txt:2:two needle"}},
		} {
			spec := c.spec
			spec.Dir = "g"
			r, err := b.Files().Grep(b.ctx, spec)
			var got []string
			for _, m := range r.Matches {
				got = append(got, m.Path+":"+itoa(m.Line)+":"+m.Text)
			}
			slices.Sort(got)
			if err != nil || !slices.Equal(got, c.want) || r.Truncated {
				t.Errorf("%+v: %q, truncated %v, error %v, want %q", spec, got, r.Truncated, err, c.want)
			}
		}
	})

	t.Run("grep skips binary files and bounds lines", func(t *testing.T) {
		b := b.on(t)
		b.sh("mkdir long; { head -c 100000 /dev/zero | tr '\\0' x; echo; echo xx; } > long/file").want(0)
		r, err := b.Files().Grep(b.ctx, skerry.GrepSpec{Pattern: "xx", Dir: "long"})
		if err != nil || len(r.Matches) != 2 || r.Matches[1].Line != 2 {
			t.Fatalf("%d matches, error %v", len(r.Matches), err)
		}
		if got := r.Matches[0].Text; len(got) > 4096 || !strings.HasPrefix(got, "xxxx") {
			t.Errorf("a line of %d bytes", len(got))
		}
	})

	t.Run("grep stops at its limit and says so", func(t *testing.T) {
		b := b.on(t)
		b.sh("mkdir lots; seq 1 5000 > lots/file").want(0)
		r, err := b.Files().Grep(b.ctx, skerry.GrepSpec{Pattern: "[0-9]", Dir: "lots", Limit: 7})
		if err != nil || len(r.Matches) != 7 || !r.Truncated {
			t.Errorf("%d matches, truncated %v, error %v", len(r.Matches), r.Truncated, err)
		}
		r, err = b.Files().Grep(b.ctx, skerry.GrepSpec{Pattern: "[0-9]", Dir: "lots"})
		if err != nil || len(r.Matches) != 1000 || !r.Truncated {
			t.Errorf("%d matches, truncated %v, error %v", len(r.Matches), r.Truncated, err)
		}
	})

	t.Run("grep of a bad pattern is invalid", func(t *testing.T) {
		b := b.on(t)
		for _, pattern := range []string{"(", "[", ""} {
			_, err := b.Files().Grep(b.ctx, skerry.GrepSpec{Pattern: pattern})
			wantKind(t, "grep "+pattern, err, skerry.Invalid)
		}
	})
}
