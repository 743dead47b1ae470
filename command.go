package skerry

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// CommandSpec is what is asked of Start: a program by its argv, or a script for
// the session's shell, exactly one of the two.
type CommandSpec struct {
	// ID is chosen by the caller, 1 to 256 bytes, unique in the sandbox.
	ID string

	Argv []string // found on PATH of the sandbox
	// Script is shell text. It starts from the session's shell state (cwd,
	// exported variables, functions, aliases, umask, shopt) and publishes its
	// own at its end. Never parsed or split on the way. No NUL.
	Script string

	Dir   string            // relative to the workspace or absolute; "" is the session's cwd, in a run the workspace
	Env   map[string]string // on top of the sandbox's and the session's
	Stdin StdinMode
	TTY   *TerminalSize // run on a terminal of this size: one stream (stdout), and stdin is open
	Merge bool          // stderr goes into stdout's pipe: one stream, exact order

	// Timeout ends the command: TERM, Grace, KILL for everything it started.
	// 0 is no limit of its own, the sandbox's deadline still holds. Negative
	// is Invalid.
	Timeout time.Duration
	Grace   time.Duration // 0 is DefaultKillGrace

	// Background marks a command that nobody waits for. It changes nothing in
	// how it runs, only how it is listed: in a session what a command leaves
	// running lives on until the sandbox ends, unless a limit or a signal
	// ended the command; in a run it is killed.
	Background bool

	// Files are written, whole, before the program starts: its code and small
	// inputs. Paths as in Files; at most MaxStartFilesBytes in all, Script
	// included.
	Files []StartFile

	// Missing says what to install when Argv[0] is not in the sandbox; it
	// becomes the hint of the StartFailed error.
	Missing string
}

// StartFile is a file that is there before the program starts.
type StartFile struct {
	Path string
	Data []byte
	Mode uint32 // permission bits; 0 is 0644
}

// StdinMode is where standard input comes from.
type StdinMode string

const (
	StdinNone   StdinMode = ""       // /dev/null
	StdinStream StdinMode = "stream" // what is written to Command.Stdin
)

// TerminalSize is the size of a terminal in characters; zero fields are 80×24.
type TerminalSize struct {
	Cols, Rows uint16
}

// OrDefaults gives t with the default in each zero field.
func (t TerminalSize) OrDefaults() TerminalSize {
	return TerminalSize{Cols: orDefault(t.Cols, 80), Rows: orDefault(t.Rows, 24)}
}

// DefaultFileMode is the mode of a file for which none was given.
const DefaultFileMode = 0o644

// OrDefaults gives s with the default in each zero field that has one. Dir and
// Timeout have none: zero is a meaning of its own.
func (s CommandSpec) OrDefaults() CommandSpec {
	s.Grace = orDefault(s.Grace, DefaultKillGrace)
	if s.TTY != nil {
		s.TTY = new(s.TTY.OrDefaults())
	}
	s.Files = slices.Clone(s.Files)
	for i := range s.Files {
		s.Files[i].Mode = orDefault(s.Files[i].Mode, DefaultFileMode)
	}
	return s
}

func orDefault[T comparable](v, d T) T {
	var zero T
	if v == zero {
		return d
	}
	return v
}

