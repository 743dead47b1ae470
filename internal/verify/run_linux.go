package verify

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/probe"
)

// Limits of the sandbox under attack: small, so that going over them is quick.
var limits = skerry.Limits{
	MemoryBytes:    128 * skerry.MiB,
	PIDs:           64,
	WorkspaceBytes: 16 * skerry.MiB,
	TmpBytes:       16 * skerry.MiB,
	ShmBytes:       4 * skerry.MiB,
}

const (
	defaultInit   = "/run/skerry/init"
	attackTimeout = 60 * time.Second
	cleanupGrace  = 20 * time.Second
	verifyTTL     = 15 * time.Minute // what a crash of ours leaves behind goes by itself
)

// Run attacks a fresh sandbox of the backend, calls each with every line as it
// is known, and gives all lines. While it lasts, it plants a variable in the
// environment of this process, and files, sockets and a process on this
// machine, which the attacks must not find. An error means that no sandbox
// could be had.
func Run(ctx context.Context, cfg Config, each func(Line)) ([]Line, error) {
	if cfg.Init == "" {
		cfg.Init = defaultInit
	}
	v := &verifier{cfg: cfg, each: each, id: randomHex()}
	defer v.close(ctx)
	var err error
	if v.host, err = plant(ctx); err != nil {
		return nil, fmt.Errorf("plant what must not be found: %w", err)
	}
	if err := v.open(ctx); err != nil {
		return nil, err
	}
	for _, a := range probe.Attacks() {
		if err := ctx.Err(); err != nil {
			return v.lines, context.Cause(ctx)
		}
		if v.wanted(a.Name) {
			v.attack(ctx, a)
		}
	}
	for _, o := range outside {
		if v.wanted(o.name) {
			v.add(o.name, o.tries, o.run(ctx, v))
		}
	}
	for _, l := range notTested(cfg) {
		if v.wanted(l.Name) {
			v.line(l)
		}
	}
	return v.lines, nil
}

// verifier is one run of all attacks.
type verifier struct {
	cfg   Config
	each  func(Line)
	id    string
	host  *host
	box   skerry.Sandbox
	ref   skerry.Ref
	lines []Line
	n     int
}

func (v *verifier) wanted(name string) bool {
	return len(v.cfg.Only) == 0 || slices.Contains(v.cfg.Only, name)
}

// open makes the sandbox under attack, a new one when there was one.
func (v *verifier) open(ctx context.Context) error {
	v.drop(ctx, v.box, v.ref)
	v.box, v.ref = nil, skerry.Ref{}
	box, ref, err := v.create(ctx)
	if err != nil {
		return err
	}
	v.box, v.ref = box, ref
	return nil
}

func (v *verifier) create(ctx context.Context) (skerry.Sandbox, skerry.Ref, error) {
	v.n++
	ref := skerry.Ref{Kind: skerry.SessionKind, Org: "skerry-verify", Name: fmt.Sprintf("verify-%s-%d", v.id, v.n)}
	box, err := v.cfg.Backend.Create(ctx, skerry.SandboxSpec{
		Ref: ref, Limits: limits, TTL: verifyTTL, Env: map[string]string{"SKERRY_VERIFY_CONTROL": v.host.control},
	})
	return box, ref, err
}

func (v *verifier) drop(ctx context.Context, box skerry.Sandbox, ref skerry.Ref) {
	if box == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupGrace)
	defer cancel()
	box.Close()
	_ = v.cfg.Backend.Delete(ctx, ref, skerry.DeleteOptions{}) // its time to live ends it too
}

func (v *verifier) close(ctx context.Context) {
	v.drop(ctx, v.box, v.ref)
	if v.host != nil {
		v.host.close()
	}
}

func (v *verifier) add(name, tries string, f probe.Finding) {
	status := map[probe.Verdict]Status{probe.Blocked: Blocked, probe.Open: Open, probe.Unknown: Unknown}[f.Verdict]
	if status == "" {
		status = Unknown
	}
	v.line(Line{Name: name, Status: status, Tried: tries, Detail: f.Detail})
}

