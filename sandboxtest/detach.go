package sandboxtest

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/skerry-run/skerry"
)

// testDetach has runs that nobody waits for.
func testDetach(t *testing.T, s *suite) {
	spec := func(t *testing.T, code string) skerry.RunSpec {
		rs := skerry.RunSpec{Sandbox: s.spec(skerry.RunKind), Command: argv("bash", "-c", code)}
		rs.Sandbox.Retention = 5 * time.Minute
		s.cleanup(t, nil, rs.Sandbox.Ref)
		return rs
	}
	detach := func(t *testing.T, rs skerry.RunSpec) skerry.SandboxInfo {
		t.Helper()
		info, err := skerry.Detach(s.context(t), s.Backend, rs)
		if err != nil {
			t.Fatalf("detach: %v (outcome %s)", err, skerry.OutcomeOf(err))
		}
		if info.Ref != rs.Sandbox.Ref || info.Backend != s.Name() || info.Created.IsZero() {
			t.Errorf("info %+v", info)
		}
		return info
	}
	open := func(t *testing.T, ref skerry.Ref) (*box, skerry.Command) {
		t.Helper()
		ctx := s.context(t)
		sandbox, err := s.again(t).Open(ctx, ref)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { sandbox.Close() })
		c, err := sandbox.Command(ctx, skerry.RunCommandID)
		if err != nil {
			t.Fatal(err)
		}
		return &box{Sandbox: sandbox, t: t, ctx: ctx, suite: s, ref: ref}, c
	}
	untilGone := func(t *testing.T, ref skerry.Ref) {
		t.Helper()
		b := &box{t: t, ctx: s.context(t), suite: s, ref: ref}
		b.until("it is gone", func() bool {
			infos, err := s.List(b.ctx, skerry.Filter{Kind: ref.Kind, Org: ref.Org})
			if err != nil {
				t.Fatal(err)
			}
			for _, info := range infos {
				if info.Ref == ref {
					return false
				}
			}
			return true
		})
	}

	t.Run("is found again with its inputs, output, end and artifacts", func(t *testing.T) {
		rs := spec(t, "until test -e go; do sleep 0.01; done; cat in.txt; mkdir output; cp in.txt output/a; head -c 2000 /dev/zero > output/large; mkfifo output/fifo; exit 3")
		rs.Inputs = []skerry.Input{input("in.txt", "the input")}
		detach(t, rs)
		b, c := open(t, rs.Sandbox.Ref)
		b.write("go", "") // it still runs: nobody waited
		if d := b.finish(c, "the detached run").want(3); d.out != "the input" {
			t.Errorf("stdout %q", d.out)
		}
		var got bytes.Buffer
		artifacts, warnings, err := skerry.Collect(b.ctx, b, skerry.RunSpec{
			ArtifactBytes: 1000,
			Artifact:      func(skerry.Artifact) (io.WriteCloser, error) { return nopCloser{&got}, nil },
		})
		if err != nil || len(artifacts) != 1 || artifacts[0].Path != "output/a" || artifacts[0].Size != 9 || got.String() != "the input" {
			t.Errorf("artifacts %+v with %q, error %v", artifacts, got.String(), err)
		}
		for _, name := range []string{"output/large", "output/fifo"} {
			if !strings.Contains(strings.Join(warnings, "\n"), name+" was left out") {
				t.Errorf("no warning about %s in %q", name, warnings)
			}
		}
	})

	t.Run("asked for twice is one run", func(t *testing.T) {
		s.need(t, Remember)
		rs := spec(t, "echo once >> /workspace/ran; sleep 1000")
		rs.Sandbox.Remember = time.Minute
		first, second := detach(t, rs), detach(t, rs)
		if !first.Created.Equal(second.Created) {
			t.Errorf("made at %v and at %v", first.Created, second.Created)
		}
		b, _ := open(t, rs.Sandbox.Ref)
		b.until("it began", func() bool { return b.hasFile("ran") })
		if got := b.read("ran"); got != "once\n" {
			t.Errorf("it ran more than once: %q", got)
		}
	})

	t.Run("ends with its time to live", func(t *testing.T) {
		rs := spec(t, "sleep 1000")
		rs.Sandbox.TTL, rs.Command.Timeout = 5*time.Second, time.Hour
		detach(t, rs)
		untilGone(t, rs.Sandbox.Ref)
	})

	t.Run("ends when its retention is over", func(t *testing.T) {
		rs := spec(t, "true")
		rs.Sandbox.Retention = 2 * time.Second // its time to live is longer than the test's patience
		detach(t, rs)
		untilGone(t, rs.Sandbox.Ref)
	})

	t.Run("an error has an outcome and leaves nothing behind", func(t *testing.T) {
		broken := errors.New("no such input")
		for name, change := range map[string]func(*skerry.RunSpec){
			"missing program": func(rs *skerry.RunSpec) { rs.Command = argv("no-such-program-x") },
			"invalid command": func(rs *skerry.RunSpec) { rs.Command.Argv[1] = "a\x00" },
			"input that fails": func(rs *skerry.RunSpec) {
				rs.Inputs = []skerry.Input{{Path: "x", Size: 1, Open: func() (io.ReadCloser, error) { return nil, broken }}}
			},
			"input of nowhere": func(rs *skerry.RunSpec) { rs.Inputs = []skerry.Input{input("/etc/x", "x")} },
			"stdin":            func(rs *skerry.RunSpec) { rs.Stdin = strings.NewReader("x") },
		} {
			rs := spec(t, "true")
			change(&rs)
			_, err := skerry.Detach(s.context(t), s.Backend, rs)
			if err == nil {
				t.Errorf("%s: no error", name)
				continue
			}
			if o := skerry.OutcomeOf(err); o != skerry.StartFailed && o != skerry.Refused {
				t.Errorf("%s: outcome %s of %v", name, o, err)
			}
			s.wantGone(t, rs.Sandbox.Ref)
		}
	})
}
