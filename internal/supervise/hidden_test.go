//go:build linux

package supervise

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The processes of user code are found whatever their numbers: those of their
// parents may be higher, once the kernel has begun anew.
func TestUserCodeIsFoundWhateverItsNumber(t *testing.T) {
	// We stand for the init, a shell for the keeper.
	keeper := exec.Command("sh", "-c", "sleep 1000 & echo $!; (sleep 1000; true) & echo $!; wait")
	out, err := keeper.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := keeper.Start(); err != nil {
		t.Fatal(err)
	}
	defer keeper.Wait()
	defer keeper.Process.Kill()
	buf := make([]byte, 64)
	var text strings.Builder
	for strings.Count(text.String(), "\n") < 2 {
		n, err := out.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(buf[:n])
	}
	s := &supervisor{launch: &launch{child: os.Getpid()}}
	got := s.pids()
	for _, pid := range got {
		defer unix.Kill(pid, unix.SIGKILL)
	}
	for _, word := range strings.Fields(text.String()) {
		pid, _ := strconv.Atoi(word)
		if !slices.Contains(got, pid) {
			t.Errorf("%d is missing in %v", pid, got)
		}
	}
	if slices.Contains(got, keeper.Process.Pid) || slices.Contains(got, os.Getpid()) {
		t.Errorf("the keeper %d or the init %d is in %v", keeper.Process.Pid, os.Getpid(), got)
	}
}
