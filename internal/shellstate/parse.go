package shellstate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// sections of one copy of the body, in the order of capture.
const (
	secDir = iota
	secBashopts
	secPosix // attributes, colon and value of POSIXLY_CORRECT, when it is set
	secUmask
	secAlias
	secFunctions
	secTrap // the function trap alone
	secExport
	sections
)

// Parse gives the state that a shell left: frame is what is in the state file,
// junk and all, nonce that of the Invocation. On any error the caller keeps
// the state it has; ErrTooLarge is worth telling, ErrNoFrame is the ordinary
// case of a shell that was killed or replaced. Never panics.
//
// It is enough to give the last 3*MaxFrameBytes of the file: a frame has two
// copies of MaxFrameBytes at most, and one that a flood of other bytes pushed
// further back counts as none.
func Parse(frame []byte, nonce string) (State, error) {
	hex, own, err := splitNonce(nonce)
	if err != nil {
		return State{}, err
	}
	body, err := lastFrame(frame, hex)
	if err != nil {
		return State{}, err
	}
	fields := bytes.Split(body, []byte{0})
	// Every section ends with a NUL, so the last field is empty.
	if len(fields) != 2*sections+1 || len(fields[2*sections]) != 0 {
		return State{}, fmt.Errorf("%w: the frame has %d sections", ErrNoFrame, len(fields))
	}
	for i := range sections {
		if !bytes.Equal(fields[i], fields[sections+i]) {
			return State{}, fmt.Errorf("%w: the two copies differ", ErrNoFrame)
		}
	}
	return decode(fields[:sections], own)
}

func splitNonce(nonce string) (string, handOver, error) {
	var own handOver
	if len(nonce) < nonceLen {
		return "", own, errors.New("parse shell state: the nonce is not one of Prepare's")
	}
	if rest := nonce[nonceLen:]; rest != "" {
		if err := json.Unmarshal([]byte(rest), &own); err != nil {
			return "", own, fmt.Errorf("parse shell state: the nonce is not one of Prepare's: %w", err)
		}
	}
	return nonce[:nonceLen], own, nil
}

// lastFrame gives what is between the markers of the last whole frame.
func lastFrame(b []byte, hex string) ([]byte, error) {
	begin := []byte("\x00skerry-begin " + hex + "\x00")
	end := []byte("skerry-end " + hex + "\x00")
	j := bytes.LastIndex(b, end)
	if j < 0 {
		if i := bytes.LastIndex(b, begin); i >= 0 && len(b)-i > 2*MaxFrameBytes {
			return nil, ErrTooLarge
		}
		return nil, ErrNoFrame
	}
	i := bytes.LastIndex(b[:j], begin)
	switch {
	case i >= 0:
	case j > 2*MaxFrameBytes:
		return nil, ErrTooLarge // it begins before what was read
	default:
		return nil, ErrNoFrame
	}
	body := b[i+len(begin) : j]
	if len(body) > 2*MaxFrameBytes {
		return nil, ErrTooLarge
	}
	return body, nil
}

func decode(f [][]byte, own handOver) (State, error) {
	dir, ok := strings.CutSuffix(string(f[secDir]), "\n")
	if !ok || !strings.HasPrefix(dir, "/") {
		return State{}, fmt.Errorf("%w: the directory is not absolute", ErrNoFrame)
	}
	mask := strings.TrimSuffix(string(f[secUmask]), "\n")
	if len(mask) == 0 || len(mask) > 5 || strings.Trim(mask, "01234567") != "" {
		return State{}, fmt.Errorf("%w: the umask is no number", ErrNoFrame)
	}
	vars, err := parseExports(f[secExport])
	if err != nil {
		return State{}, fmt.Errorf("%w: %w", ErrNoFrame, err)
	}
	if attrs, value, ok := strings.Cut(string(f[secPosix]), ":"); ok && strings.Contains(attrs, "x") {
		vars = append(vars, variable{"POSIXLY_CORRECT", value})
	}
	on, err := options(string(f[secBashopts]))
	if err != nil {
		return State{}, fmt.Errorf("%w: %w", ErrNoFrame, err)
	}
	st := State{Dir: dir, Text: text(mask, on, f[secAlias], functions(f[secFunctions], f[secTrap]))}
	st.Env, st.Dropped = environment(vars, dir, own)
	for _, kv := range own.Odd {
		st.Env = append(st.Env, string(kv))
	}
	st.Env = append(st.Env, exportedFunctions(f[secFunctions])...)
	return st, nil
}

// environment gives what of the exported variables persists.
func environment(vars []variable, dir string, own handOver) (kept, dropped []string) {
	total := 0
	for _, v := range vars {
		if slices.Contains(shellOwn, v.name) || strings.HasPrefix(v.name, "__skerry") {
			continue
		}
		if given, ok := own.Given[v.name]; ok && string(given) == v.value {
			before, ok := own.Before[v.name]
			if !ok {
				continue
			}
			v.value = string(before)
		}
		if v.name == "PWD" {
			v.value = dir
		}
		kv := v.name + "=" + v.value
		if len(kv) > MaxVarBytes || total+len(kv)+1 > MaxEnvBytes {
			dropped = append(dropped, v.name)
			continue
		}
		total += len(kv) + 1
		kept = append(kept, kv)
	}
	return kept, dropped
}

// options gives the shopt options that are on and can be set from inside.
func options(bashopts string) ([]string, error) {
	var on []string
	for _, name := range strings.Split(bashopts, ":") {
		switch {
		case name == "" || name == "login_shell" || name == "restricted_shell" || strings.HasPrefix(name, "compat"):
		case !isName(name):
			return nil, fmt.Errorf("%.40q is no shopt option", name)
		default:
			on = append(on, name)
		}
	}
	return on, nil
}

// text is what the next shell evaluates. extglob is on while functions are
// read, since their bodies may need it; aliases come after the functions, so
// that none is expanded in them. The options come last, in one line that is
// parsed before any of them holds: all off that a fresh shell has on, then on
// what was on.
func text(mask string, on []string, aliases, functions []byte) []byte {
	var b bytes.Buffer
	b.WriteString("builtin umask " + mask + "\nbuiltin shopt -s extglob\n")
	b.Write(functions)
	b.Write(aliases)
	b.WriteString("builtin shopt -u ${BASHOPTS//:/ }")
	if len(on) > 0 {
		b.WriteString("; builtin shopt -s " + strings.Join(on, " "))
	}
	b.WriteString("\n")
	return b.Bytes()
}
