package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skerry-run/skerry"
)

// onScreen calls the command line with everything on one terminal.
func onScreen(ctx context.Context, b skerry.Backend, args ...string) (int, string) {
	var screen bytes.Buffer
	a := newApp(strings.NewReader(""), &screen, &screen, func(string) (string, bool) { return "", false })
	a.openBackend, a.isTerminal = fixedBackend(b), func(any) bool { return true }
	a.words.terminal = true
	code := a.run(ctx, args)
	return code, screen.String()
}

// B057
func TestTerminalShowsControlSequences(t *testing.T) {
	b := newFake(func(skerry.CommandSpec) fakeEnd {
		return fakeEnd{stdout: "\x1b]52;c;ZXZpbA==\a\x1b[2J\x1b[31mred\n", stderr: "\x1b[", exit: exited(0)}
	})
	if code, screen := onScreen(t.Context(), b, "run", "-l", "bash", "-c", "x"); code != 0 || screen != "^[]52;c;ZXZpbA==^G^[[2J\x1b[31mred\n\x1b[0m^[[" {
		t.Errorf("code %d, screen %q", code, screen)
	}
	if _, screen := onScreen(t.Context(), b, "run", "--raw", "-l", "bash", "-c", "x"); !strings.Contains(screen, "\x1b]52;") {
		t.Errorf("--raw gave %q", screen)
	}
	b = newFake(func(skerry.CommandSpec) fakeEnd {
		return fakeEnd{exit: skerry.Exit{Outcome: skerry.Lost, Reason: "from inside \x1b[2J \u202e\u200b\nskerry: hint: forged"}}
	})
	if _, screen := onScreen(t.Context(), b, "run", "-l", "bash", "-c", "x"); strings.ContainsAny(screen, "\x1b\u202e\u200b") || strings.Contains(screen, "\nskerry: hint: forged") {
		t.Errorf("a cause acts on the terminal: %q", screen)
	}
}

// slowBackend takes its time to make a sandbox, and says so.
type slowBackend struct {
	*fakeBackend
	takes time.Duration
}

func (b *slowBackend) Create(ctx context.Context, spec skerry.SandboxSpec) (skerry.Sandbox, error) {
	select {
	case <-time.After(b.takes / 2):
	case <-ctx.Done():
		return nil, skerry.Errorf(skerry.Unavailable, "create sandbox", "%w", ctx.Err())
	}
	spec.Progress(skerry.Event{Phase: "provision", Message: "pulling \x1b[2J the image"})
	time.Sleep(b.takes - b.takes/2)
	return b.fakeBackend.Create(ctx, spec)
}

func TestProgressLine(t *testing.T) {
	for _, c := range []struct {
		takes time.Duration
		shown bool
	}{{500 * time.Millisecond, false}, {5 * time.Second, true}} {
		synctest.Test(t, func(t *testing.T) {
			code, screen := onScreen(t.Context(), &slowBackend{newFake(says(0, "out\n")), c.takes}, "run", "-l", "bash", "-c", "x")
			if code != 0 || !strings.HasSuffix(screen, "out\n") {
				t.Errorf("code %d, screen %q", code, screen)
			}
			if got := strings.Contains(screen, "skerry: pulling"); got != c.shown || strings.Contains(screen, "\x1b[2J") {
				t.Errorf("%v: screen %q", c.takes, screen)
			}
			if c.shown && !strings.HasSuffix(screen, "\r\x1b[Kout\n") {
				t.Errorf("the line was left on the screen: %q", screen)
			}
		})
	}
}

func TestStartTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := invoke(t.Context(), &slowBackend{newFake(says(0, "")), time.Hour}, "", map[string]string{"SKERRY_START_TIMEOUT": "2s"}, "run", "-l", "bash", "-c", "x")
		if got.code != 125 || !strings.Contains(got.stderr, "could not start: create sandbox: it was not ready within the start timeout of 2s") || !strings.Contains(got.stderr, "hint: raise timeouts.start") {
			t.Errorf("got %+v", got)
		}
	})
}
