// Package shellstate carries the state of a session's shell from one command
// to the next, without a shell that lives on between them.
//
// Every script is a bash process of its own. [Prepare] turns the last good
// [State] and a script into an [Invocation]; the caller runs it, and when the
// process has ended gives what is in the state file to [Parse]. The status of
// the command is the one the parent gets from wait, never something read here.
//
// What travels where:
//
//   - exported variables are the process's real environment;
//   - the script, the wrapper and the shell text of the state (umask,
//     functions, aliases, shopt) are files at the descriptors FileFD0 and up,
//     so nothing of them is in argv or on the command's standard input. The
//     wrapper closes them before the script's first command;
//   - the wrapper reads the script and hands it to eval at the shell's top
//     level, so messages say "bash: line 3", $0 is bash, and an open quote or
//     heredoc ends with the script, whatever it looks like;
//   - the wrapper's EXIT trap writes one frame to StateFD: NUL-separated
//     sections between two lines that hold a random nonce, every section
//     twice. Bytes that anybody else writes there before or after the frame
//     are skipped; bytes in the middle make the copies differ, and the frame
//     is refused. A shell that was killed or replaced by exec leaves none.
//     Both mean: the last good state stays.
//   - a script that sets an EXIT trap of its own has the frame written just
//     before its trap runs, in a subshell, and its trap decides the status.
//
// The caller gives StateFD an empty memfd opened with O_APPEND, and reads it
// from its start once the shell's process has ended, whoever else still has it
// open: a child that inherited it can neither block the shell nor make the
// reader wait. It publishes what Parse gives only when the process exited by
// itself: bash runs its EXIT trap also when TERM, HUP or INT ends it, and a
// shell that was killed keeps the last good state.
//
// What does not persist: set options, traps, readonly marks, unexported
// variables, exported arrays (no process could inherit them either), a
// function named builtin, and the shell's own variables (SHLVL, _, BASHOPTS,
// SHELLOPTS).
//
// What of the wrapper can be noticed: descriptor 250 is open; set -x starts
// its lines with ++, because the script runs inside eval; set -v echoes one
// line at the end; syntax errors say "bash: eval: line 3"; a script that
// mentions trap, eval, source or the dot command finds a function named trap.
// An EXIT trap that is set past that function (builtin trap, posix mode, or a
// word we could not see) replaces the capture: the last good state stays.
package shellstate

import "errors"

// FileFD0 is the descriptor of Invocation.Files[0]; Files[i] is at FileFD0+i.
// StateFD is where the shell writes its frame. High, so that scripts that use
// descriptors by number are unlikely to meet them.
const (
	FileFD0 = 200
	StateFD = 250
)

// MaxFrameBytes bounds what is read of the state file and so the state of a
// session; beyond it Parse gives ErrTooLarge.
const MaxFrameBytes = 4 << 20

// MaxVarBytes bounds one exported variable with its name and the equals sign:
// Linux takes strings up to 131,071 bytes. MaxEnvBytes bounds all of them
// together, well below the 2 MiB that a process with the usual stack limit can
// be given with its arguments.
const (
	MaxVarBytes = 131_071
	MaxEnvBytes = 1 << 20
)

var (
	// ErrNoFrame: the shell wrote no whole frame. It was killed, replaced by
	// exec, or its frame was damaged. Nothing to tell anybody.
	ErrNoFrame = errors.New("the shell left no state")
	// ErrTooLarge: the state has more than MaxFrameBytes. Worth a notice.
	ErrTooLarge = errors.New("the shell's functions, aliases and exported variables are larger than 4 MiB: the state before this command is kept; unset some of them")
)

// State is what a session's shell hands on. The zero value is a shell that has
// done nothing yet, without any environment. A State is never changed in
// place, so commands that run side by side may share one.
type State struct {
	Dir  string   // absolute; "" leaves the directory to the caller
	Env  []string // exported variables, NAME=value, in the shell's order; also right for programs started without a shell
	Text []byte   // shell text that restores umask, functions, aliases and shopt
	// Dropped names exported variables that were too large to be kept. Prepare
	// tells of them, so the caller learns it with the next command.
	Dropped []string
}

// Invocation is one bash process. Env, Argv and Files are complete: the caller
// adds nothing to them.
type Invocation struct {
	Argv    []string // Argv[0] is "bash": to be found on the sandbox's PATH, not on the session's
	Env     []string
	Files   [][]byte // a sealed memfd each, its offset does not matter
	StateFD int      // always the constant StateFD
	Nonce   string   // opaque; for Parse
}
