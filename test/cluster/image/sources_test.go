//go:build linux

package image

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestSourcesOfTheSuiteAreFound(t *testing.T) {
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "sources.list.d"), 0o755); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{
		"sources.list": `# deb http://comment.example/debian bookworm main
deb [arch=amd64 signed-by=/k.gpg] http://mirror.example/debian bookworm main contrib
deb-src http://mirror.example/debian bookworm main
deb http://mirror.example/debian trixie main
`,
		"sources.list.d/debian.sources": `Types: deb deb-src
# a comment: of no use
URIs: http://a.example/debian http://b.example/debian
Suites: bookworm bookworm-updates sid
Components: main
Signed-By: /usr/share/keyrings/a.gpg

Types: deb
Enabled: no
URIs: http://off.example/debian
Suites: bookworm
Components: main

Types: deb
URIs: http://c.example/debian-security
Suites: bookworm-security
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 Version: 1
`,
		"sources.list.d/other.sources":     "Types: deb\nURIs: https://other.example/node\nSuites: nodistro\nComponents: main\n",
		"sources.list.d/off.list.disabled": "deb http://off.example/debian bookworm main\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"deb [arch=amd64 signed-by=/k.gpg] http://mirror.example/debian bookworm main contrib",
		"deb [signed-by=/usr/share/keyrings/a.gpg] http://a.example/debian bookworm main",
		"deb [signed-by=/usr/share/keyrings/a.gpg] http://a.example/debian bookworm-updates main",
		"deb [signed-by=/usr/share/keyrings/a.gpg] http://b.example/debian bookworm main",
		"deb [signed-by=/usr/share/keyrings/a.gpg] http://b.example/debian bookworm-updates main",
		"deb http://c.example/debian-security bookworm-security main",
	}
	if got := sources(folder, "bookworm"); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got := sources(t.TempDir(), "bookworm"); got != nil {
		t.Errorf("a machine without sources has %q", got)
	}
}
