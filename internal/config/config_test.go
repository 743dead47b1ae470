package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skerry-run/skerry"
)

// load writes a configuration file and loads it with an environment of pairs.
func load(t *testing.T, yaml string, env map[string]string, flags ...Override) (*Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "skerry.yaml")
	if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(Options{Path: path, Flags: flags, Env: func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}})
	if c != nil && c.file != path {
		t.Errorf("the file is %q, want %q", c.file, path)
	}
	return c, err
}

func sourceOf(t *testing.T, c *Config, key string) (value, source string) {
	t.Helper()
	for _, s := range c.Settings() {
		if s.Key == key {
			return s.Value, s.Source
		}
	}
	t.Fatalf("there is no setting %s", key)
	return "", ""
}

// B195: every default of the design is shown, with its source.
func TestBuiltinSettings(t *testing.T) {
	c, err := Load(Options{Env: func(name string) (string, bool) {
		return t.TempDir(), name == "XDG_CONFIG_HOME"
	}})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"backend": "local", "org": "default", "network": "deny",
		"limits.memory": "512Mi", "limits.cpu": "1", "limits.memory_request": "64Mi", "limits.cpu_request": "50m", "limits.pids": "256",
		"limits.workspace": "1Gi", "limits.tmp": "256Mi", "limits.shm": "64Mi",
		"timeouts.run": "1m", "timeouts.command": "2m", "timeouts.ttl": "4h", "timeouts.idle": "30m", "timeouts.grace": "3s", "timeouts.start": "2m",
		"artifacts.each": "64Mi", "artifacts.total": "256Mi", "inputs.total": "256Mi", "output.inline": "1Mi",
	} {
		if value, source := sourceOf(t, c, key); value != want || source != "built-in" {
			t.Errorf("%s is %s (%s), want %s (built-in)", key, value, source, want)
		}
	}
}

func TestLaterLayersWin(t *testing.T) {
	const file = `
backend: local
limits:
  memory: 1Gi
  pids: 100
  cpu: 2
timeouts: {command: 10s, idle: 20m, run: 30}
network: internet
profile: big
profiles:
  big:
    limits: {memory: 2Gi, pids: 200}
    network: deny
    env: {TOKEN: hunter2, "EMPTY": }
`
	env := map[string]string{"SKERRY_PIDS": "300", "TERMINAL_TIMEOUT": "40", "TERMINAL_LIFETIME_SECONDS": "600", "SKERRY_IDLE": "15m", "SKERRY_CPU": ""}
	c, err := load(t, file, env, Override{"timeouts.run", "--timeout", "50s"})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string][2]string{
		"limits.memory":    {"2Gi", "skerry.yaml:12"},
		"limits.pids":      {"300", "env SKERRY_PIDS"},
		"limits.cpu":       {"2", "skerry.yaml:6"},
		"timeouts.command": {"40s", "env TERMINAL_TIMEOUT"},
		"timeouts.idle":    {"15m", "env SKERRY_IDLE"},
		"timeouts.run":     {"50s", "flag --timeout"},
		"network":          {"deny", "skerry.yaml:13"},
		"profile":          {"big", "skerry.yaml:9"},
	} {
		if value, source := sourceOf(t, c, key); value != want[0] || !strings.HasSuffix(source, want[1]) {
			t.Errorf("%s is %s (%s), want %s (%s)", key, value, source, want[0], want[1])
		}
	}
	// B196: a variable may be a secret.
	if value, _ := sourceOf(t, c, "env.TOKEN"); value == "hunter2" || c.Env["TOKEN"] != "hunter2" || len(c.Env) != 2 {
		t.Errorf("TOKEN is shown as %q, env is %q", value, c.Env)
	}
}

