//go:build linux

package probe

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Attack is one thing that user code would try.
type Attack struct {
	Name  string
	Tries string // in words
	Args  string // what it needs from whoever starts it, for example "ADDRESS TOKEN"
	Stays bool   // it keeps what it took until it is ended, after it has told
	// Survivable says that the attempt alone decides nothing: it is blocked
	// when the init still answers afterwards.
	Survivable bool
	run        func(args []string) Finding
}

// Attacks gives all attacks, by name.
func Attacks() []Attack {
	all := slices.Concat(initAttacks, signalAttacks, controlAttacks, namespaceAttacks, systemAttacks, kernelAttacks, hostAttacks, networkAttacks, resourceAttacks)
	slices.SortFunc(all, func(a, b Attack) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Main runs the attack that args names and prints its Finding as one line of
// JSON. It gives the exit code: 0 when there is a line to read, 2 when there is
// no such attack.
func Main(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		for _, a := range Attacks() {
			fmt.Fprintf(stdout, "%-24s %s\n", strings.TrimSpace(a.Name+" "+a.Args), a.Tries)
		}
		return 0
	}
	if code, ok := runAsHelper(args[0], args[1:], stdout); ok {
		return code
	}
	for _, a := range Attacks() {
		if a.Name != args[0] {
			continue
		}
		if os.Geteuid() == 0 {
			// Outside of a sandbox this would harm the machine, and a sandbox
			// in which user code is root is broken already.
			return report(stdout, stderr, Finding{Name: a.Name, Verdict: Unknown, Detail: "it runs as root, where it would do harm: not tried"})
		}
		// A binary that can't be read leaves its process undumpable; user code
		// would use one of its own.
		_ = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
		f := a.run(args[1:])
		f.Name = a.Name
		code := report(stdout, stderr, f)
		if a.Stays {
			c := make(chan os.Signal, 1)
			signal.Notify(c, unix.SIGTERM)
			<-c
		}
		return code
	}
	fmt.Fprintf(stderr, "probe: there is no attack %q\n", args[0])
	return 2
}

func report(stdout, stderr io.Writer, f Finding) int {
	line, err := json.Marshal(f)
	if err != nil {
		fmt.Fprintln(stderr, "probe:", err)
		return 1
	}
	fmt.Fprintf(stdout, "%s\n", line)
	return 0
}

// attempt is one way of doing an attack, and what came of it.
type attempt struct {
	what string
	err  error
}

// judge makes one Finding of several attempts: one that worked is open, one
// that proves nothing makes it unknown, and only when each was refused it is
// blocked.
func judge(attempts ...attempt) Finding {
	if len(attempts) == 0 {
		return Finding{Verdict: Unknown, Detail: "nothing was tried"}
	}
	var open, unknown, refused []string
	for _, a := range attempts {
		switch {
		case a.err == nil:
			open = append(open, a.what)
		case refusal(a.err):
			refused = append(refused, fmt.Sprintf("%s: %v", a.what, a.err))
		default:
			unknown = append(unknown, fmt.Sprintf("%s: %v", a.what, a.err))
		}
	}
	switch {
	case len(open) > 0:
		return Finding{Verdict: Open, Detail: "worked: " + brief(open)}
	case len(unknown) > 0:
		return Finding{Verdict: Unknown, Detail: brief(unknown)}
	}
	return Finding{Verdict: Blocked, Detail: brief(refused)}
}

// refusal says whether err can only mean that something stopped the attempt.
func refusal(err error) bool {
	for _, e := range []error{unix.EPERM, unix.EACCES, unix.ENOSYS, unix.EROFS, errRefused} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// errRefused is a refusal that the kernel has no number for.
var errRefused = errors.New("refused")

// refusedAs makes a refusal with a reason.
func refusedAs(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errRefused, fmt.Sprintf(format, args...))
}

func brief(list []string) string {
	const most = 12
	if len(list) > most {
		return strings.Join(list[:most], "; ") + fmt.Sprintf("; and %d more", len(list)-most)
	}
	return strings.Join(list, "; ")
}

// errno turns the result of a raw system call into an error.
func errno(e unix.Errno) error {
	if e == 0 {
		return nil
	}
	return e
}

func open(format string, args ...any) Finding {
	return Finding{Verdict: Open, Detail: fmt.Sprintf(format, args...)}
}

func blocked(format string, args ...any) Finding {
	return Finding{Verdict: Blocked, Detail: fmt.Sprintf(format, args...)}
}

func unknown(format string, args ...any) Finding {
	return Finding{Verdict: Unknown, Detail: fmt.Sprintf(format, args...)}
}
