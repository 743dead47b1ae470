//go:build linux

package image

import (
	"archive/zip"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// needsRuntimes skips where root file systems can't be made, and returns those
// that were made, or makes them.
func needsRuntimes(t *testing.T) []Image {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: root file systems can only be made by root")
	}
	if testing.Short() {
		t.Skip("SKIPPED: -short, and the runtime images take a minute to be built")
	}
	b, err := newBuilder(Options{Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	images, err := b.runtimes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return images
}

func TestRuntimesAreAtHomeUnderAnyUser(t *testing.T) {
	for _, image := range needsRuntimes(t) {
		name, tag, _ := strings.Cut(strings.TrimPrefix(image.Name, repository), ":")
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			config := extract(t, image, root)
			noSpecialFiles(t, root)
			for _, uid := range []int{1000, 123456} {
				t.Run(strconv.Itoa(uid), func(t *testing.T) {
					s := sandbox{root: root, uid: uid, env: config.Config.Env, dir: config.Config.WorkingDir}
					s.check(t, map[string]string{"1000": "skerry"}[strconv.Itoa(uid)])
					if name != "bash" {
						s.checkPython(t)
					}
					if name == "node" {
						s.checkNode(t)
					}
					version := map[string]string{"bash": "bash --version", "python": "python3 --version", "node": "node --version"}[name]
					if got := s.run(t, version); !strings.Contains(strings.ReplaceAll(got, "v", " "), " "+tag+".") {
						t.Errorf("the image is called %s and has %s", image.Name, got)
					}
				})
			}
		})
	}
}

// noSpecialFiles looks for what would let somebody become another.
func noSpecialFiles(t *testing.T, root string) {
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode()&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeDevice) != 0 && !info.IsDir() {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A sandbox runs commands in an image as a restricted pod does: any user, a
// root file system that can't be written, and empty folders where it may write.
type sandbox struct {
	root string
	uid  int
	env  []string
	dir  string
}

func (s sandbox) command(t *testing.T, script string, files ...string) *exec.Cmd {
	args := []string{
		"--unshare-all", "--die-with-parent", "--uid", strconv.Itoa(s.uid), "--gid", strconv.Itoa(s.uid),
		"--ro-bind", s.root, "/", "--proc", "/proc", "--dev", "/dev",
		"--tmpfs", "/tmp", "--tmpfs", "/home/skerry", "--tmpfs", "/workspace",
		"--clearenv", "--chdir", s.dir,
	}
	for _, variable := range s.env {
		name, value, _ := strings.Cut(variable, "=")
		args = append(args, "--setenv", name, value)
	}
	for _, file := range files {
		args = append(args, "--ro-bind", file, "/workspace/"+filepath.Base(file))
	}
	return exec.CommandContext(t.Context(), "bwrap", append(args, "bash", "-euo", "pipefail", "-c", script)...)
}

func (s sandbox) run(t *testing.T, script string, files ...string) string {
	t.Helper()
	out, err := s.command(t, script, files...).CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v: %s", script, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (s sandbox) check(t *testing.T, user string) {
	if got := s.run(t, `cd && pwd && touch x "$TMPDIR/x" /workspace/x && mkdir -p "$XDG_CACHE_HOME" "$XDG_CONFIG_HOME" "$XDG_DATA_HOME" "$XDG_STATE_HOME" && id -u && echo "$USER $LOGNAME"`); got != fmt.Sprintf("/home/skerry\n%d\nskerry skerry", s.uid) {
		t.Errorf("home, uid and names are %q", got)
	}
	// The name of a user that the image does not know can't be told.
	out, err := s.command(t, "whoami").CombinedOutput()
	if user == "" && err == nil || user != "" && strings.TrimSpace(string(out)) != user {
		t.Errorf("whoami says %q, %v", out, err)
	}
	if out, err := s.command(t, "touch /usr/x").CombinedOutput(); err == nil {
		t.Errorf("the root file system can be written to: %s", out)
	}
	if got := s.run(t, `echo '{"a": 1}' | jq .a; curl --version | head -c 4; echo; test -s /etc/ssl/certs/ca-certificates.crt; zip -q x.zip /etc/passwd; unzip -l x.zip | grep -c passwd; ps -o comm= 1`); !strings.HasPrefix(got, "1\ncurl\n1\n") {
		t.Errorf("the tools say %q", got)
	}
}

func (s sandbox) checkPython(t *testing.T) {
	wheel := wheelOf(t)
	if got := s.run(t, `python3 -c 'import ssl, sqlite3, getpass, os.path; print(getpass.getuser(), os.path.expanduser("~"))'`); got != "skerry /home/skerry" {
		t.Errorf("Python says %q", got)
	}
	if got := s.run(t, `pip install -q --no-index ./`+filepath.Base(wheel)+` && python3 -c 'import hello; print(hello.__file__)'`, wheel); !strings.HasSuffix(got, "\n/home/skerry/.local/lib/python3.11/site-packages/hello.py") && got != "/home/skerry/.local/lib/python3.11/site-packages/hello.py" {
		t.Errorf("what pip installed is at %q", got)
	}
	if got := s.run(t, `python3 -m venv --system-site-packages v && v/bin/python -m pip install -q --no-index ./`+filepath.Base(wheel)+` && v/bin/python -c 'import hello; print(hello.__file__)'`, wheel); got != "/workspace/v/lib/python3.11/site-packages/hello.py" {
		t.Errorf("what was installed in a venv is at %q", got)
	}
	if got := s.run(t, `pip cache dir`); got != "/home/skerry/.cache/pip" {
		t.Errorf("the cache of pip is %q", got)
	}
	// Compiled once and for all: nothing could be kept that is compiled later.
	if got := s.run(t, `python3 -v -c 'import json' 2>&1 | grep -c 'matches /usr/lib/python3.11/json' || true`); got == "0" {
		t.Error("the compiled standard library is not used")
	}
}

func (s sandbox) checkNode(t *testing.T) {
	if got := s.run(t, `node -e 'require("fs").writeFileSync("x", "y"); console.log(require("os").homedir(), require("fs").readFileSync("x", "utf8"))'`); got != "/home/skerry y" {
		t.Errorf("node says %q", got)
	}
}

// wheelOf makes the smallest package that pip installs.
func wheelOf(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "hello-1.0-py3-none-any.whl")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	w := zip.NewWriter(file)
	for _, part := range [][2]string{
		{"hello.py", "word = 'hello'\n"},
		{"hello-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: hello\nVersion: 1.0\n"},
		{"hello-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{"hello-1.0.dist-info/RECORD", "hello.py,,\nhello-1.0.dist-info/METADATA,,\nhello-1.0.dist-info/WHEEL,,\nhello-1.0.dist-info/RECORD,,\n"},
	} {
		out, err := w.Create(part[0])
		if err == nil {
			_, err = out.Write([]byte(part[1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// What is kept may be of an older state of Debian's archive; then two new
// builds are compared.
func TestTheSamePackagesGiveTheSameDigests(t *testing.T) {
	before := digests(needsRuntimes(t))
	for range 2 {
		b, err := newBuilder(Options{Cache: t.TempDir(), Log: t.Output()})
		if err != nil {
			t.Fatal(err)
		}
		images, err := b.runtimes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if slices.Equal(digests(images), before) {
			return
		}
		before = digests(images)
	}
	t.Fatal("no two builds were the same")
}

func digests(images []Image) []string {
	var out []string
	for _, image := range images {
		out = append(out, image.Name+"@"+image.Digest)
	}
	return out
}
