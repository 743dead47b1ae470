//go:build linux

package keeper

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// launch starts a keeper that is gone when the test ends.
func launch(t *testing.T) (Client, Spec) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: namespaces and mounts are made")
	}
	folder, err := os.MkdirTemp("/var/tmp", "keeper")
	if err != nil {
		t.Fatal(err)
	}
	spec := Spec{Folder: folder, Hostname: "inside", Cgroup: filepath.Base(folder)}
	t.Cleanup(func() {
		if err := Kill(context.WithoutCancel(t.Context()), folder, spec.Cgroup); err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	program := filepath.Join(folder, "keeper")
	build := exec.Command("go", "build", "-o", program, "github.com/skerry-run/skerry/test/cluster/cmd/keeper")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the keeper: %v\n%s", err, out)
	}
	if err := Launch(t.Context(), program, spec); err != nil {
		t.Fatal(err)
	}
	return Client{Folder: folder}, spec
}

// shell is a component that says it began, then does what the script says.
func shell(c Client, name, script string) Component {
	return Component{Name: name, Args: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"}, Log: filepath.Join(c.Folder, name+".log")}
}

// until asks for a component's status until it is as wanted.
func until(t *testing.T, c Client, name string, wanted func(Status) bool) Status {
	t.Helper()
	for {
		all, err := c.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(all, func(s Status) bool { return s.Name == name })
		if i >= 0 && wanted(all[i]) {
			return all[i]
		}
		if t.Context().Err() != nil {
			t.Fatalf("component %s: the last status was %+v", name, all)
		}
	}
}

func TestAComponentThatIsKilledIsStartedAgain(t *testing.T) {
	c, _ := launch(t)
	if err := c.Run(t.Context(), shell(c, "a", "exec sleep 1000")); err != nil {
		t.Fatal(err)
	}
	first := until(t, c, "a", func(s Status) bool { return s.State == Running })
	if err := c.Signal(t.Context(), "a", unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	second := until(t, c, "a", func(s Status) bool { return s.State == Running && s.Starts == 2 })
	if second.PID == first.PID || second.LastExit != "signal: killed" {
		t.Errorf("after SIGKILL: %+v, before: %+v", second, first)
	}
}

func TestAStoppedComponentStaysStoppedUntilItIsStarted(t *testing.T) {
	c, _ := launch(t)
	// It ignores SIGTERM, so only force ends it.
	if err := c.Run(t.Context(), shell(c, "stubborn", `trap "" TERM; echo trapped; while :; do read x </dev/zero; done`)); err != nil {
		t.Fatal(err)
	}
	if err := c.Run(t.Context(), shell(c, "ends", "exit 3")); err != nil {
		t.Fatal(err)
	}
	until(t, c, "ends", func(s Status) bool { return s.Starts >= 2 && s.LastExit == "exit status 3" })
	for _, name := range []string{"stubborn", "ends"} {
		if err := c.Stop(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	stopped := until(t, c, "stubborn", func(Status) bool { return true })
	ends := until(t, c, "ends", func(Status) bool { return true })
	if stopped.State != Stopped || stopped.PID != 0 || ends.State != Stopped {
		t.Errorf("after Stop: %+v and %+v", stopped, ends)
	}
	if err := c.Signal(t.Context(), "stubborn", unix.SIGKILL); err == nil {
		t.Error("a signal to a stopped component is no error")
	}
	if err := c.Start(t.Context(), "stubborn"); err != nil {
		t.Fatal(err)
	}
	until(t, c, "stubborn", func(s Status) bool { return s.State == Running && s.Starts == 2 })
	if err := c.Start(t.Context(), "nobody"); err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("start of an unknown component: %v", err)
	}
}

func TestInsideIsAMachineOfItsOwn(t *testing.T) {
	c, _ := launch(t)
	const script = `
hostname
echo init: $(readlink /proc/1/exe)
cat /proc/self/cgroup | cut -d: -f3 | sort -u
ls /run /sys/class/net
cat /proc/sys/vm/overcommit_memory /proc/sys/net/ipv4/ip_forward
echo end; exec sleep 1000`
	if err := c.Run(t.Context(), shell(c, "look", script)); err != nil {
		t.Fatal(err)
	}
	var said string
	for !strings.HasSuffix(said, "end\n") && t.Context().Err() == nil {
		data, err := os.ReadFile(filepath.Join(c.Folder, "look.log"))
		if err != nil {
			t.Fatal(err)
		}
		said = string(data)
	}
	for _, want := range []string{"inside\n", "init: " + filepath.Join(c.Folder, "keeper") + "\n", "\n/\n", "/sys/class/net:\nlo\n", "\n1\n1\nend\n"} {
		if !strings.Contains(said, want) {
			t.Errorf("inside there is no %q:\n%s", want, said)
		}
	}
}

func TestKillLeavesNothing(t *testing.T) {
	c, spec := launch(t)
	// Orphans and processes that left their session are found as well.
	if err := c.Run(t.Context(), shell(c, "a", "setsid sleep 1000 & sleep 1000 & exit 0")); err != nil {
		t.Fatal(err)
	}
	pid, err := PID(c.Folder)
	if err != nil || pid == 0 {
		t.Fatalf("the keeper's process: %d, %v", pid, err)
	}
	if err := Kill(t.Context(), spec.Folder, spec.Cgroup); err != nil {
		t.Fatal(err)
	}
	if pid, err := PID(c.Folder); err != nil || pid != 0 {
		t.Errorf("after Kill the keeper is process %d, %v", pid, err)
	}
	trees, err := hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range trees {
		if _, err := os.Stat(filepath.Join(h.mount, spec.Cgroup)); !os.IsNotExist(err) {
			t.Errorf("after Kill the cgroup is there under %s: %v", h.mount, err)
		}
	}
	if _, err := c.Status(t.Context()); err == nil {
		t.Error("after Kill the keeper answers")
	}
	// Again is no error.
	if err := Kill(t.Context(), spec.Folder, spec.Cgroup); err != nil {
		t.Error(err)
	}
}

func TestASecondKeeperOfAFolderIsRefused(t *testing.T) {
	c, spec := launch(t)
	err := Launch(t.Context(), filepath.Join(c.Folder, "keeper"), spec)
	if err == nil || !strings.Contains(err.Error(), "another keeper") {
		t.Errorf("a second keeper: %v", err)
	}
	if _, err := c.Status(t.Context()); err != nil {
		t.Errorf("the first one then: %v", err)
	}
}
