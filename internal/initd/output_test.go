//go:build linux

package initd

import (
	"context"
	"fmt"
	"strings"
	"testing"

	pb "github.com/skerry-run/skerry/internal/initproto"
)

// Group 3: bytes come out as they went in.
func TestOutputIsExact(t *testing.T) {
	b := newBox(t, Config{})
	for name, c := range map[string]struct{ code, out string }{
		"B043 binary":     {`import os; os.write(1, b'\x9f\x92')`, "\x9f\x92"},
		"B044 runes":      {`print('語'*90000, end='')`, strings.Repeat("語", 90000)},
		"B047 long line":  {`print('a');print('x'*20_000_000);print('b')`, "a\n" + strings.Repeat("x", 20_000_000) + "\nb\n"},
		"B048 no newline": {`print('a\nb', end='')`, "a\nb"},
		"B056 nul":        {`import os; os.write(1, b'a\0b\x1b[31mred\x1b[0m')`, "a\x00b\x1b[31mred\x1b[0m"},
		"B065 json":       {`print('{"stdout": "x"}')`, "{\"stdout\": \"x\"}\n"},
		"B064 locale":     {`print('\u2615')`, "☕\n"},
		"B049 short":      {`print('x', end='')`, "x"},
		"B003 no stdin":   {`import sys; print(repr(sys.stdin.read()))`, "''\n"},
		"B027 odd":        {`print('${} " \\')`, "${} \" \\\n"},
		"B029 not twice":  {"print('`id` $HOME \\\\ !x')", "`id` $HOME \\ !x\n"},
		"descriptors":     {`import os; print(sorted(os.listdir('/proc/self/fd'))[:4])`, "['0', '1', '2', '3']\n"},
	} {
		got := b.run(argv("python3", "-c", c.code))
		if got.stdout != c.out || got.exit.ExitCode != 0 || got.omitted != 0 || got.exit.StdoutBytes != int64(len(c.out)) {
			t.Errorf("%s: %d bytes, want %d: %.300v", name, len(got.stdout), len(c.out), got)
		}
	}
	if got := b.run(argv("env")); got.stdout != "HOME=/home/skerry\nLANG=C.UTF-8\nLOGNAME=skerry\nMPLCONFIGDIR=/home/skerry/.config/matplotlib\nPATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nPYTHONUNBUFFERED=1\nPYTHONUTF8=1\nSHELL=/bin/bash\nTMPDIR=/tmp\nTMPPREFIX=/tmp/zsh\nUSER=skerry\nXDG_CACHE_HOME=/home/skerry/.cache\n" {
		t.Errorf("a program's environment is not the base environment: %v", got)
	}
}

// B066: each stream keeps its order; merged, both do.
func TestStreamsKeepTheirOrder(t *testing.T) {
	b := newBox(t, Config{})
	const text = "for i in 1 2 3; do echo o$i; echo e$i >&2; done"
	if got := b.run(sh(text)); got.stdout != "o1\no2\no3\n" || got.stderr != "e1\ne2\ne3\n" {
		t.Errorf("got %v", got)
	}
	if got := b.run(with(sh(text), func(r *pb.StartRequest) { r.Merge = true })); got.stdout != "o1\ne1\no2\ne2\no3\ne3\n" || got.stderr != "" {
		t.Errorf("merged: got %v", got)
	}
}

// B062, B049: an end right after the last byte loses nothing.
func TestTheLastBytesOfAFastProgramArrive(t *testing.T) {
	b := newBox(t, Config{Session: true})
	for i := range 200 {
		got := b.run(argv("printf", "%s", fmt.Sprint("x", i)))
		if got.stdout != fmt.Sprint("x", i) {
			t.Fatalf("run %d gave %v", i, got)
		}
	}
}

