//go:build linux

package probe

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// The test binary is the attacker too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "probe" {
		os.Exit(Main(os.Args[2:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// ordinary gives credentials of a user that is not root, nil when the test
// runs as one.
func ordinary(t *testing.T) *syscall.Credential {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Skipf("no user to attack as: %v", err)
	}
	uid, err := strconv.ParseUint(nobody.Uid, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	gid, err := strconv.ParseUint(nobody.Gid, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// plainSandbox gives a command that runs an attack in a plain bwrap, without
// any of our own defences: what it must find open. PID 1 there is a shell.
func plainSandbox(t *testing.T, flags []string, args ...string) *exec.Cmd {
	t.Helper()
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		t.Skip("bubblewrap is not installed")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "probe-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	copyFile(t, exe, filepath.Join(dir, "attacker"))
	line := []string{"--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--ro-bind", dir, "/tmp/bin", "--unshare-pid", "--as-pid-1", "--die-with-parent", "--uid", "1000", "--gid", "1000", "--unshare-user"}
	line = append(append(line, flags...), "bash", "-c", `"$@"; exit $?`, "pid1", "/tmp/bin/attacker", "probe")
	c := exec.Command(bwrap, append(line, args...)...)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: ordinary(t)}
	c.Stderr = os.Stderr
	c.Dir = "/"
	return c
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

func finding(t *testing.T, c *exec.Cmd) Finding {
	t.Helper()
	pipe, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(pipe).ReadString('\n')
	c.Process.Kill() // an attack may stay
	c.Wait()
	if line == "" {
		t.Skip("a plain bwrap does not work here")
	}
	var f Finding
	if err := json.Unmarshal([]byte(line), &f); err != nil {
		t.Fatalf("%v: %q", err, line)
	}
	return f
}

// TestAttacksSucceedWithoutDefences is the control of every "blocked" that
// verify prints: the same attack, in a sandbox without the defence, works.
func TestAttacksSucceedWithoutDefences(t *testing.T) {
	const token = "a-token-of-the-host"
	dir := t.TempDir()
	for d := dir; d != "/"; d = filepath.Dir(d) {
		if info, err := os.Stat(d); err == nil && info.Mode().Perm()&0o5 != 0o5 {
			if err := os.Chmod(d, info.Mode().Perm()|0o755); err != nil {
				t.Skipf("the host's side can't be made readable: %v", err)
			}
		}
	}
	file := filepath.Join(dir, "canary")
	if err := os.WriteFile(file, []byte(token), 0o644); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "socket")
	answer(t, "unix", socket, token)
	if err := os.Chmod(socket, 0o777); err != nil {
		t.Fatal(err)
	}
	abstract := "@skerry-control-" + strconv.Itoa(os.Getpid())
	answer(t, "unix", abstract, token)
	tcp := answer(t, "tcp", "127.0.0.1:0", token)
	canary := exec.Command("sleep", "77001."+strconv.Itoa(os.Getpid()))
	if err := canary.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { canary.Process.Kill(); canary.Wait() }()

	bindHost := []string{"--ro-bind", dir, dir}
	hostProc := []string{"--ro-bind", "/proc", "/proc"}
	for name, c := range map[string]struct {
		flags []string
		args  []string
	}{
		"init-memory":           {},
		"init-ptrace":           {},
		"init-process-vm":       {},
		"init-descriptors":      {},
		"init-proc":             {},
		"init-signal":           {},
		"init-signal-compat":    {},
		"init-signal-owner":     {},
		"init-limits":           {},
		"init-priority":         {},
		"init-score":            {},
		"namespaces":            {},
		"keyrings":              {},
		"system-calls":          {},
		"network-interfaces":    {},
		"network-sockets":       {},
		"write-system":          {flags: []string{"--tmpfs", "/mnt"}},
		"devices":               {flags: []string{"--dev-bind", "/dev", "/dev"}},
		"inherited-descriptors": {},
		"privileges":            {},
		"disk":                  {args: []string{"4000000"}},
		"memory":                {args: []string{"16000000"}},
		"memory-shared":         {args: []string{"16000000"}},
		"terminals":             {args: []string{"300"}},
		"processes":             {args: []string{"30"}},
		"host-files":            {flags: bindHost, args: []string{token, file}},
		"host-shadow":           {},
		"host-environment":      {args: []string{"CANARY_OF_THE_HOST", "PATH"}},
		"host-processes":        {flags: hostProc, args: []string{canary.Args[1]}},
		"host-unix":             {flags: bindHost, args: []string{token, socket, abstract}},
		"host-tcp":              {args: []string{token, tcp}},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := plainSandbox(t, c.flags, append([]string{name}, c.args...)...)
			cmd.Env = append(os.Environ(), "CANARY_OF_THE_HOST=1")
			switch name {
			case "inherited-descriptors":
				r, w, err := os.Pipe()
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				defer w.Close()
				cmd.ExtraFiles = []*os.File{r}
			case "privileges":
				// A plain bwrap already takes the privileges: the attack must
				// say so, or it could not tell.
				if f := finding(t, cmd); f.Verdict != Blocked {
					t.Errorf("%+v", f)
				}
				return
			}
			if f := finding(t, cmd); f.Verdict != Open {
				t.Errorf("without defences it must be open: %s, %s", f.Verdict, f.Detail)
			} else {
				t.Log(f.Detail)
			}
		})
	}
}

// answer listens and answers every client with token.
func answer(t *testing.T, network, address, token string) string {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Read(make([]byte, 16)) // its greeting, so that closing does not cut it off
			io.WriteString(c, token)
			c.Close()
		}
	}()
	return l.Addr().String()
}

func TestAttacksAreNotTriedAsRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f := finding(t, exec.Command(exe, "probe", "network-interfaces"))
	if f.Verdict != Unknown || !strings.Contains(f.Detail, "root") {
		t.Errorf("%+v", f)
	}
}

func TestFindingsRoundTrip(t *testing.T) {
	for _, f := range []Finding{{"a", Blocked, "EPERM"}, {"b", Open, `it "worked"`}, {"c", Unknown, ""}} {
		data, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		var back Finding
		if err := json.Unmarshal(data, &back); err != nil || back != f {
			t.Errorf("%s became %+v, %v", data, back, err)
		}
	}
	var f Finding
	for _, bad := range []string{`{"blocked":"yes"}`, `{"blocked":1}`, `{}`, `{"blocked":null}`, `[]`, ``} {
		if err := json.Unmarshal([]byte(bad), &f); err == nil {
			t.Errorf("%s was taken for %+v", bad, f)
		}
	}
}

func TestJudgeNeverPassesWhatIsUnknown(t *testing.T) {
	refused, nothing := attempt{"a", syscall.EPERM}, attempt{"b", syscall.ESRCH}
	worked := attempt{"c", nil}
	for _, c := range []struct {
		attempts []attempt
		want     Verdict
	}{
		{nil, Unknown}, {[]attempt{refused}, Blocked}, {[]attempt{refused, nothing}, Unknown}, {[]attempt{nothing, worked, refused}, Open},
		{[]attempt{{"d", fmt.Errorf("wrapped: %w", syscall.EACCES)}}, Blocked}, {[]attempt{{"e", io.EOF}}, Unknown},
	} {
		if got := judge(c.attempts...); got.Verdict != c.want {
			t.Errorf("%v: %+v, want %s", c.attempts, got, c.want)
		}
	}
}

func TestAttacksHaveNamesAndWords(t *testing.T) {
	name := regexp.MustCompile(`^[a-z][a-z-]+$`)
	seen := map[string]bool{}
	for _, a := range Attacks() {
		if !name.MatchString(a.Name) || seen[a.Name] || a.Tries == "" || a.run == nil {
			t.Errorf("%+v", a)
		}
		seen[a.Name] = true
	}
	r, w := io.Pipe()
	go func() {
		Main(nil, w, io.Discard)
		w.Close()
	}()
	n := 0
	for lines := bufio.NewScanner(r); lines.Scan(); n++ {
	}
	if n != len(seen) {
		t.Errorf("%d attacks listed, want %d", n, len(seen))
	}
	if code := Main([]string{"no-such-attack"}, io.Discard, io.Discard); code != 2 {
		t.Errorf("exit %d", code)
	}
}
