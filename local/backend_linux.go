package local

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/boxes"
	"github.com/skerry-run/skerry/internal/bwrap"
	"github.com/skerry-run/skerry/internal/hostnet"
	"github.com/skerry-run/skerry/internal/sweep"
)

// Backend keeps sandboxes on this machine. It holds no goroutines; the
// descriptors that it holds are those of runs that end with this process.
type Backend struct {
	dirs   boxes.Dirs
	config Config

	mu       sync.Mutex
	children map[string]*supervisor // by key: what this process started and has not reaped
}

var _ skerry.Backend = (*Backend)(nil)

// New makes the folders of the backend and removes what dead sandboxes left.
// Without bubblewrap or skerry-init it says what to install; nothing is ever
// run outside of a sandbox instead.
func New(c Config) (*Backend, error) {
	const op = "local backend"
	dirs, err := boxes.Locate(c.StateDir)
	if err != nil {
		return nil, err
	}
	if c.MaxTTL == 0 {
		c.MaxTTL = DefaultMaxTTL
	}
	if c.StartTimeout == 0 {
		c.StartTimeout = skerry.DefaultStartTimeout
	}
	if c.MaxTTL < 0 || c.StartTimeout < 0 {
		return nil, skerry.Errorf(skerry.Invalid, op, "a time in the configuration is negative")
	}
	if c.Bwrap, err = bwrap.Find(c.Bwrap); err != nil {
		return nil, err
	}
	if c.Init, err = findInit(c.Init); err != nil {
		return nil, err
	}
	if err := dirs.Ensure(); err != nil {
		return nil, err
	}
	if os.Geteuid() == 0 {
		if err := dirs.Passable(); err != nil {
			return nil, err
		}
	}
	b := &Backend{dirs: dirs, config: c, children: map[string]*supervisor{}}
	if _, err := sweep.All(dirs); err != nil {
		return nil, skerry.Errorf(skerry.Internal, op, "clean up after dead sandboxes: %w", err)
	}
	return b, nil
}

// findInit finds skerry-init.
func findInit(path string) (string, error) {
	const op, name = "local backend", "skerry-init"
	if path == "" {
		if self, err := os.Executable(); err == nil {
			if beside := filepath.Join(filepath.Dir(self), name); isExecutable(beside) {
				return beside, nil
			}
		}
		found, err := exec.LookPath(name)
		if err != nil {
			return "", skerry.Errorf(skerry.Denied, op, "%s is neither beside this program nor on PATH", name).
				WithHint("install it beside skerry, or set init in the configuration").WithOutcome(skerry.StartFailed)
		}
		path = found
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", skerry.Errorf(skerry.Invalid, op, "%w", err)
	}
	if !isExecutable(path) {
		return "", skerry.Errorf(skerry.Denied, op, "%s is not an executable file", path).
			WithHint("build it with make build, or set init in the configuration to where it is").WithOutcome(skerry.StartFailed)
	}
	return path, nil
}

func isExecutable(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Mode().IsRegular() && unix.Access(path, unix.X_OK) == nil
}

// Name is "local".
func (b *Backend) Name() string { return Name }

// Sweep removes what dead sandboxes left. New and Create do it too.
func (b *Backend) Sweep(context.Context) error {
	b.reap()
	_, err := sweep.All(b.dirs)
	if err != nil {
		return skerry.Errorf(skerry.Internal, "sweep", "%w", err)
	}
	return nil
}

// Create makes a sandbox and returns when its init answers.
func (b *Backend) Create(ctx context.Context, spec skerry.SandboxSpec) (skerry.Sandbox, error) {
	b.reap()
	record, err := b.plan(spec)
	if err != nil {
		return nil, err
	}
	sup, err := b.spawn()
	if err != nil {
		return nil, err
	}
	if spec.Progress != nil {
		spec.Progress(skerry.Event{Phase: "provision", Message: "starting a sandbox on this machine"})
	}
	ctx, cancel := context.WithTimeoutCause(ctx, b.config.StartTimeout, errStartTimeout)
	defer cancel()
	s, err := b.start(ctx, sup, spec, record)
	if err != nil {
		return nil, b.sameRun(record, err)
	}
	return s, nil
}

const opCreate = "create sandbox"