func TestProfileIsChosenByTheStrongest(t *testing.T) {
	const file = "profile: a\nprofiles:\n  a: {limits: {pids: 10}}\n  b: {limits: {pids: 20}}\n  c:\n"
	c, err := load(t, file, map[string]string{"SKERRY_PROFILE": "a"}, Override{"profile", "--profile", "b"})
	if err != nil || c.Limits.PIDs != 20 || c.Profile != "b" {
		t.Fatalf("%v", err)
	}
	_, err = load(t, file, nil, Override{"profile", "--profile", "d"})
	if err == nil || !strings.Contains(err.Error(), `no profile "d"`) || skerry.HintOf(err) != "the profiles are a, b, c" {
		t.Errorf("a missing profile gave %v, hint %q", err, skerry.HintOf(err))
	}
}

func TestMistakesAreToldWithTheirPlace(t *testing.T) {
	for _, c := range []struct{ name, yaml, want, hint string }{
		{"unknown key", "backend: local\nbakend: x\n", "skerry.yaml:2: unknown key \"bakend\"", `did you mean "backend"?`},
		{"unknown key in a group", "limits:\n  memori: 1Gi\n", "skerry.yaml:2: unknown key \"memori\" in limits", `did you mean "memory"?`},
		{"nothing near", "zzzzzzzz: 1\n", "skerry.yaml:1: unknown key", "the keys here are backend"},
		{"setting that no profile has", "profiles:\n  p:\n    backend: local\n", "skerry.yaml:3: unknown key \"backend\"", ""},
		{"bad value", "limits:\n  memory: lots\n", "skerry.yaml:2: limits.memory: \"lots\" is not a size", "512Mi"},
		{"bad value in a profile nobody chose", "profiles:\n  p:\n    limits:\n      cpu: x\n", "skerry.yaml:4: limits.cpu", ""},
		{"zero", "timeouts: {run: 0}\n", "skerry.yaml:1: timeouts.run: \"0\" is no time", ""},
		{"list for a value", "backend: [local]\n", "skerry.yaml:1: backend is a list", ""},
		{"value for a group", "limits: 5\n", "skerry.yaml:1: limits is a value, want a mapping", ""},
		{"twice", "backend: local\n\nbackend: docker\n", "skerry.yaml:3", ""},
		{"not YAML", "a: [1\n", "skerry.yaml:1: not valid YAML", ""},
		{"a list", "- a\n", "skerry.yaml:1: the configuration is a list", ""},
		{"alias", "backend: &x local\norg: *x\n", "skerry.yaml:1", ""},
		{"second document", "backend: local\n---\norg: x\n", "a second document", ""},
		{"relative path", "local: {init: bin/skerry-init}\n", "not an absolute path", ""},
		{"artifact above total", "artifacts: {each: 1Gi, total: 1Mi}\n", "artifacts.each is 1Gi", "lower artifacts.each or raise artifacts.total"},
		{"idle above ttl", "timeouts: {idle: 2h, ttl: 1h}\n", "timeouts.idle is 2h", ""},
		{"timeout above max", "timeouts: {run: 2h, max: 1h}\n", "timeouts.run is 2h", ""},
		{"request above limit", "limits: {memory: 64Mi, memory_request: 128Mi}\n", "limits.memory_request is 128Mi", ""},
		{"language without command", "languages: [{name: ruby}]\n", "the language ruby has no command", ""},
		{"language with unknown key", "languages: [{name: ruby, comand: ruby}]\n", "unknown key \"comand\" in a language", `did you mean "command"?`},
		{"ending without dot", "languages: [{name: ruby, command: ruby, endings: rb}]\n", "starts with a dot", ""},
		{"image of an unknown language", "profiles: {p: {images: {rubi: x}}}\n", "unknown language \"rubi\"", "bash, node, python"},
		{"nul in env", "profiles: {p: {env: {\"a=b\": x}}}\n", "not a variable's name", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := load(t, c.yaml, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(skerry.HintOf(err), c.hint) || skerry.KindOf(err) != skerry.Invalid {
				t.Errorf("got %v (hint %q), want %q (%q)", err, skerry.HintOf(err), c.want, c.hint)
			}
		})
	}
}

