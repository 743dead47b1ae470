//go:build linux

package control

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAFileTravelsWithItsMessage(t *testing.T) {
	ours, theirs, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	other, err := FromFile(theirs)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := ours.Send(Message{Type: Spool}, f); err != nil {
		t.Fatal(err)
	}
	m, got, err := other.Receive()
	if err != nil || m.Type != Spool || got == nil {
		t.Fatalf("Receive = %v, %v, %v", m, got, err)
	}
	defer got.Close()
	buf := make([]byte, 10)
	if n, _ := got.Read(buf); string(buf[:n]) != "content" {
		t.Errorf("read %q through the received file, want %q", buf[:n], "content")
	}
	if err := other.Send(Message{Type: Ended, Reason: "ttl"}, nil); err != nil {
		t.Fatal(err)
	}
	if m, f, err := ours.Receive(); err != nil || f != nil || m.Reason != "ttl" {
		t.Errorf("Receive = %v, %v, %v", m, f, err)
	}
	other.Close()
	if _, _, err := ours.Receive(); err == nil {
		t.Error("Receive after the other end closed gave no error")
	}
}
