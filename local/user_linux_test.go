package local

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// All of these tests hold for an ordinary user too. Started by root they are
// run a second time as one, in short.
func TestEverythingAsAnOrdinaryUser(t *testing.T) {
	uid := ordinaryUser(t)
	binary, dir := asUser(t, uid)
	cmd := exec.Command(binary, "-test.short", "-test.skip", "OrdinaryUser|Conformance")
	cmd.Dir = dir
	cmd.Env = append(built(t), "PATH="+os.Getenv("PATH"), "HOME="+dir, "TMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid), Groups: []uint32{}}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}

// asUser gives a copy of this test's program that a user can run, and a folder
// of that user's own.
func asUser(t *testing.T, uid int) (binary, dir string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if dir, err = os.MkdirTemp(testDir, "user-"); err != nil {
		t.Fatal(err)
	}
	binary = filepath.Join(dir, "local.test")
	if err := os.WriteFile(binary, data, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, f := range []func() error{
		func() error { return os.Chmod(binary, 0o755) },
		func() error { return os.Chmod(dir, 0o755) },
		func() error { return os.Chown(dir, uid, uid) },
	} {
		if err := f(); err != nil {
			t.Fatal(err)
		}
	}
	return binary, dir
}
