package shellstate

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// heldBack are variables that would change how our own bash starts. They are
// taken out of its environment and exported by the wrapper once it runs, so
// that the script and its children see them.
var heldBack = []string{"BASH_ENV", "ENV", "BASH_XTRACEFD", "BASH_COMPAT", "LC_ALL", "POSIXLY_CORRECT", "POSIX_PEDANTIC"}

// shellOwn are variables that the shell makes for itself, some of them anew
// each time they are read. They never persist.
var shellOwn = []string{
	"_", "SHLVL", "BASHOPTS", "SHELLOPTS", "BASH_EXECUTION_STRING", "BASH_COMMAND", "BASHPID", "BASH_SUBSHELL",
	"LINENO", "RANDOM", "SRANDOM", "SECONDS", "EPOCHSECONDS", "EPOCHREALTIME", "HISTCMD",
}

// nonceLen is the random part of a nonce: 16 bytes in hex.
const nonceLen = 32

// handOver is what Parse has to know of the command's beginning. It travels in
// Invocation.Nonce, never through the shell.
type handOver struct {
	Given  map[string][]byte `json:"given,omitempty"`  // NAME -> value of this command only
	Before map[string][]byte `json:"before,omitempty"` // NAME -> value in the state before; absent: not set
	// Odd are variables of the state whose names no shell can list, though it
	// passes them on.
	Odd [][]byte `json:"odd,omitempty"`
}

// Prepare makes the process that runs script from the state st. env holds
// NAME=value for this command only: it wins over the state, and at the end a
// variable that still has the value given here goes back to what the state
// had. A script that gives it another value and exports it has made it the
// session's.
//
// The notices are for the caller of the command: variables that could not be
// passed on, by name.
func Prepare(st State, script []byte, env []string) (Invocation, []string, error) {
	if bytes.IndexByte(script, 0) >= 0 {
		return Invocation{}, nil, errors.New("prepare shell: the script holds a NUL byte, which no shell can read; send it base64-encoded or as a file")
	}
	var own handOver
	vars := make([]string, 0, len(st.Env)+len(env)+1)
	if len(env) > 0 {
		own.Given = make(map[string][]byte, len(env))
		own.Before = make(map[string][]byte)
		for _, kv := range env {
			name, value, ok := strings.Cut(kv, "=")
			if !ok || name == "" || strings.IndexByte(kv, 0) >= 0 {
				return Invocation{}, nil, fmt.Errorf("prepare shell: %q is not a variable; give NAME=value", kv)
			}
			own.Given[name] = []byte(value)
		}
	}
	for _, kv := range st.Env {
		name, value, _ := strings.Cut(kv, "=")
		if _, ok := own.Given[name]; ok {
			own.Before[name] = []byte(value)
			if !isName(name) && !isFunction(name) {
				own.Odd = append(own.Odd, []byte(kv))
			}
			continue
		}
		if !isName(name) && !isFunction(name) {
			own.Odd = append(own.Odd, []byte(kv))
		}
		vars = append(vars, kv)
	}
	for _, name := range slices.Sorted(maps.Keys(own.Given)) {
		vars = append(vars, name+"="+string(own.Given[name]))
	}

	var notices []string
	if len(st.Dropped) > 0 {
		notices = append(notices, tooLarge(st.Dropped))
	}
	vars, held, dropped := sift(vars, st.Dir)
	if len(dropped) > 0 {
		notices = append(notices, tooLarge(dropped))
	}

	var random [16]byte
	rand.Read(random[:])
	nonce := hex.EncodeToString(random[:])
	files := [][]byte{script, prelude(nonce, held, len(st.Text) > 0, mayTrap(script, st.Text))}
	if len(st.Text) > 0 {
		files = append(files, st.Text)
	}
	token := nonce
	if len(own.Given) > 0 || len(own.Odd) > 0 {
		b, err := json.Marshal(own)
		if err != nil {
			return Invocation{}, nil, fmt.Errorf("prepare shell: %w", err)
		}
		token += string(b)
	}
	return Invocation{Argv: []string{"bash", "-c", boot, "bash"}, Env: vars, Files: files, StateFD: StateFD, Nonce: token}, notices, nil
}

// sift gives the environment of the process: without what is the shell's own,
// without what is held back, with PWD as the shell shall see it, and within
// the bounds of exec. Later variables are dropped first.
func sift(vars []string, dir string) (kept []string, held [][2]string, dropped []string) {
	total := 0
	for _, kv := range vars {
		name, value, _ := strings.Cut(kv, "=")
		switch {
		case slices.Contains(shellOwn, name) || isFunction(name):
		case name == "PWD" && dir != "":
		case len(kv) > MaxVarBytes || total+len(kv)+1 > MaxEnvBytes:
			dropped = append(dropped, name)
		case slices.Contains(heldBack, name):
			held = append(held, [2]string{name, value})
		default:
			total += len(kv) + 1
			kept = append(kept, kv)
		}
	}
	if dir != "" {
		kept = append(kept, "PWD="+dir)
	}
	return kept, held, dropped
}

// maxNamed bounds how many variables a notice names.
const maxNamed = 20

func tooLarge(names []string) string {
	shown := names
	more := ""
	if len(shown) > maxNamed {
		more = fmt.Sprintf(" and %d more", len(shown)-maxNamed)
		shown = shown[:maxNamed]
	}
	return fmt.Sprintf("exported variables too large for a process (%d bytes each, %d in all) were not kept: %s%s; put them in a file", MaxVarBytes, MaxEnvBytes, strings.Join(shown, " "), more)
}
