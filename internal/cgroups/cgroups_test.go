//go:build linux

package cgroups

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// recorded is a machine's tree: mountinfo, the own groups, and folders with
// their files. Kernel files of a new group appear with its first use, which
// fill does.
type recorded struct {
	mountinfo, own string
	files          map[string]string
}

func (r recorded) make(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	all := maps.Clone(r.files)
	if all == nil {
		all = map[string]string{}
	}
	all["proc/self/mountinfo"], all["proc/self/cgroup"] = r.mountinfo, r.own
	for name, text := range all {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const (
	mountV2 = "29 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
	mountV1 = "30 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n31 23 0:28 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n" +
		"32 23 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n33 23 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
	// B190: lines that no parser should stumble over.
	oddMounts = "41 23 0:4 net:[4026531840] /run/netns/x rw shared:1 - nsfs nsfs rw\n\n - \nx\n1 2 3:4 / /mnt/a\\040b\\134c rw - tmpfs tmpfs rw\n" +
		"42 23 0:31 / /var/lib/o rw - overlay overlay rw,lowerdir=/a,/b:c - d,upperdir=/x\n43 23 0:32 / /x rw - cgroup\n"
)

func TestOddMountinfoIsReadOrSkipped(t *testing.T) {
	many := strings.Repeat(oddMounts, 3000)
	h, err := ReadHost(recorded{mountinfo: many + mountV1 + many, own: "9:memory:/\nnonsense\n0::/\n"}.make(t))
	if err != nil {
		t.Fatal(err)
	}
	if h.v1[Memory] != "/sys/fs/cgroup/memory" || h.v1[CPUAcct] != "/sys/fs/cgroup/cpu,cpuacct" || h.v2 != "/sys/fs/cgroup/unified" {
		t.Errorf("got %+v", h)
	}
	for in, want := range map[string]string{`/a\040b`: "/a b", `\134`: `\`, `/x\0`: `/x\0`, `/é\011`: "/é\t", `\9zz`: `\9zz`} {
		if got := unescape(in); got != want {
			t.Errorf("unescape(%q) = %q, want %q", in, got, want)
		}
	}
}

// kernel makes the files that a kernel would put in a new group, so that
// limits can be written to a recorded tree.
func kernel(t *testing.T, dir string, files ...string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(dir, f), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func content(t *testing.T, dir, file string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

func TestVersion2AsRoot(t *testing.T) {
	root := recorded{mountinfo: mountV2, own: "0::/system.slice/x.service\n", files: map[string]string{
		"sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids", "sys/fs/cgroup/cgroup.subtree_control": "cpu memory pids", "sys/fs/cgroup/cgroup.procs": "",
	}}.make(t)
	h, err := ReadHost(root)
	if err != nil {
		t.Fatal(err)
	}
	if got := h.place(); got[Memory] != "/sys/fs/cgroup" || got[PIDs] != "/sys/fs/cgroup" || got[CPU] != "/sys/fs/cgroup" {
		t.Fatalf("place %v", got)
	}
	dir := filepath.Join(root, "sys/fs/cgroup/p/k")
	kernel(t, filepath.Dir(dir), "cgroup.subtree_control")
	d := Dir{Path: dir, V2: true, Controllers: []string{Memory, PIDs, CPU}}
	kernel(t, dir, "memory.max", "memory.swap.max", "memory.oom.group", "pids.max", "cpu.max", "cgroup.procs")
	if err := d.limitV2(Limits{MemoryBytes: 1 << 27, MilliCPU: 250, PIDs: 300}); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"memory.max": "134217728", "memory.swap.max": "0", "memory.oom.group": "0", "pids.max": "300", "cpu.max": "25000 100000"} {
		if got := content(t, dir, file); got != want {
			t.Errorf("%s is %q, want %q", file, got, want)
		}
	}
	g := Group{Dirs: []Dir{d}}
	if err := g.Add(42); err != nil || content(t, dir, "cgroup.procs") != "42" {
		t.Errorf("add: %v", err)
	}
	if got := g.Binds(); !maps.Equal(got, map[string]string{"/sys/fs/cgroup": dir}) {
		t.Errorf("binds %v", got)
	}
	if got := h.Children("p"); !slices.Equal(got, []string{"k"}) {
		t.Errorf("children %v", got)
	}
	if got := h.Names("p", "k"); !slices.Equal(got, []string{dir}) {
		t.Errorf("names %v", got)
	}
}

// An ordinary user may use what systemd delegated, and nothing above it.
func TestVersion2Delegated(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Log("as root every folder is writable; what is not is left out of the tree")
	}
	user := "sys/fs/cgroup/user.slice/user@1000.service/"
	root := recorded{mountinfo: mountV2, own: "0::/user.slice/user@1000.service/app.slice/run.scope\n", files: map[string]string{
		user + "cgroup.controllers": "cpu memory pids", user + "cgroup.subtree_control": "memory pids", user + "cgroup.procs": "",
		user + "app.slice/run.scope/cgroup.procs": "7",
	}}.make(t)
	h, err := ReadHost(root)
	if err != nil {
		t.Fatal(err)
	}
	got := h.place()
	if got[Memory] != "/user.slice/user@1000.service" && got[Memory] != "/sys/fs/cgroup/user.slice/user@1000.service" {
		t.Errorf("place %v", got)
	}
	if got[PIDs] == "" {
		t.Errorf("pids are delegated: %v", got)
	}
}

// B106: where nothing is permitted the missing controllers are named, and it
// is no failure.
func TestNothingPermitted(t *testing.T) {
	for name, r := range map[string]recorded{
		"no control groups": {mountinfo: oddMounts, own: ""},
		"no controllers":    {mountinfo: mountV2, own: "0::/\n", files: map[string]string{"sys/fs/cgroup/cgroup.controllers": "", "sys/fs/cgroup/cgroup.subtree_control": "", "sys/fs/cgroup/cgroup.procs": ""}},
	} {
		h, err := ReadHost(r.make(t))
		if err != nil {
			t.Fatal(err)
		}
		g, err := h.Create("p", "k", Limits{MemoryBytes: 1})
		if err != nil || len(g.Dirs) != 0 || !slices.Equal(g.Missing, []string{Memory, PIDs, CPU}) {
			t.Errorf("%s: %+v, %v", name, g, err)
		}
	}
	if _, err := ReadHost(t.TempDir()); err == nil {
		t.Error("a machine without /proc has control groups")
	}
}

// On this machine, where it permits it.
func TestRealGroup(t *testing.T) {
	h, err := ReadHost("")
	if err != nil {
		t.Fatal(err)
	}
	if p := h.Permitted(); !p[Memory] || !p[PIDs] || !p[CPU] {
		t.Skipf("permitted here: %v", p)
	}
	parent := fmt.Sprint("skerry-test-", os.Getpid())
	g, err := h.Create(parent, "k", Limits{MemoryBytes: 64 << 20, MilliCPU: 500, PIDs: 20})
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command("sh", "-c", "read x; for i in 1 2 3; do sleep 300 & done; wait")
	in, _ := child.StdinPipe()
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if err := g.Add(child.Process.Pid); err != nil {
		t.Fatal(err)
	}
	for _, d := range g.Dirs {
		if got := procs(d.Path); !slices.Contains(got, child.Process.Pid) {
			t.Errorf("%s holds %v", d.Path, got)
		}
	}
	in.Write([]byte("\n"))
	second, err := h.Create(parent, "l", Limits{MemoryBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if err := Remove(g.Paths()); err != nil { // kills
		t.Error(err)
	}
	child.Wait()
	if got := h.Children(parent); !slices.Equal(got, []string{"l"}) {
		t.Errorf("children %v: the neighbour must stay", got)
	}
	if err := Remove(second.Paths()); err != nil {
		t.Error(err)
	}
	if err := Remove(second.Paths()); err != nil {
		t.Errorf("twice: %v", err)
	}
	if _, err := os.Stat(filepath.Dir(g.Paths()[0])); err == nil {
		t.Error("the empty parent stays")
	}
}

func TestKillsForMemoryAreCounted(t *testing.T) {
	for name, c := range map[string]struct {
		v2   bool
		file string
		text string
		want int64
	}{
		"v1":                            {false, "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", 3},
		"v2":                            {true, "memory.events", "low 0\nhigh 0\nmax 7\noom 2\noom_kill 2\noom_group_kill 0\n", 2},
		"v1, a counter that is missing": {false, "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\n", -1},
		"v2, no file":                   {true, "other", "", -1},
		"v2, nonsense":                  {true, "memory.events", "oom_kill many\n", -1},
	} {
		dir := t.TempDir()
		kernel(t, dir, c.file)
		if err := os.WriteFile(filepath.Join(dir, c.file), []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		g := &Group{Dirs: []Dir{{Path: t.TempDir(), Controllers: []string{PIDs}}, {Path: dir, V2: c.v2, Controllers: []string{Memory}}}}
		if got := g.OOMKills(); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	if got := (&Group{}).OOMKills(); got != -1 {
		t.Errorf("a group without a controller counts %d", got)
	}
}
