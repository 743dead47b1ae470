//go:build linux

package control

import (
	"encoding/json"
	"errors"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// peer is a Line, and the naked other end of it.
func peer(t testing.TB) (*Line, int) {
	t.Helper()
	ours, theirs, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Dup(int(theirs.Fd()))
	theirs.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ours.Close()
		unix.Close(fd)
	})
	return ours, fd
}

func descriptors(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// Whatever a peer sends is a message, or an error that costs no file.
func FuzzReceive(f *testing.F) {
	for _, seed := range []string{
		`{"type":"conn"}`, `{"type":"expires","expires_unix_ms":-9223372036854775808}`, `{"type":1}`, `{"expires_unix_ms":1e400}`,
		`[]`, `null`, "\x00", "\xff\xfe", `{"type":"ended","reason":"` + string(make([]byte, maxPacket)) + `"}`,
	} {
		for files := range uint8(3) {
			f.Add([]byte(seed), files*20)
		}
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		f.Fatal(err)
	}
	defer null.Close()
	f.Fuzz(func(t *testing.T, data []byte, files uint8) {
		line, fd := peer(t)
		before := descriptors(t)
		fds := make([]int, files)
		for i := range fds {
			fds[i] = int(null.Fd())
		}
		var rights []byte
		if files > 0 {
			rights = unix.UnixRights(fds...)
		}
		if err := unix.Sendmsg(fd, data, rights, nil, 0); err != nil {
			t.Skip(err) // what the kernel does not pass on is nobody's to receive
		}
		m, file, err := line.Receive()
		if file != nil {
			if err != nil {
				t.Errorf("a file together with the error %v", err)
			}
			file.Close()
		}
		if after := descriptors(t); after != before {
			t.Errorf("%d descriptors before, %d after a packet with %d files", before, after, files)
		}
		if err == nil {
			var want Message
			if e := json.Unmarshal(data, &want); e != nil || m != want || files > 1 || len(data) > maxPacket {
				t.Errorf("%q with %d files was received as %+v (%v)", data, files, m, e)
			}
		}
	})
}

func TestTooManyFilesAreRefusedAndClosed(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, n := range []int{2, 8, 9, 253} { // the last is the most that Linux passes on
		line, fd := peer(t)
		before := descriptors(t)
		fds := make([]int, n)
		for i := range fds {
			fds[i] = int(null.Fd())
		}
		if err := unix.Sendmsg(fd, []byte(`{"type":"spool"}`), unix.UnixRights(fds...), nil, 0); err != nil {
			t.Fatal(err)
		}
		if m, file, err := line.Receive(); err == nil || file != nil {
			t.Errorf("%d files: received %+v, %v", n, m, file)
		}
		if after := descriptors(t); after != before {
			t.Errorf("%d files: %d descriptors before, %d after", n, before, after)
		}
		if err := unix.Sendmsg(fd, []byte(`{"type":"ended"}`), nil, nil, 0); err != nil {
			t.Fatal(err)
		}
		if m, _, err := line.Receive(); err != nil || m.Type != Ended {
			t.Errorf("the message after it: %+v, %v", m, err)
		}
	}
}

func TestAPacketThatIsTooLargeIsRefused(t *testing.T) {
	line, fd := peer(t)
	data, err := json.Marshal(Message{Type: Ended, Reason: string(make([]byte, maxPacket))})
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Sendmsg(fd, data, nil, nil, 0); err != nil {
		t.Fatal(err)
	}
	if m, _, err := line.Receive(); err == nil {
		t.Errorf("received %+v", m)
	}
}

func TestAFileOfAnotherKindIsNoLine(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := FromFile(r); err == nil {
		t.Error("a pipe was taken for a control line")
	}
	if err := r.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("FromFile left the file open: %v", err)
	}
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	line, err := FromFile(os.NewFile(uintptr(fds[0]), "line"))
	if err != nil {
		t.Fatal(err)
	}
	defer line.Close()
	syscall.Close(fds[1])
	if _, _, err := line.Receive(); err == nil {
		t.Error("the end of the line was received as a message")
	}
}
