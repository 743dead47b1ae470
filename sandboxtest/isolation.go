package sandboxtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func testIsolation(t *testing.T, s *suite) {
	t.Run("two sandboxes don't see each other", func(t *testing.T) {
		a, b := s.session(t), s.session(t)
		a.sh("for d in /workspace /tmp ~ /dev/shm; do echo secret > $d/of-a; done; export OF_A=1").want(0)
		c := a.start(argv("sleep", "4328"))
		a.until("it sleeps", func() bool { return a.processes("sleep 4328") == "1" })
		b.sh("ls /workspace /tmp ~ /dev/shm | grep of-a; echo $OF_A").wantOut("\n")
		if n := b.processes("sleep 4328"); n != "0" {
			t.Error("one sees the other's process")
		}
		if _, err := b.Command(b.ctx, c.ID()); err == nil {
			t.Error("one sees the other's command")
		}
	})

	t.Run("a process of the host is not seen", func(t *testing.T) {
		b := s.session(t)
		d := b.do(argv("bash", "-c", "cat /proc/[0-9]*/comm")).want(0)
		for name := range strings.FieldsSeq(d.out) {
			if name == "systemd" || name == "dockerd" || name == "containerd" || strings.HasSuffix(name, ".test") {
				t.Errorf("%s is seen", name)
			}
		}
	})

	t.Run("files of the host are not seen", func(t *testing.T) {
		dir, err := os.MkdirTemp("", "host-secret-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		secret := filepath.Join(dir, "canary")
		if err := os.WriteFile(secret, []byte("canary"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		b := s.session(t)
		wd, _ := os.Getwd()
		home, _ := os.UserHomeDir()
		for _, path := range []string{secret, "/etc/shadow", "/root/.", home + "/.", wd + "/.", "/var/lib/.", "/var/log/."} {
			b.do(argv("bash", "-c", `cat "$1" 2>/dev/null || ls -A "$1" 2>/dev/null; true`, "x", path)).wantOut("")
		}
	})
}