var errStartTimeout = errors.New("start timeout")

// plan turns what was asked into a record with every default filled in.
func (b *Backend) plan(spec skerry.SandboxSpec) (boxes.Record, error) {
	refuse := func(err error) (boxes.Record, error) {
		if e, ok := errors.AsType[*skerry.Error](err); ok && e.Outcome == "" {
			e.Outcome = skerry.Refused
		}
		return boxes.Record{}, err
	}
	if err := spec.Validate(); err != nil {
		return refuse(err)
	}
	if spec.Image != "" {
		return refuse(skerry.Errorf(skerry.Invalid, opCreate, "the local backend has no images, %q was asked for", spec.Image).
			WithHint("programs of this machine run in it; use --backend kubernetes or docker for images"))
	}
	const maxEnvBytes = 768 << 10 // with the init's own, below what its config may have
	size := 0
	for k, v := range spec.Env {
		size += len(k) + len(v) + 8
	}
	if size > maxEnvBytes {
		return refuse(skerry.Errorf(skerry.Invalid, opCreate, "the environment has %d bytes, at most %d", size, maxEnvBytes).WithHint("put large values in files"))
	}
	ttl := spec.TTL
	if ttl == 0 {
		ttl = skerry.DefaultSessionTTL
		if spec.Kind == skerry.RunKind {
			ttl = skerry.DefaultRunTimeout + skerry.DefaultKillGrace + spec.Retention + skerry.DefaultStartTimeout
		}
	}
	if err := b.checkTTL(opCreate, ttl); err != nil {
		return refuse(err)
	}
	idle := spec.Idle
	if idle == 0 {
		idle = skerry.DefaultSessionIdle
	}
	var retention time.Duration
	if spec.Kind == skerry.RunKind {
		idle, retention = 0, spec.Retention
	}
	instance := make([]byte, 16)
	_, _ = rand.Read(instance) // never fails
	network := spec.Network
	if network.Mode == "" {
		network.Mode = skerry.NetworkDeny
	}
	if network.Mode != skerry.NetworkDeny {
		if err := hostnet.Available(os.Geteuid() == 0); err != nil {
			return refuse(err)
		}
	}
	ref := spec.Ref
	ref.Org = ref.OrgOrDefault()
	digest, err := b.dirs.KeyedDigest(spec.Digest)
	if err != nil {
		return refuse(skerry.Errorf(skerry.Internal, opCreate, "%w", err))
	}
	now := time.Now()
	return boxes.Record{
		Ref: ref, Key: ref.Key(), SandboxUID: hex.EncodeToString(instance), Created: now, Expires: now.Add(ttl), Idle: idle,
		Persistent: spec.Persistent, Remember: spec.Remember, Retention: retention, Digest: digest, Network: network,
		Limits: spec.Limits.OrDefaults(skerry.DefaultLimits), Warnings: []string{},
	}, nil
}

func (b *Backend) checkTTL(op string, ttl time.Duration) error {
	if ttl > b.config.MaxTTL {
		return skerry.Errorf(skerry.Invalid, op, "a time to live of %v is above the ceiling of %v", ttl.Round(time.Second), b.config.MaxTTL).
			WithHint("ask for at most %v from its creation, or raise timeouts.max_ttl in the configuration", b.config.MaxTTL).WithOutcome(skerry.Refused)
	}
	return nil
}

// Open finds a sandbox of this user by its name.
func (b *Backend) Open(ctx context.Context, ref skerry.Ref) (skerry.Sandbox, error) {
	const op = "open sandbox"
	b.reap()
	if err := ref.Validate(); err != nil {
		return nil, err
	}
	record, err := b.find(op, ref)
	if err != nil {
		return nil, err
	}
	s, err := b.attach(ctx, record)
	if err != nil {
		// It may have ended between the look and the dial.
		if _, gone := b.find(op, ref); gone != nil {
			return nil, gone
		}
		return nil, err
	}
	return s, nil
}

