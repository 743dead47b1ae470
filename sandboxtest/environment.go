package sandboxtest

import (
	"strings"
	"testing"
	"time"

	"github.com/skerry-run/skerry"
)

// testEnvironment has what every program finds around it.
func testEnvironment(t *testing.T, s *suite) {
	// Whatever this process knows must not be known inside.
	for _, name := range []string{"AWS_SECRET_ACCESS_KEY", "DATABASE_URL", "SENTRY_DSN", "SSH_AUTH_SOCK", "GITHUB_TOKEN"} { // B182
		t.Setenv(name, "canary-of-the-host")
	}
	b := s.session(t)

	t.Run("has the usual variables", func(t *testing.T) { // B064
		b := b.on(t)
		for _, spec := range []skerry.CommandSpec{
			argv("bash", "-c", `echo "$HOME $USER $LOGNAME $TMPDIR $LANG $PWD"`), script(`echo "$HOME $USER $LOGNAME $TMPDIR $LANG $PWD"`),
		} {
			b.do(spec).wantOut("/home/skerry skerry skerry /tmp C.UTF-8 /workspace\n")
		}
	})

	t.Run("has nothing of the host's environment", func(t *testing.T) { // B182, B183, X1
		b := b.on(t)
		d := b.do(argv("bash", "-c", "env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'")).want(0)
		if strings.Contains(d.out, "canary-of-the-host") {
			t.Error("it is readable inside")
		}
	})

	t.Run("runs as an ordinary user with a name", func(t *testing.T) {
		b := b.on(t)
		b.do(argv("id", "-un")).wantOut("skerry\n")
		if d := b.do(argv("id", "-u")).want(0); d.out == "0\n" {
			t.Error("it runs as root")
		}
	})

	t.Run("has no capabilities and can't gain any", func(t *testing.T) {
		d := b.on(t).do(argv("grep", "-E", "^(CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp):", "/proc/self/status")).want(0)
		for line := range strings.Lines(d.out) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
			switch {
			case name == "NoNewPrivs" && value != "1", name == "Seccomp" && value != "2", strings.HasPrefix(name, "Cap") && strings.Trim(value, "0") != "":
				t.Errorf("%s is %s", name, value)
			}
		}
	})

	t.Run("has writable places and a read-only system", func(t *testing.T) { // B042
		b := b.on(t)
		b.do(argv("bash", "-c", `for d in /workspace /tmp "$HOME" /dev/shm "$TMPDIR"; do echo x > "$d/w" && rm "$d/w" || echo "no $d"; done`)).wantOut("")
		b.do(argv("bash", "-c", `for d in / /usr /etc /bin /dev /proc/sys/kernel/domainname /sys /var/lib /run /root /home; do { echo x > "$d/skerry-w" || echo x > "$d"; } 2>/dev/null && echo "writable $d"; done; true`)).wantOut("")
	})

	t.Run("has the devices that programs need", func(t *testing.T) {
		b.on(t).do(argv("bash", "-c", "echo x > /dev/null; head -c 4 /dev/zero | wc -c; head -c 8 /dev/urandom | wc -c; echo via fd > /dev/stdout; : < /dev/fd/0; test -d /dev/pts && echo pts")).wantOut("4\n8\nvia fd\npts\n")
	})

	t.Run("prints non-ASCII", func(t *testing.T) { // B064
		b := b.on(t)
		b.needProgram("python3")
		b.do(argv("python3", "-c", `print("\u2615")`)).wantOut("☕\n")
	})

	t.Run("gives programs places for caches, whatever uid they have", func(t *testing.T) { // B104
		b := b.on(t)
		b.needProgram("python3")
		b.do(argv("python3", "-c", `import os, tempfile
for d in (os.environ["XDG_CACHE_HOME"], os.environ["MPLCONFIGDIR"], os.path.expanduser("~/.local/lib"), tempfile.mkdtemp()):
    os.makedirs(d, exist_ok=True)
    open(d + "/x", "w").close()
print("ok")`)).wantOut("ok\n")
	})

	t.Run("loses nothing that was printed before a limit", func(t *testing.T) { // B059
		b := b.on(t)
		b.needProgram("python3")
		spec := script(`python3 -c 'print("early"); import time; time.sleep(60)'`)
		spec.Timeout = 2 * time.Second
		if d := b.do(spec); d.exit.Outcome != skerry.Timeout || d.out != "early\n" {
			t.Errorf("outcome %s, stdout %q; want timeout with what was printed", d.exit.Outcome, d.out)
		}
	})

	t.Run("begins in an empty workspace", func(t *testing.T) {
		s.session(t).sh("pwd; ls -A").wantOut("/workspace\n")
	})
}