// B074: a contradiction is an error where it was made, and a narrower limit of
// a later layer lowers what an earlier one says.
func TestContradictions(t *testing.T) {
	c, err := load(t, "timeouts: {idle: 40m}\n", nil, Override{"timeouts.ttl", "--ttl", "20s"})
	if err != nil || c.Timeouts.Idle != 20*time.Second {
		t.Errorf("--ttl below the file's idle gave %v, %v", c, err)
	}
	if _, err := load(t, "timeouts: {ttl: 10m}\n", nil, Override{"timeouts.idle", "--idle", "20m"}); err == nil || !strings.Contains(err.Error(), "flag --idle") {
		t.Errorf("--idle above the file's ttl gave %v", err)
	}
	if c, err := load(t, "", nil, Override{"limits.memory", "--memory", "32Mi"}); err != nil || c.Limits.MemoryRequestBytes != 32<<20 {
		t.Errorf("--memory below the built-in request gave %v", err)
	}
}

func TestLanguagesOfTheFile(t *testing.T) {
	c, err := load(t, "languages:\n  - name: Ruby\n    aliases: [RB]\n    endings: .rb\n    command: [ruby, -W0]\n    install: apt-get install ruby\n  - {name: bash, command: [bash, -eu]}\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	if l, err := c.Languages.Find("rb"); err != nil || l.Command[1] != "-W0" || l.Install == "" {
		t.Errorf("rb is %+v, %v", l, err)
	}
	if l, err := c.Languages.FindFor("x.RB", nil); err != nil || l.Name != "ruby" {
		t.Errorf("x.RB is %+v, %v", l, err)
	}
	if l, err := c.Languages.Find("bash"); err != nil || len(l.Command) != 2 {
		t.Errorf("bash is %+v, %v", l, err)
	}
	if _, source := sourceOf(t, c, "languages.ruby"); !strings.HasSuffix(source, ":2") {
		t.Errorf("ruby comes from %s", source)
	}
}

func TestImages(t *testing.T) {
	const file = "image: general\nprofiles: {p: {images: {py: snake}}}\n"
	c, err := load(t, file, nil, Override{"profile", "--profile", "p"})
	if err != nil {
		t.Fatal(err)
	}
	python, _ := c.Languages.Find("python")
	bash, _ := c.Languages.Find("bash")
	if c.ImageFor(python) != "snake" || c.ImageFor(bash) != "general" || c.ImageAsked() {
		t.Errorf("images are %q and %q", c.ImageFor(python), c.ImageFor(bash))
	}
	c, err = load(t, file, nil, Override{"profile", "--profile", "p"}, Override{"image", "--image", "mine"})
	if err != nil || c.ImageFor(python) != "mine" || !c.ImageAsked() {
		t.Errorf("--image gave %q, %v", c.ImageFor(python), err)
	}
}

