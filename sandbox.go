package skerry

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Kinds of sandbox.
type SandboxKind string

const (
	RunKind     SandboxKind = "run"     // one program, then destroyed
	SessionKind SandboxKind = "session" // kept between commands
)

// DefaultOrg is the tenant where nobody names one.
const DefaultOrg = "default"

// Ref names a sandbox. A live sandbox's Ref is unique in its backend.
type Ref struct {
	Kind SandboxKind
	Org  string // "" is DefaultOrg
	Name string // a session's name or a run's id: as ValidateName says; a session's without : / and \
}

// OrgOrDefault gives the org that r belongs to.
func (r Ref) OrgOrDefault() string {
	if r.Org == "" {
		return DefaultOrg
	}
	return r.Org
}

// maxNameBytes bounds names and ids of callers.
const maxNameBytes = 256

// Validate refuses a Ref that no backend could hold.
func (r Ref) Validate() error {
	const op = "name"
	if r.Kind != RunKind && r.Kind != SessionKind {
		return Errorf(Invalid, op, "unknown kind of sandbox %q", r.Kind)
	}
	if err := ValidateName("org", r.OrgOrDefault()); err != nil {
		return err
	}
	if err := ValidateName(string(r.Kind)+" name", r.Name); err != nil {
		return err
	}
	if i := strings.IndexAny(r.Name, `:/\`); i >= 0 && r.Kind == SessionKind {
		return Errorf(Invalid, op, "the session name %q holds %q, and a file of a session is addressed as NAME:PATH", r.Name, r.Name[i]).
			WithHint(`take a name without : / and \`)
	}
	return nil
}

// ValidateName refuses a name or id that is empty, longer than 256 bytes or not
// UTF-8, or that holds what can't be seen or changes how the rest is read: only
// letters, marks, digits, punctuation, symbols and the plain space are taken.
// what says in the error whose name it is.
func ValidateName(what, name string) error {
	const op = "name"
	switch {
	case name == "":
		return Errorf(Invalid, op, "%s is empty", what)
	case len(name) > maxNameBytes:
		return Errorf(Invalid, op, "%s has %d bytes, at most %d", what, len(name), maxNameBytes)
	case !utf8.ValidString(name):
		return Errorf(Invalid, op, "%s is not UTF-8", what)
	}
	for _, c := range name {
		if !unicode.IsPrint(c) {
			return Errorf(Invalid, op, "%s holds %U, which can't be seen", what, c).WithHint("take letters, digits, punctuation and plain spaces")
		}
	}
	return nil
}

// Key gives a name for r that is safe in a file system, a cgroup and a DNS
// label: 32 lower-case hexadecimal digits, the same for the same Ref, different
// for different ones (128 bits of SHA-256).
func (r Ref) Key() string {
	h := sha256.New()
	for _, s := range []string{string(r.Kind), r.OrgOrDefault(), r.Name} {
		h.Write([]byte(s))
		h.Write([]byte{0}) // names hold no NUL, so the fields can't run together
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// SandboxSpec is what is asked of Create. Zero fields take the defaults named.
type SandboxSpec struct {
	Ref
	Profile string // "" is the backend's default profile
	Image   string // "" is the profile's; backends without images refuse another
	Limits  Limits
	Network Network           // the zero value denies everything
	Env     map[string]string // for every command; a command's own Env wins

	// TTL ends the sandbox this long after Create whatever it does: 0 is
	// DefaultSessionTTL for a session, and for a run its command's limit and
	// what surrounds it.
	TTL time.Duration
	// Idle ends a session in which no command runs and nobody is attached for
	// this long: 0 is DefaultSessionIdle. Runs ignore it.
	Idle time.Duration
	// Retention keeps a run readable for this long after its command ended. 0
	// keeps nothing: Run removes the sandbox. One that is Detached has nobody to
	// remove it; with 0 it stays until its TTL.
	Retention time.Duration
	// Persistent keeps a session's workspace and HOME when it ends; the next
	// Create of the same Ref finds them again.
	Persistent bool
	// Remember keeps a note of how the sandbox ended for this long after it is
	// gone: until then the same Ref is Expired for Open, and for Create of a
	// run, so that a late retry never runs twice. 0 keeps none.
	Remember time.Duration
	// Digest identifies a run's whole request, for Create to tell a retry from
	// another run with the same id; Run fills it in when Remember is set. ""
	// equals nothing.
	Digest string
	// Detached lets a run outlive the process that made it, up to its TTL.
	// Sessions always do.
	Detached bool
	// Progress, when set, is called with what Create waits for, and by Run and
	// Detach when each of their phases begins. It must return quickly.
	Progress func(Event)
}

// Validate refuses what no backend could do.
func (s SandboxSpec) Validate() error {
	const op = "create sandbox"
	if err := s.Ref.Validate(); err != nil {
		return err
	}
	if err := s.Limits.Validate(); err != nil {
		return err
	}
	if err := s.Network.Validate(); err != nil {
		return err
	}
	if err := ValidateEnv(s.Env); err != nil {
		return err
	}
	for _, d := range []struct {
		name string
		d    time.Duration
	}{{"ttl", s.TTL}, {"idle timeout", s.Idle}, {"retention", s.Retention}, {"time to remember", s.Remember}} {
		if d.d < 0 || d.d > MaxDuration {
			return Errorf(Invalid, op, "%s of %v is not between 0 and %v", d.name, d.d, MaxDuration)
		}
	}
	if s.Persistent && s.Kind != SessionKind {
		return Errorf(Invalid, op, "only a session can be persistent")
	}
	return nil
}

// SandboxInfo is what is known of a sandbox.
type SandboxInfo struct {
	Ref
	Backend    string
	Created    time.Time
	Expires    time.Time // when its TTL ends it
	Idle       time.Duration
	Persistent bool
	Network    Network
	Limits     Limits   // what was asked for, defaults filled in
	Warnings   []string // what could not be enforced here
	// Cold says that it was made for this caller; a sandbox that was waiting,
	// made in advance, is not.
	Cold bool
	// Recreated says that the session had been lost and was made anew since
	// its last command; Lost says what went with it.
	Recreated bool
	Lost      []string
	// Phases are the milliseconds that steps of Create took, by the names of
	// Result.Phases without "_ms".
	Phases map[string]time.Duration
}

// Filter selects sandboxes; zero fields select all.
type Filter struct {
	Kind SandboxKind
	Org  string
}

// Matches says whether f selects r.
func (f Filter) Matches(r Ref) bool {
	return (f.Kind == "" || f.Kind == r.Kind) && (f.Org == "" || f.Org == r.OrgOrDefault())
}

// DeleteOptions say what Delete takes along.
type DeleteOptions struct {
	Purge bool // also the files of a persistent session
	// Ended is how a run's command ended, for the note that Remember keeps;
	// nil when it is not known. With it Delete lets other callers who follow
	// the run read what is left, for some seconds and while they do read.
	Ended *Exit
}

// Event is something that happened on the way to a running command.
type Event struct {
	Phase   string // one of the names of Result.Phases without "_ms", for example "provision"
	Message string // one line for people
}

// Report is what Check found, one Finding for each thing it looked at.
type Report []Finding

// Finding is one line of a Report.
type Finding struct {
	Name   string // stable, for example "user-namespaces"
	Status FindingStatus
	Detail string // what was seen
	Remedy string // what to do about it; empty when all is well
}

// FindingStatus grades a Finding.
type FindingStatus string

const (
	FindingOK   FindingStatus = "ok"
	FindingWarn FindingStatus = "warn" // sandboxes work, but something is not enforced
	FindingFail FindingStatus = "fail" // sandboxes can't work
)

// Failed says whether sandboxes can't work here.
func (r Report) Failed() bool {
	for _, f := range r {
		if f.Status == FindingFail {
			return true
		}
	}
	return false
}