// B004, B005, B063: more than is kept reaches a reader that keeps up; a later
// one gets head and tail, with the gap told.
func TestMoreThanIsKept(t *testing.T) {
	const limit = 1 << 20
	b := newBox(t, Config{SpoolBytes: limit})
	r := argv("python3", "-c", "import sys\nfor i in range(1000000): sys.stdout.write('%09d\\n' % i)")
	b.start(r)
	n, exit := b.drain(r.Id)
	if n != 10_000_000 || exit.StdoutBytes != n || exit.ExitCode != 0 {
		t.Fatalf("%d bytes, %v, want 10000000", n, exit)
	}
	got := b.follow(r.Id)
	if got.omitted+int64(len(got.stdout)) != n {
		t.Errorf("%d bytes and %d omitted, want %d in all", len(got.stdout), got.omitted, n)
	}
	head := int(got.exit.StdoutBytes) // place of the gap
	for i := 0; i+10 <= len(got.stdout); i += 10 {
		if got.stdout[i:i+10] != fmt.Sprintf("%09d\n", i/10) {
			head = i
			break
		}
	}
	if head < limit*2/5-10 || head > limit*2/5 {
		t.Errorf("the head has %d bytes, want %d", head, limit*2/5)
	}
	if !strings.HasSuffix(got.stdout, "000999998\n000999999\n") {
		t.Errorf("the tail ends in %q", got.stdout[len(got.stdout)-20:])
	}
	// From an offset that is gone, and from one that is there.
	got, err := b.tryFollow(r.Id, 5_000_000, 0)
	if err != nil || got.omitted == 0 || got.omitted+int64(len(got.stdout)) != 5_000_000 {
		t.Errorf("from the middle: %d bytes, %d omitted, %v", len(got.stdout), got.omitted, err)
	}
	got, err = b.tryFollow(r.Id, 9_999_990, 0)
	if err != nil || got.stdout != "000999999\n" || got.omitted != 0 {
		t.Errorf("from the end: %v, %v", got, err)
	}
	for _, off := range []int64{-1, 10_000_001} {
		if _, err := b.tryFollow(r.Id, off, 0); err == nil {
			t.Errorf("offset %d was taken", off)
		}
	}
}

// B061: nobody reads, and the program is not held back; the init stays small.
func TestNobodyReadsAFlood(t *testing.T) {
	b := newBox(t, Config{SpoolBytes: 8 << 20})
	r := sh("head -c 300000000 /dev/zero & head -c 300000000 /dev/zero >&2; wait")
	b.start(r)
	exit, err := b.Wait(b.ctx(), &pb.CommandRef{Id: r.Id})
	if err != nil || exit.StdoutBytes != 300_000_000 || exit.StderrBytes != 300_000_000 {
		t.Fatalf("got %v, %v", exit, err)
	}
	init, _ := b.initPIDs()
	if rss := rssOf(t, init); rss > 40<<20 {
		t.Errorf("the init has %d MiB after a flood", rss>>20)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.spools != 2 {
		t.Errorf("%d spool files were asked for, want 2", b.spools)
	}
}

// A reader that has gone holds nothing back, one that reads nothing does so
// for a bounded time, and its gap is told.
func TestASlowReaderGetsAGap(t *testing.T) {
	b := newBox(t, Config{SpoolBytes: 1 << 20})
	r := argv("head", "-c", "30000000", "/dev/zero")
	b.start(r)
	gone, cancel := context.WithCancel(b.ctx())
	if _, err := b.Output(gone, &pb.OutputRequest{Id: r.Id}); err != nil {
		t.Fatal(err)
	}
	stalled, err := b.Output(b.ctx(), &pb.OutputRequest{Id: r.Id})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if exit, err := b.Wait(b.ctx(), &pb.CommandRef{Id: r.Id}); err != nil || exit.StdoutBytes != 30_000_000 {
		t.Fatalf("got %v, %v", exit, err)
	}
	var n, omitted int64
	for {
		m, err := stalled.Recv()
		if err != nil {
			t.Fatal(err)
		}
		n, omitted = n+int64(len(m.Data)), omitted+m.Omitted
		if m.Exit != nil {
			break
		}
	}
	if omitted == 0 || n+omitted != 30_000_000 {
		t.Errorf("%d bytes, %d omitted, want a gap and 30000000 in all", n, omitted)
	}
}