// Validate refuses what no sandbox could start.
func (s CommandSpec) Validate() error {
	const op = "start command"
	if err := ValidateName("command id", s.ID); err != nil {
		return err
	}
	switch {
	case len(s.Argv) == 0 && s.Script == "":
		return Errorf(Invalid, op, "there is nothing to run: no argv and no script")
	case len(s.Argv) > 0 && s.Script != "":
		return Errorf(Invalid, op, "argv and a script were both given")
	case strings.ContainsRune(s.Script, 0):
		return Errorf(Invalid, op, "the script holds a NUL byte, which no shell can read")
	case int64(len(s.Script)) > MaxScriptBytes:
		return Errorf(Invalid, op, "the script has %d bytes, at most %d", len(s.Script), MaxScriptBytes).WithHint("put it in a file of the sandbox and run that")
	case s.Timeout < 0 || s.Timeout > MaxDuration:
		return Errorf(Invalid, op, "timeout %v is not between 0 and %v", s.Timeout, MaxDuration)
	case s.Grace < 0 || s.Grace > time.Minute:
		return Errorf(Invalid, op, "kill grace %v is not between 0 and 1m", s.Grace)
	case s.Stdin != StdinNone && s.Stdin != StdinStream:
		return Errorf(Invalid, op, "unknown stdin mode %q", s.Stdin)
	case strings.ContainsRune(s.Dir, 0):
		return Errorf(Invalid, op, "the working directory holds a NUL byte")
	}
	if len(s.Argv) > 0 && s.Argv[0] == "" {
		return Errorf(Invalid, op, "the program's name is empty")
	}
	for i, a := range s.Argv {
		if strings.ContainsRune(a, 0) {
			return Errorf(Invalid, op, "argument %d holds a NUL byte", i)
		}
		if len(a) > MaxArgvBytes {
			return Errorf(Invalid, op, "argument %d has %d bytes, Linux takes at most %d", i, len(a), MaxArgvBytes).WithHint("send it as a file or on stdin")
		}
	}
	if total := stringsBytes(s.Argv, s.Env); total > maxStringsBytes {
		return Errorf(Invalid, op, "arguments and environment have %d bytes, Linux takes at most %d", total, maxStringsBytes).WithHint("send them as a file or on stdin")
	}
	files := int64(len(s.Script))
	for _, f := range s.Files {
		if f.Path == "" || strings.ContainsRune(f.Path, 0) {
			return Errorf(Invalid, op, "a file has an empty path or a NUL in it")
		}
		files += int64(len(f.Data))
	}
	if files > MaxStartFilesBytes {
		return Errorf(Invalid, op, "files and script have %d bytes, at most %d", files, MaxStartFilesBytes).WithHint("write larger ones with Files.Write first")
	}
	return ValidateEnv(s.Env)
}

// maxStringsBytes is what Linux takes of argv and environment together, with a
// pointer for each, under the usual stack limit.
const maxStringsBytes = 2 << 20

func stringsBytes(argv []string, env map[string]string) (total int) {
	const pointer, nul, equals = 8, 1, 1
	for _, a := range argv {
		total += len(a) + nul + pointer
	}
	for k, v := range env {
		total += len(k) + equals + len(v) + nul + pointer
	}
	return total
}

// ValidateEnv refuses names and values that Linux could not pass on.
func ValidateEnv(env map[string]string) error {
	const op = "environment"
	for k, v := range env {
		switch {
		case k == "" || strings.ContainsAny(k, "=\x00"):
			return Errorf(Invalid, op, "%.64q is not a variable's name", k)
		case strings.ContainsRune(v, 0):
			return Errorf(Invalid, op, "the value of %.64q holds a NUL byte", k)
		case len(k)+1+len(v) > MaxArgvBytes:
			return Errorf(Invalid, op, "%.64q has %d bytes, Linux takes at most %d", k, len(k)+1+len(v), MaxArgvBytes).WithHint("put it in a file")
		}
	}
	return nil
}

// CommandInfo is what is known of a command.
type CommandInfo struct {
	ID         string
	Background bool
	Started    time.Time
	PID        int   // in the sandbox's own numbering; 0 when not known
	Exit       *Exit // nil while it runs
	Stdout     int64 // bytes written so far
	Stderr     int64
}

// Stream is one of a command's outputs.
type Stream uint8

const (
	Stdout Stream = 1
	Stderr Stream = 2
)

// String gives "stdout" or "stderr".
func (s Stream) String() string {
	switch s {
	case Stdout:
		return "stdout"
	case Stderr:
		return "stderr"
	}
	return fmt.Sprintf("stream %d", uint8(s))
}

// Offsets are positions in both outputs, in bytes from their start.
type Offsets struct {
	Stdout, Stderr int64
}

// Chunk is a piece of one output.
type Chunk struct {
	Stream  Stream
	Offset  int64  // of Data[0] from the start of the stream
	Data    []byte // valid only during the call
	Omitted int64  // bytes just before Offset that are gone; 0 when nothing is missing
}
