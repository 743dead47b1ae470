package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/probe"
)

// maxProbeOutput bounds what a probe may print: it comes out of a sandbox.
const maxProbeOutput = 64 << 10

// start runs an attack in a sandbox and gives what it found. An attack that
// stays is ended once it has told.
func (v *verifier) start(ctx context.Context, box skerry.Sandbox, a probe.Attack, args []string) probe.Finding {
	line, exit, err := v.probe(ctx, box, a.Stays, append([]string{a.Name}, args...)...)
	if err != nil {
		return probe.Finding{Verdict: probe.Unknown, Detail: fmt.Sprintf("it could not be tried: %v", err)}
	}
	var f probe.Finding
	if jsonErr := json.Unmarshal(line, &f); jsonErr == nil {
		if f.Name != a.Name {
			return probe.Finding{Verdict: probe.Unknown, Detail: fmt.Sprintf("%q answered", f.Name)}
		}
		return f
	}
	switch {
	case a.Name == "terminals" && exit.Outcome == skerry.Evicted,
		strings.HasPrefix(a.Name, "memory") && exit.Outcome == skerry.OOM:
		return probe.Finding{Verdict: probe.Blocked, Detail: "it was ended: " + exit.Reason}
	case strings.HasPrefix(a.Name, "memory") && exit.Outcome == skerry.Exited:
		return probe.Finding{Verdict: probe.Unknown, Detail: "it ended without a word, and not for memory"}
	}
	return probe.Finding{Verdict: probe.Unknown, Detail: fmt.Sprintf("it ended without a word: %s %s", exit.Outcome, exit.Reason)}
}

// probe runs skerry-init probe in a sandbox and gives the first line that it
// printed. One that stays is cancelled after that line.
func (v *verifier) probe(ctx context.Context, box skerry.Sandbox, stays bool, args ...string) ([]byte, skerry.Exit, error) {
	c, err := v.launch(ctx, box, args...)
	if err != nil {
		return nil, skerry.Exit{}, err
	}
	line, err := firstLine(ctx, c)
	if err != nil {
		return nil, skerry.Exit{}, err
	}
	if stays {
		// While it holds what it took, the init must still answer.
		if _, err := box.Usage(ctx); err != nil {
			return nil, skerry.Exit{}, fmt.Errorf("the init does not answer while it lasts: %w", err)
		}
		if err := c.Cancel(ctx, "it has told"); err != nil {
			return nil, skerry.Exit{}, err
		}
	}
	exit, err := c.Wait(ctx)
	return line, exit, err
}

func (v *verifier) launch(ctx context.Context, box skerry.Sandbox, args ...string) (skerry.Command, error) {
	v.n++
	return box.Start(ctx, skerry.CommandSpec{
		ID: fmt.Sprintf("probe-%d", v.n), Argv: append([]string{v.cfg.Init, "probe"}, args...),
		Timeout: attackTimeout, Grace: time.Second, Dir: "/tmp",
	})
}

// errEnough ends the reading of output.
type errEnough struct{}

func (errEnough) Error() string { return "enough" }

// firstLine reads a command's standard output to its first line feed, or to
// its end.
func firstLine(ctx context.Context, c skerry.Command) ([]byte, error) {
	var out bytes.Buffer
	err := c.Output(ctx, skerry.Offsets{}, func(chunk skerry.Chunk) error {
		if chunk.Stream == skerry.Stdout {
			out.Write(chunk.Data[:min(len(chunk.Data), maxProbeOutput-out.Len())])
		}
		if bytes.IndexByte(out.Bytes(), '\n') >= 0 || out.Len() >= maxProbeOutput {
			return errEnough{}
		}
		return nil
	})
	if _, enough := err.(errEnough); err != nil && !enough {
		return nil, err
	}
	line, _, _ := bytes.Cut(out.Bytes(), []byte("\n"))
	return line, nil
}

// answers says whether a sandbox still starts commands.
func answers(ctx context.Context, box skerry.Sandbox) error {
	const patience = 15 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := box.Start(ctx, skerry.CommandSpec{ID: "answers-" + randomHex(), Argv: []string{"true"}, Timeout: patience})
	if err != nil {
		return err
	}
	exit, err := c.Wait(ctx)
	if err != nil {
		return err
	}
	if exit.Outcome != skerry.Exited || exit.ExitCode == nil || *exit.ExitCode != 0 {
		return fmt.Errorf("true ended as %s %s", exit.Outcome, exit.Reason)
	}
	return nil
}
