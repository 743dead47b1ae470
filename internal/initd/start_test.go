//go:build linux

package initd

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/skerry-run/skerry"
	pb "github.com/skerry-run/skerry/internal/initproto"
)

func with(r *pb.StartRequest, change func(*pb.StartRequest)) *pb.StartRequest {
	change(r)
	return r
}

func TestAStartThatFailsNamesCauseAndRemedy(t *testing.T) {
	b := newBox(t, Config{Session: true})
	wantExit(t, b.run(sh("echo x > /workspace/plain; printf '#!/no/such\n' > /workspace/orphan; printf 'no program' > /workspace/text; chmod +x /workspace/orphan /workspace/text; mkdir /workspace/closed; chmod 0 /workspace/closed")), 0)
	for name, c := range map[string]struct {
		request *pb.StartRequest
		code    codes.Code
		text    string
		hint    string
	}{
		"B034 missing":           {with(argv("no_such_cmd_x", "1"), func(r *pb.StartRequest) { r.Missing = "apt-get install it" }), codes.NotFound, "no_such_cmd_x: not found", "apt-get install it"},
		"missing path":           {argv("/no/such"), codes.NotFound, "not found", "PATH"},
		"not executable":         {argv("/workspace/plain"), codes.PermissionDenied, "not executable", "chmod"},
		"a folder":               {argv("/usr"), codes.InvalidArgument, "directory", ""},
		"no interpreter":         {argv("/workspace/orphan"), codes.NotFound, "interpreter", "first line"},
		"no program":             {argv("/workspace/text"), codes.InvalidArgument, "not a program", "#!"},
		"B023 no workdir":        {with(argv("true"), func(r *pb.StartRequest) { r.Dir = []byte("/nope") }), codes.NotFound, "workdir not found", "make it"},
		"B023 workdir is a file": {with(argv("true"), func(r *pb.StartRequest) { r.Dir = []byte("/workspace/plain") }), codes.InvalidArgument, "workdir not found", "directory"},
		"B023 newline":           {with(script("echo ran > /workspace/ran"), func(r *pb.StartRequest) { r.Dir = []byte("no\nsuch") }), codes.NotFound, "workdir not found", ""},
		"closed workdir":         {with(argv("true"), func(r *pb.StartRequest) { r.Dir = []byte("closed") }), codes.PermissionDenied, "workdir", ""},
		"bad file":               {with(argv("true"), func(r *pb.StartRequest) { r.Files = []*pb.StartFile{{Path: []byte("/etc/x")}} }), codes.PermissionDenied, "/etc/x", ""},
	} {
		err := b.wantRefused(c.request, c.code, c.text)
		if skerry.OutcomeOf(err) != skerry.StartFailed {
			t.Errorf("%s: outcome %v, want start_failed", name, skerry.OutcomeOf(err))
		}
		if !strings.Contains(skerry.HintOf(err), c.hint) {
			t.Errorf("%s: hint %q, want %q in it", name, skerry.HintOf(err), c.hint)
		}
	}
	if _, err := b.StatFile(b.ctx(), &pb.PathRequest{Path: []byte("ran")}); err == nil {
		t.Error("a command ran although its workdir was not there")
	}
	// Each part is small enough, all together are not.
	b.wantRefused(with(argv("true"), func(r *pb.StartRequest) {
		for range 40 {
			r.Argv = append(r.Argv, bytes.Repeat([]byte("x"), 100_000))
		}
	}), codes.InvalidArgument, "Linux takes at most")
	// X5: one byte more than Linux takes is refused before anything runs.
	b.wantRefused(argv("true", strings.Repeat("x", 131_072)), codes.InvalidArgument, "131072")
	wantExit(t, b.run(argv("true", strings.Repeat("x", 131_071))), 0)
	// B034: in a script it is the shell's own 127.
	if r := b.run(script("no_such_cmd_x 1")); r.exit.ExitCode != 127 || !strings.Contains(r.stderr, "not found") {
		t.Errorf("got %v", r)
	}
	// Nothing of what failed is kept: the id can be used again.
	r := argv("no_such")
	b.wantRefused(r, codes.NotFound, "not found")
	r.Argv = bytesOf([]string{"true"})
	wantExit(t, b.run(r), 0)
}

