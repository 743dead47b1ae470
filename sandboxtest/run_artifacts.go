package sandboxtest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strings"
	"testing"

	"github.com/skerry-run/skerry"
)

func testRunArtifacts(t *testing.T, s *suite) {
	spec := func(code string) skerry.RunSpec {
		return skerry.RunSpec{Sandbox: s.spec(skerry.RunKind), Command: argv("bash", "-c", code)}
	}
	// keep collects the artifacts of a run.
	keep := func(rs *skerry.RunSpec) map[string]*bytes.Buffer {
		got := map[string]*bytes.Buffer{}
		rs.Artifact = func(a skerry.Artifact) (io.WriteCloser, error) {
			got[a.Path] = &bytes.Buffer{}
			return nopCloser{got[a.Path]}, nil
		}
		return got
	}

	t.Run("are what it left under output, whole", func(t *testing.T) {
		rs := spec(`mkdir -p output/sub; echo '{}' > output/a.json; printf '\x89PNG\r\n\x1a\n' > output/sub/plot.png; head -c 2000000 /dev/zero > output/zero; : > output/empty; echo no > not-output; echo n > 'output/odd name é
x'`)
		got := keep(&rs)
		r := skerry.Run(s.context(t), s.Backend, rs)
		if r.Outcome != skerry.Exited || *r.ExitCode != 0 || len(r.Files) != 5 || len(got) != 5 {
			t.Fatalf("%s %q, %d files: %+v", r.Outcome, r.Stderr, len(r.Files), r.Files)
		}
		for _, a := range r.Files {
			data := got[a.Path].Bytes()
			sum := sha256.Sum256(data)
			if a.Size != int64(len(data)) || a.SHA256 != hex.EncodeToString(sum[:]) || a.MIME == "" {
				t.Errorf("%+v for %d bytes", a, len(data))
			}
			switch a.Path {
			case "output/a.json":
				if string(data) != "{}\n" || a.MIME != "application/json" {
					t.Errorf("%+v: %q", a, data)
				}
			case "output/sub/plot.png":
				if a.MIME != "image/png" {
					t.Errorf("%+v", a)
				}
			case "output/zero":
				if len(data) != 2_000_000 {
					t.Errorf("%+v", a)
				}
			case "output/empty", "output/odd name é\nx":
			default:
				t.Errorf("unexpected %q", a.Path)
			}
		}
	})

	t.Run("are regular files only, and what is left out is a warning", func(t *testing.T) {
		rs := spec(`mkdir output; mkfifo output/fifo; ln -s /etc/passwd output/link; ln -s . output/loop; echo x > output/f; python3 -c "import socket; socket.socket(socket.AF_UNIX).bind('output/socket')" 2>/dev/null || mkfifo output/socket`)
		r := skerry.Run(s.context(t), s.Backend, rs)
		if len(r.Files) != 1 || r.Files[0].Path != "output/f" {
			t.Errorf("files %+v", r.Files)
		}
		for _, name := range []string{"output/fifo", "output/link", "output/loop", "output/socket"} {
			if !strings.Contains(strings.Join(r.Warnings, "\n"), name+" was left out: it is a ") {
				t.Errorf("no warning about %s in %q", name, r.Warnings)
			}
		}
	})

	t.Run("are bounded one by one and in all", func(t *testing.T) {
		rs := spec("mkdir output; for i in 1 2 3 4; do head -c 600 /dev/zero > output/$i; done; head -c 1001 /dev/zero > output/large")
		rs.ArtifactBytes, rs.ArtifactsBytes = 1000, 1500
		r := skerry.Run(s.context(t), s.Backend, rs)
		if len(r.Files) != 2 || len(r.Warnings) < 3 {
			t.Errorf("%d files, warnings %q", len(r.Files), r.Warnings)
		}
	})

	t.Run("of an output that is no folder are none", func(t *testing.T) {
		for _, code := range []string{"true", "echo x > output", "ln -s /etc output", "mkfifo output", "mkdir output"} {
			r := skerry.Run(s.context(t), s.Backend, spec(code))
			if r.Outcome != skerry.Exited || *r.ExitCode != 0 || len(r.Files) != 0 {
				t.Errorf("%s: %s, files %+v", code, r.Outcome, r.Files)
			}
		}
	})

	t.Run("come also from a program that failed", func(t *testing.T) {
		r := skerry.Run(s.context(t), s.Backend, spec("mkdir output; echo x > output/f; exit 9"))
		if len(r.Files) != 1 || *r.ExitCode != 9 {
			t.Errorf("result %+v", r)
		}
	})
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