// find gives the record of a live sandbox, or why there is none.
func (b *Backend) find(op string, ref skerry.Ref) (boxes.Record, error) {
	key := ref.Key()
	r, alive, err := b.dirs.Find(key)
	if err != nil {
		return r, skerry.Errorf(skerry.Internal, op, "%w", err)
	}
	if alive && !b.dirs.Ending(key) {
		return r, nil
	}
	if !alive && b.dirs.Exists(key) {
		if _, err := sweep.Box(b.dirs, key); err != nil {
			return r, skerry.Errorf(skerry.Internal, op, "%w", err)
		}
	}
	if n, ok := b.dirs.Recall(key); ok {
		return r, expired(op, "is gone", n)
	}
	if ref.Kind == skerry.SessionKind && b.dirs.HasVolume(key) {
		return r, skerry.Errorf(skerry.NotFound, op, "session %q does not run; its files are kept", ref.Name).
			WithHint("create it again with --persistent to go on with its files")
	}
	return r, skerry.Errorf(skerry.NotFound, op, "there is no %s %q", ref.Kind, ref.Name)
}

// List gives the live sandboxes of this user.
func (b *Backend) List(ctx context.Context, filter skerry.Filter) ([]skerry.SandboxInfo, error) {
	b.reap()
	records, err := b.dirs.List()
	if err != nil {
		return nil, skerry.Errorf(skerry.Internal, "list sandboxes", "%w", err)
	}
	out := []skerry.SandboxInfo{}
	for _, r := range records {
		if filter.Matches(r.Ref) {
			out = append(out, r.Info())
		}
	}
	return out, ctx.Err()
}

// Delete ends a sandbox and returns when nothing is left of it. With Purge the
// files of a persistent session go too, also when it does not run.
func (b *Backend) Delete(ctx context.Context, ref skerry.Ref, opts skerry.DeleteOptions) error {
	const op = "delete sandbox"
	if err := ref.Validate(); err != nil {
		return err
	}
	key := ref.Key()
	defer b.reap()
	if opts.Ended != nil {
		b.letFollowersFinish(ctx, key)
	}
	found, err := b.end(ctx, key)
	if err != nil {
		return skerry.Errorf(skerry.Unavailable, op, "%s %q: %w", ref.Kind, ref.Name, err)
	}
	if opts.Purge && b.dirs.HasVolume(key) {
		found = true
		if err := b.dirs.Purge(key); err != nil {
			return skerry.Errorf(skerry.Internal, op, "%w", err)
		}
	}
	if note, ok := b.dirs.Recall(key); ok && opts.Ended != nil {
		note.Exit = opts.Ended
		if err := b.dirs.Remember(key, note); err != nil {
			return skerry.Errorf(skerry.Internal, op, "remember how the run ended: %w", err)
		}
	}
	if !found {
		return skerry.Errorf(skerry.NotFound, op, "there is no %s %q", ref.Kind, ref.Name)
	}
	return nil
}

// end ends the sandbox of key, if there is one, and waits until it is gone.
func (b *Backend) end(ctx context.Context, key string) (found bool, err error) {
	r, alive, err := b.dirs.Find(key)
	if err != nil {
		return false, err
	}
	if !alive {
		if !b.dirs.Exists(key) {
			return false, nil
		}
		return sweep.Box(b.dirs, key)
	}
	fd, ok := r.Supervisor.Open()
	if !ok {
		return sweep.Box(b.dirs, key)
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, unix.SIGTERM, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return true, fmt.Errorf("signal its supervisor: %w", err)
	}
	b.mu.Lock()
	own := b.children[r.Key+r.SandboxUID]
	b.mu.Unlock()
	if own != nil && own.replyEnd != nil {
		err = own.removed(ctx)
	}
	if err == nil && (own == nil || own.replyEnd == nil || b.dirs.Exists(key)) {
		err = waitGone(ctx, fd)
	}
	if err != nil {
		return true, err
	}
	if b.dirs.Exists(key) { // the supervisor could not finish
		if _, err := sweep.Box(b.dirs, key); err != nil {
			return true, err
		}
	}
	return true, nil
}

// deleteLimit bounds the wait for a supervisor whatever the caller's ctx.
const deleteLimit = 30 * time.Second

// waitGone waits for the process of pidfd fd.
func waitGone(ctx context.Context, fd int) error {
	const step = 50 * time.Millisecond // how late the end of ctx is noticed
	for end := time.Now().Add(deleteLimit); ; {
		if boxes.WaitPidfd(fd, step) {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("it has not ended within %v", deleteLimit)
		}
	}
}
