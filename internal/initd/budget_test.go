//go:build linux

package initd

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	pb "github.com/skerry-run/skerry/internal/initproto"
)

const (
	maxBinaryBytes = 15 << 20
	maxIdleRSS     = 15 << 20
)

func TestTheBinaryIsSmallAndKnowsNoCluster(t *testing.T) {
	info, err := os.Stat(initBinary)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("skerry-init has %.1f MiB", float64(info.Size())/(1<<20))
	if info.Size() > maxBinaryBytes {
		t.Errorf("skerry-init has %d bytes, at most %d", info.Size(), maxBinaryBytes)
	}
	out, err := exec.Command("go", "list", "-deps", "../../cmd/skerry-init").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dep := range strings.Lines(string(out)) {
		if strings.HasPrefix(dep, "k8s.io/") || strings.HasPrefix(dep, "sigs.k8s.io/") {
			t.Errorf("skerry-init links %s", strings.TrimSpace(dep))
		}
	}
}

// rssOf reads the memory that a process holds.
func rssOf(t testing.TB, pid string) int64 { return statusOf(t, pid, "VmRSS:") }

func statusOf(t testing.TB, pid, field string) int64 {
	t.Helper()
	data, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		if rest, ok := bytes.CutPrefix(line, []byte(field)); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(string(rest)), " kB"), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kb << 10
		}
	}
	return 0 // a zombie
}

// initPIDs gives the init and its keepers, in the numbering of the test.
func (b *box) initPIDs() (init string, keepers []string) {
	b.t.Helper()
	if _, err := b.Commands(b.ctx(), &pb.Empty{}); err != nil { // it runs by now
		b.t.Fatal(err)
	}
	children := func(pid string) []string {
		data, err := os.ReadFile("/proc/" + pid + "/task/" + pid + "/children")
		if err != nil {
			b.t.Skipf("this kernel does not list children: %v", err)
		}
		return strings.Fields(string(data))
	}
	for _, c := range children(strconv.Itoa(b.cmd.Process.Pid)) {
		init = c
	}
	// Only threads know their children.
	tasks, err := os.ReadDir("/proc/" + init + "/task")
	if err != nil {
		b.t.Fatal(err)
	}
	for _, task := range tasks {
		data, err := os.ReadFile("/proc/" + init + "/task/" + task.Name() + "/children")
		if err == nil {
			keepers = append(keepers, strings.Fields(string(data))...)
		}
	}
	return init, keepers
}

func TestAnIdleInitIsSmall(t *testing.T) {
	b := newBox(t, Config{Session: true})
	if _, err := b.Hello(b.ctx(), &pb.HelloRequest{Protocol: pb.Version, ClientNonce: make([]byte, pb.NonceBytes)}); err != nil {
		t.Fatal(err)
	}
	init, _ := b.initPIDs()
	idle := rssOf(t, init)
	for range 20 {
		b.run(argv("true"))
		b.run(script("true"))
	}
	after := rssOf(t, init)
	_, keepers := b.initPIDs()
	for _, k := range keepers {
		threads, _ := os.ReadDir("/proc/" + k + "/task")
		t.Logf("keeper %s: %.1f MiB, %.1f of its own, %d threads", k, float64(rssOf(t, k))/(1<<20), float64(statusOf(t, k, "RssAnon:"))/(1<<20), len(threads))
	}
	threads, _ := os.ReadDir("/proc/" + init + "/task")
	t.Logf("init: %.1f MiB idle, %.1f MiB after 40 commands, %d threads", float64(idle)/(1<<20), float64(after)/(1<<20), len(threads))
	if idle > maxIdleRSS {
		t.Errorf("an idle init has %d bytes, at most %d", idle, maxIdleRSS)
	}
}