func TestPlaces(t *testing.T) {
	home := t.TempDir()
	write := func(path, text string, mode os.FileMode) string {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	env := map[string]string{"HOME": home}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	orgOf := func(o Options) string {
		t.Helper()
		o.Env = lookup
		c, err := Load(o)
		if err != nil {
			return err.Error()
		}
		return c.Org
	}

	// The current directory is never looked at, by any name.
	t.Chdir(t.TempDir())
	for _, name := range []string{"skerry.yaml", ".skerry.yaml", "skerry/skerry.yaml", ".config/skerry/skerry.yaml"} {
		write(name, "org: here\n", 0o600)
	}
	for _, xdg := range []string{"", ".", "relative"} {
		env["XDG_CONFIG_HOME"] = xdg
		if got := orgOf(Options{}); got != "default" {
			t.Errorf("XDG_CONFIG_HOME=%q: org is %q", xdg, got)
		}
	}
	delete(env, "XDG_CONFIG_HOME")

	write(filepath.Join(home, ".config", "skerry", "skerry.yaml"), "org: home\n", 0o600)
	if got := orgOf(Options{}); got != "home" {
		t.Errorf("org is %q", got)
	}
	env["XDG_CONFIG_HOME"] = filepath.Join(home, "xdg")
	write(filepath.Join(home, "xdg", "skerry", "skerry.yaml"), "org: xdg\n", 0o600)
	if got := orgOf(Options{}); got != "xdg" {
		t.Errorf("org is %q", got)
	}
	env["SKERRY_CONFIG"] = write(filepath.Join(home, "named"), "org: variable\n", 0o600)
	if got := orgOf(Options{}); got != "variable" {
		t.Errorf("org is %q", got)
	}
	flag := write(filepath.Join(home, "flag"), "org: flag\n", 0o600)
	if got := orgOf(Options{Path: flag}); got != "flag" {
		t.Errorf("org is %q", got)
	}
	if got := orgOf(Options{Path: filepath.Join(home, "missing")}); !strings.Contains(got, "there is no file") {
		t.Errorf("a missing --config gave %q", got)
	}
	if got := orgOf(Options{Path: write(filepath.Join(home, "open"), "org: open\n", 0o666)}); !strings.Contains(got, "written by everybody") {
		t.Errorf("a world-writable file gave %q", got)
	}
	if os.Geteuid() == 0 {
		other := write(filepath.Join(home, "other"), "org: other\n", 0o600)
		if err := os.Chown(other, 12345, 12345); err != nil {
			t.Fatal(err)
		}
		if got := orgOf(Options{Path: other}); !strings.Contains(got, "belongs to another user") {
			t.Errorf("another user's file gave %q", got)
		}
	}
}

func TestQuantities(t *testing.T) {
	for in, want := range map[string]int64{"512Mi": 512 << 20, "1Gi": 1 << 30, "500M": 500e6, "1000000": 1e6, "1.5Ki": 1536, "2k": 2000, "0.5Gi": 1 << 29} {
		if got, err := ParseBytes(in); err != nil || got != want {
			t.Errorf("%q: got %d, %v", in, got, err)
		}
	}
	for _, bad := range []string{"", "0", "-1", "-5Mi", "512m", "512MB", "1e12", "Mi", "0.1Gi", "1.2.3", "1/2", "0x10", "9999999999999Ti", " 1Mi", "1 Mi", "NaN", "∞", strings.Repeat("9", 100)} {
		if got, err := ParseBytes(bad); err == nil {
			t.Errorf("%q: got %d", bad, got)
		}
	}
	for in, want := range map[string]int64{"0.5": 500, "500m": 500, "2": 2000, "1.25": 1250, "0.001": 1} {
		if got, err := ParseMilliCPU(in); err != nil || got != want {
			t.Errorf("%q: got %d, %v", in, got, err)
		}
	}
	for _, bad := range []string{"", "0", "-1", "0.0001", "m", "1.5m", "9999999", "two"} {
		if got, err := ParseMilliCPU(bad); err == nil {
			t.Errorf("%q: got %d", bad, got)
		}
	}
	for in, want := range map[string]time.Duration{"60": time.Minute, "90s": 90 * time.Second, "1h30m": 90 * time.Minute, "1ms": time.Millisecond, "720h": skerry.MaxDuration} {
		if got, err := ParseDuration(in); err != nil || got != want {
			t.Errorf("%q: got %v, %v", in, got, err)
		}
	}
	// B075
	for _, bad := range []string{"", "0", "0s", "-1", "-3s", "1e12", "1000000000000", "soon", "1ns", "721h", "99999999999999999999"} {
		if got, err := ParseDuration(bad); err == nil {
			t.Errorf("%q: got %v", bad, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("backend: local\nlimits: {memory: 1Gi}\nprofiles:\n  a:\n    env: {K: v}\nlanguages:\n - {name: x, command: [y]}\n")
	f.Add("a: &x [*x]\n")
	f.Fuzz(func(t *testing.T, text string) {
		c := Builtin()
		if err := c.parseFile("skerry.yaml", []byte(text)); err != nil && skerry.KindOf(err) != skerry.Invalid {
			t.Errorf("%q gave the kind %s: %v", text, skerry.KindOf(err), err)
		}
		c.Settings()
	})
}
