package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerry-run/skerry"
)

// slowIn is a backend that takes its time for one thing.
type slowIn struct {
	*fakeBackend
	what string
}

func (b *slowIn) pause(what string) {
	if b.what == what {
		time.Sleep(3 * time.Second) // of the bubble that the test runs in, as everywhere here: no time passes
	}
}

func (b *slowIn) Create(ctx context.Context, spec skerry.SandboxSpec) (skerry.Sandbox, error) {
	s, err := b.fakeBackend.Create(ctx, spec)
	return &slowSandbox{s, b}, err
}

func (b *slowIn) Open(ctx context.Context, ref skerry.Ref) (skerry.Sandbox, error) {
	b.pause("open")
	s, err := b.fakeBackend.Open(ctx, ref)
	return &slowSandbox{s, b}, err
}

func (b *slowIn) Delete(ctx context.Context, ref skerry.Ref, o skerry.DeleteOptions) error {
	b.pause("delete")
	return b.fakeBackend.Delete(ctx, ref, o)
}

func (b *slowIn) Check(ctx context.Context) (skerry.Report, error) {
	b.pause("check")
	return b.fakeBackend.Check(ctx)
}

type slowSandbox struct {
	skerry.Sandbox
	b *slowIn
}

func (s *slowSandbox) Files() skerry.Files { return &slowFiles{s.Sandbox.Files(), s.b} }

type slowFiles struct {
	skerry.Files
	b *slowIn
}

func (f *slowFiles) Read(ctx context.Context, p string, offset, length int64, w io.Writer) (skerry.FileInfo, error) {
	f.b.pause("read")
	return f.Files.Read(ctx, p, offset, length, w)
}

func (f *slowFiles) Write(ctx context.Context, p string, r io.Reader, o skerry.WriteOptions) (skerry.FileInfo, error) {
	f.b.pause("write")
	return f.Files.Write(ctx, p, r, o)
}

func TestWhateverTakesLongHasAProgressLine(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(data, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		slow string
		args []string
		want string
	}{
		{"write", []string{"run", "-f", data, "-l", "bash", "-c", "x"}, "sending input files"},
		{"read", []string{"run", "-f", data + ":output/a", "-l", "bash", "-c", "x"}, "fetching artifacts"},
		{"delete", []string{"run", "-l", "bash", "-c", "x"}, "removing the sandbox"},
		{"delete", []string{"session", "rm", "work"}, "removing work"},
		{"open", []string{"session", "exec", "work", "--", "true"}, "reaching the sandbox"},
		{"write", []string{"session", "cp", data, "work:a"}, "copying " + data},
		{"check", []string{"doctor"}, "looking at what sandboxes need"},
	} {
		for _, slow := range []string{c.slow, ""} {
			synctest.Test(t, func(t *testing.T) {
				b := &slowIn{newFake(says(0, "out\n")), slow}
				if _, err := b.fakeBackend.Create(t.Context(), skerry.SandboxSpec{Ref: skerry.Ref{Kind: skerry.SessionKind, Org: "default", Name: "work"}}); err != nil {
					t.Fatal(err)
				}
				code, screen := onScreen(t.Context(), b, c.args...)
				shown := strings.Contains(screen, "\r\x1b[Kskerry: "+c.want+" (2s)\r\x1b[K")
				if code != 0 || shown != (slow != "") {
					t.Errorf("%q, slow %q: code %d, screen %q, want %q", c.args, slow, code, screen, c.want)
				}
				if last := strings.LastIndex(screen, "\x1b[K"); slow != "" && strings.Contains(screen[last:], c.want) {
					t.Errorf("the line was left on the screen: %q", screen)
				}
			})
		}
	}
}

// A line that the program has not ended is not written over.
func TestProgressLeavesUnfinishedLinesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		code, screen := onScreen(t.Context(), &slowIn{newFake(says(0, "half a line")), "delete"}, "run", "-l", "bash", "-c", "x")
		if code != 0 || screen != "half a line" {
			t.Errorf("code %d, screen %q", code, screen)
		}
	})
}
