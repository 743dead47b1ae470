//go:build linux

package initd

import (
	"strings"
	"testing"

	"github.com/skerry-run/skerry"
	pb "github.com/skerry-run/skerry/internal/initproto"
)

// Threat 5: with every task taken the open stream lives, a start names the
// cause, and a cancel makes room.
func TestTheInitOutlivesFullTasks(t *testing.T) {
	b := newBox(t, Config{Session: true, PIDs: 32})
	hog := argv("python3", "-uc", `
import os, time
n = 0
while True:
    try:
        if os.fork() == 0:
            time.sleep(600)
        n += 1
    except BlockingIOError:
        print('full'); break
time.sleep(600)`)
	b.start(hog)
	b.waitForText(hog.Id, "full")
	busy := 0
	for range 10 {
		r := argv("true")
		_, err := b.Start(b.ctx(), r)
		if err == nil {
			if got := b.follow(r.Id); got.exit.Outcome != "exited" {
				t.Errorf("with full tasks: %v", got)
			}
			continue
		}
		err = pb.FromStatus("", err)
		if skerry.KindOf(err) != skerry.Busy || skerry.OutcomeOf(err) != skerry.StartFailed || !strings.Contains(err.Error(), "process") || skerry.HintOf(err) == "" {
			t.Errorf("with full tasks start gave %v (%v)", err, skerry.KindOf(err))
		}
		busy++
	}
	if busy == 0 {
		t.Error("a start with full tasks was never refused")
	}
	if _, err := b.ReadUsage(b.ctx(), &pb.Empty{}); err != nil {
		t.Errorf("usage: %v", err)
	}
	if _, err := b.Hello(b.ctx(), &pb.HelloRequest{Protocol: pb.Version, ClientNonce: make([]byte, pb.NonceBytes)}); err != nil {
		t.Errorf("hello: %v", err)
	}
	if exit, err := b.Cancel(b.ctx(), &pb.CancelRequest{Id: hog.Id}); err != nil || exit.Outcome != "cancelled" {
		t.Errorf("cancel gave %v, %v", exit, err)
	}
	b.wantNoProcesses()
	wantExit(t, b.run(argv("true")), 0)
}

// A broken or hostile client ends its own connection and nothing else.
func TestRubbishOnTheStreamHurtsNobody(t *testing.T) {
	b := newBox(t, Config{})
	for _, rubbish := range []string{"", "GET / HTTP/1.1\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + strings.Repeat("\xff", 4096), strings.Repeat("\x00", 1<<20)} {
		c, err := b.stream()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write([]byte(rubbish))
		c.Close()
	}
	wantExit(t, b.run(argv("true")), 0)
	other := b.dial()
	defer other.Close()
	if _, err := pb.NewInitClient(other).Commands(b.ctx(), &pb.Empty{}); err != nil {
		t.Errorf("a second connection: %v", err)
	}
}

// B005, B079: a broken stream ends no command; another finds it.
func TestACommandOutlivesItsClient(t *testing.T) {
	b := newBox(t, Config{Session: true})
	first := b.dial()
	client := pb.NewInitClient(first)
	r := with(sh("echo one; read x < /workspace/go; echo two"), func(r *pb.StartRequest) {})
	wantExit(t, b.run(argv("mkfifo", "/workspace/go")), 0)
	if _, err := client.Start(b.ctx(), r); err != nil {
		t.Fatal(err)
	}
	first.Close()
	b.waitForText(r.Id, "one")
	wantExit(t, b.run(sh("echo go > /workspace/go")), 0)
	got, err := b.tryFollow(r.Id, 4, 0)
	if err != nil || got.stdout != "two\n" {
		t.Errorf("got %v, %v", got, err)
	}
}