func TestAScriptWithoutBashSaysSo(t *testing.T) {
	b := newBox(t, Config{Env: []string{"PATH=/nowhere"}})
	err := b.wantRefused(script("true"), codes.NotFound, "bash")
	if skerry.OutcomeOf(err) != skerry.StartFailed || !strings.Contains(skerry.HintOf(err), "bash") {
		t.Errorf("got %v with hint %q", err, skerry.HintOf(err))
	}
}

func TestNonsenseIsRefused(t *testing.T) {
	b := newBox(t, Config{})
	for name, change := range map[string]func(*pb.StartRequest){
		"no id":          func(r *pb.StartRequest) { r.Id = "" },
		"long id":        func(r *pb.StartRequest) { r.Id = strings.Repeat("x", 257) },
		"control in id":  func(r *pb.StartRequest) { r.Id = "a\nb" },
		"no argv":        func(r *pb.StartRequest) { r.Argv = nil },
		"both":           func(r *pb.StartRequest) { r.Script = []byte("true") },
		"NUL in argv":    func(r *pb.StartRequest) { r.Argv = append(r.Argv, []byte("a\x00b")) },
		"NUL in script":  func(r *pb.StartRequest) { r.Argv, r.Script = nil, []byte("echo \x00") }, // B027
		"negative limit": func(r *pb.StartRequest) { r.TimeoutMs = -1 },                            // B075
		"absurd limit":   func(r *pb.StartRequest) { r.TimeoutMs = 1 << 62 },
		"negative grace": func(r *pb.StartRequest) { r.GraceMs = -1 },
		"no variable":    func(r *pb.StartRequest) { r.Env = bytesOf([]string{"X"}) },
		"twice":          func(r *pb.StartRequest) { r.Env = bytesOf([]string{"X=1", "X=2"}) },
		"wide terminal":  func(r *pb.StartRequest) { r.Tty = &pb.TerminalSize{Cols: 70_000} },
		"long hint":      func(r *pb.StartRequest) { r.Missing = strings.Repeat("x", 2000) },
	} {
		r := argv("true")
		change(r)
		if _, err := b.Start(b.ctx(), r); err == nil || pb.FromStatus("", err) == nil {
			t.Errorf("%s: it was taken", name)
		}
	}
	if _, err := b.Output(b.ctx(), &pb.OutputRequest{Id: "none"}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.tryFollow("none", 0, 0); skerry.KindOf(pb.FromStatus("", err)) != skerry.NotFound {
		t.Errorf("output of no command gave %v", err)
	}
}

// The same id is the same command, never a second execution.
func TestStartIsIdempotent(t *testing.T) {
	b := newBox(t, Config{Session: true})
	request := func() *pb.StartRequest {
		return with(script("echo ran >> /workspace/log; echo $A"), func(r *pb.StartRequest) {
			r.Id, r.Dir, r.GraceMs = "same", []byte("."), 0
			r.Env = bytesOf([]string{"A=1", "B=2"})
			r.Files = []*pb.StartFile{{Path: []byte("f"), Data: []byte("x")}}
		})
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	fresh := 0
	ctx := b.ctx()
	for range 20 {
		wg.Go(func() {
			reply, err := b.Start(ctx, request())
			if err != nil {
				t.Errorf("start: %v", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if !reply.Attached {
				fresh++
			}
		})
	}
	wg.Wait()
	got := b.follow("same")
	wantExit(t, got, 0)
	if fresh != 1 || got.stdout != "1\n" {
		t.Errorf("%d of 20 calls started it, got %v", fresh, got)
	}
	if reply := b.start(request()); !reply.Attached || reply.Info.Exit == nil {
		t.Errorf("after the end: %v, want to be attached to it", reply)
	}
	if r := b.run(sh("cat /workspace/log")); r.stdout != "ran\n" {
		t.Errorf("it ran more than once: %v", r)
	}
	for name, change := range map[string]func(*pb.StartRequest){
		"grace":     func(r *pb.StartRequest) { r.GraceMs = 3000 },
		"mode":      func(r *pb.StartRequest) { r.Files[0].Mode = 0o644 },
		"directory": func(r *pb.StartRequest) { r.Dir = []byte("/workspace") },
		"hint":      func(r *pb.StartRequest) { r.Missing = "install it" },
	} {
		r := request()
		change(r)
		if reply, err := b.Start(b.ctx(), r); err != nil || !reply.Attached {
			t.Errorf("the %s spelled out gave %v, %v, want to be attached", name, reply, err)
		}
	}
	for name, change := range map[string]func(*pb.StartRequest){
		"script":  func(r *pb.StartRequest) { r.Script = []byte("echo other") },
		"env":     func(r *pb.StartRequest) { r.Env = r.Env[:1] },
		"file":    func(r *pb.StartRequest) { r.Files[0].Data = []byte("y") },
		"mode":    func(r *pb.StartRequest) { r.Files[0].Mode = 0o755 },
		"timeout": func(r *pb.StartRequest) { r.TimeoutMs = 1000 },
		"dir":     func(r *pb.StartRequest) { r.Dir = []byte("/tmp") },
		"argv":    func(r *pb.StartRequest) { r.Script, r.Argv = nil, bytesOf([]string{"true"}) },
	} {
		r := request()
		change(r)
		if _, err := b.Start(b.ctx(), r); skerry.KindOf(pb.FromStatus("", err)) != skerry.Conflict {
			t.Errorf("another %s gave %v, want conflict", name, err)
		}
	}
}

// B024: the same options act the same in every mode.
func TestOptionsActTheSameInEveryMode(t *testing.T) {
	b := newBox(t, Config{Session: true})
	wantExit(t, b.run(sh("mkdir -p /workspace/w/x")), 0)
	for _, background := range []bool{false, true} {
		for _, tty := range []bool{false, true} {
			for _, asScript := range []bool{false, true} {
				text := "pwd; echo $V"
				r := sh(text)
				if asScript {
					r = script(text)
				}
				r.Background, r.Dir, r.Env = background, []byte("w/x"), bytesOf([]string{"V=a b'\"$\n"})
				want := "/workspace/w/x\na b'\"$\n"
				if tty {
					r.Tty = &pb.TerminalSize{}
					want = strings.ReplaceAll(want, "\n", "\r\n")
				}
				want = strings.TrimRight(want, "\r\n")
				if got := b.run(r); strings.TrimRight(got.stdout, "\r\n") != want {
					t.Errorf("background %v, tty %v, script %v: got %v", background, tty, asScript, got)
				}
			}
		}
	}
	if r := b.run(script("pwd")); r.stdout != "/workspace\n" {
		t.Errorf("a folder that was asked for once became the session's: %v", r)
	}
}

func TestOnlySoManyCommandsRunAndAreKept(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a thousand programs")
	}
	b := newBox(t, Config{Session: true})
	first := argv("true")
	b.run(first)
	for range maxEnded {
		b.run(argv("true"))
	}
	if _, err := b.tryFollow(first.Id, 0, 0); skerry.KindOf(pb.FromStatus("", err)) != skerry.NotFound {
		t.Errorf("the oldest command gave %v, want not found", err)
	}
	list, err := b.Commands(b.ctx(), &pb.Empty{})
	if err != nil || len(list.Commands) != maxEnded {
		t.Errorf("%d commands are kept (%v), want %d", len(list.GetCommands()), err, maxEnded)
	}
	for i := range maxRunning {
		b.start(with(argv("sleep", "600"), func(r *pb.StartRequest) { r.Id = fmt.Sprint("sleep", i) }))
	}
	err = b.wantRefused(argv("true"), codes.ResourceExhausted, "commands run already")
	if skerry.OutcomeOf(err) != skerry.Refused {
		t.Errorf("outcome %v, want refused", skerry.OutcomeOf(err))
	}
}