func (v *verifier) line(l Line) {
	v.lines = append(v.lines, l)
	if v.each != nil {
		v.each(l)
	}
}

// attack makes one attack in the sandbox, and looks whether the sandbox still
// answers afterwards.
func (v *verifier) attack(ctx context.Context, a probe.Attack) {
	args, why := v.args(a.Name)
	if why != "" {
		v.line(Line{Name: a.Name, Status: NotTested, Tried: a.Tries, Detail: why})
		return
	}
	f := v.start(ctx, v.box, a, args)
	if f.Verdict == probe.Blocked {
		if err := v.host.alive(a.Name); err != nil {
			f = probe.Finding{Verdict: probe.Unknown, Detail: fmt.Sprintf("the control failed: %v", err)}
		}
	}
	if err := answers(ctx, v.box); err != nil {
		f = probe.Finding{Verdict: probe.Open, Detail: fmt.Sprintf("the sandbox did not answer afterwards: %v", err)}
		if err := v.open(ctx); err != nil {
			f.Detail += fmt.Sprintf("; and no other could be made: %v", err)
		}
	} else if a.Survivable && f.Verdict == probe.Unknown {
		f = probe.Finding{Verdict: probe.Blocked, Detail: f.Detail + ": it does, and starts commands as before"}
	}
	v.add(a.Name, a.Tries, f)
}

// args gives what an attack needs to know, or why it can't be made.
func (v *verifier) args(name string) (args []string, why string) {
	h := v.host
	if !v.cfg.SameHost {
		switch name {
		case "host-files", "host-environment", "host-processes", "host-ipc", "host-tcp", "host-udp", "host-unix":
			return nil, "the sandbox is not on this machine, so nothing here can be its control"
		}
	}
	switch name {
	case "host-files":
		return append([]string{h.token}, h.files...), ""
	case "host-environment":
		return []string{h.token, h.control}, ""
	case "host-processes":
		return []string{h.process}, ""
	case "host-ipc":
		if h.shmErr != nil {
			return nil, fmt.Sprintf("no shared memory could be made on the host: %v", h.shmErr)
		}
		return []string{fmt.Sprint(h.shmKey)}, ""
	case "host-tcp":
		return append([]string{h.token}, h.tcp...), ""
	case "host-udp":
		return append([]string{h.token}, h.udp...), ""
	case "host-unix":
		return append([]string{h.token}, h.unix...), ""
	case "disk":
		return []string{fmt.Sprint(2 * (limits.WorkspaceBytes + limits.TmpBytes + limits.ShmBytes))}, ""
	case "memory", "memory-shared":
		return []string{fmt.Sprint(2 * limits.MemoryBytes)}, ""
	case "terminals":
		const tooMany = 600
		return []string{fmt.Sprint(tooMany)}, ""
	case "processes":
		return []string{fmt.Sprint(2 * (limits.PIDs + taskReserve))}, ""
	}
	return nil, ""
}

// taskReserve is how many tasks above the limit a backend may allow, for the
// init's own.
const taskReserve = 128

// notTested names what no attack from inside can show.
func notTested(cfg Config) []Line {
	lines := []Line{
		{Name: "kernel-bugs", Tried: "a flaw of the kernel itself", Detail: "no probe can show that there is none; a virtual machine or gVisor is the layer against it"},
		{Name: "side-channels", Tried: "timing and cache side channels between sandboxes on one machine", Detail: "out of reach of a probe, and of this boundary"},
	}
	if cfg.SameHost {
		lines = append(lines, Line{Name: "fake-init", Tried: "take the place of the init for a client that connects by name", Detail: "on this machine the stream is handed in as an inherited socket: there is no name to take"})
	}
	for i := range lines {
		lines[i].Status = NotTested
	}
	return lines
}

func randomHex() string {
	b := make([]byte, 8)
	rand.Read(b)
	return hex.EncodeToString(b)
}
