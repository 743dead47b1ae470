// Package skerry has the words and the interfaces of Skerry: isolated
// sandboxes for the code and the shell commands that AI agents write.
//
// A [Backend] is a place where sandboxes live, a [Sandbox] an isolated place
// with its own files, processes, limits and network policy, a [Command] one
// program in it. [Run] does the whole of a run: a fresh sandbox, one program,
// its result, and nothing left.
//
// A program that fails is a value (an [Exit] with an [Outcome]); an error
// means that we could not find out, or that nothing started.
//
// This package imports nothing but the standard library.
package skerry

import (
	"context"
	"io"
	"time"
)

// A Backend is a place where sandboxes live.
//
// Methods are safe for concurrent use. Errors carry a [Kind].
type Backend interface {
	// Name is the backend's word in results: "local", "kubernetes", ….
	Name() string

	// Create makes a sandbox and returns when commands can be started in it.
	// When ctx ends first, nothing of the sandbox is left behind. A live
	// sandbox of the same Ref is a Conflict and stays untouched. Creating may
	// wait, for a queue or an image; spec.Progress tells of it.
	Create(ctx context.Context, spec SandboxSpec) (Sandbox, error)

	// Open finds a live sandbox again, from any process. One that never was
	// is NotFound; one that is past its time is Expired for as long as the
	// backend remembers it.
	Open(ctx context.Context, ref Ref) (Sandbox, error)

	// List gives the live sandboxes that filter selects, oldest first.
	List(ctx context.Context, filter Filter) ([]SandboxInfo, error)

	// Delete ends everything in a sandbox and removes it; it returns when that
	// is done. A sandbox that does not exist is NotFound. The files of a
	// persistent session stay unless opts.Purge.
	Delete(ctx context.Context, ref Ref, opts DeleteOptions) error

	// Check finds out whether sandboxes would work here and what could not be
	// enforced. The error is for a check that could not be made at all.
	Check(ctx context.Context) (Report, error)
}

// A Sandbox is a handle to one sandbox. Methods are safe for concurrent use.
// When the stream to the sandbox breaks, methods reconnect by themselves; what
// they return is never doubled and has no hole that is not marked.
type Sandbox interface {
	// Info tells what was known when the handle was made, with the times that
	// Extend changed.
	Info() SandboxInfo

	// Start starts a command, or attaches to the one that has spec.ID already:
	// the same id with the same spec is the same command, never a second
	// execution; the same id with another spec is a Conflict. It returns when
	// the program runs, or with an error that has an Outcome when it can't.
	Start(ctx context.Context, spec CommandSpec) (Command, error)

	// Command finds a command again by its id, running or ended, for as long
	// as the sandbox keeps it; else NotFound.
	Command(ctx context.Context, id string) (Command, error)

	// Commands lists the commands that the sandbox still keeps, oldest first.
	Commands(ctx context.Context) ([]CommandInfo, error)

	// Files gives the sandbox's files. It is valid as long as the handle.
	Files() Files

	// Usage reads the sandbox's counters.
	Usage(ctx context.Context) (Usage, error)

	// Extend sets the time to live to ttl from now, at most the backend's
	// ceiling; the deadline that holds is in Info afterwards.
	Extend(ctx context.Context, ttl time.Duration) error

	// Close detaches: it ends the streams of this handle. The sandbox and its
	// commands go on. A second Close does nothing.
	Close() error
}

// A Command is a handle to one program in a sandbox. Methods are safe for
// concurrent use. A handle needs no closing; it is valid until its Sandbox is
// closed.
type Command interface {
	// ID is the id that the caller chose.
	ID() string

	// Output calls fn with what the program wrote, from the given offsets on,
	// in order within each stream, until the program has ended and all has
	// been delivered; then it returns nil. An error of fn ends it and is
	// returned. fn must not keep chunk.Data. A reader that is slower than the
	// program holds it back for a bounded time, then bytes are dropped and the
	// next Chunk says how many.
	Output(ctx context.Context, from Offsets, fn func(Chunk) error) error

	// Stdin gives the program's standard input, when the spec asked for
	// StdinStream or a terminal; else writes fail with Invalid. Close means
	// end of file. It may be called once.
	Stdin(ctx context.Context) (io.WriteCloser, error)

	// Signal sends a signal (a POSIX number) to the program, or with tree to
	// everything it started. A program that has ended is no error.
	Signal(ctx context.Context, signal int, tree bool) error

	// Cancel ends the program and everything it started: TERM, the grace,
	// KILL. The outcome is Cancelled with the reason, unless the program had
	// ended before. It returns when the program has ended.
	Cancel(ctx context.Context, reason string) error

	// Resize sets the size of the program's terminal.
	Resize(ctx context.Context, size TerminalSize) error

	// Wait returns when the program has ended. Its end is the end of its
	// process, not of those it left behind, nor of its pipes.
	Wait(ctx context.Context) (Exit, error)
}

// Files are the files of a sandbox.
//
// A path is relative to the workspace, or absolute below the workspace, HOME
// or /tmp; any other is Denied. Paths are slash-separated bytes and
// round-trip exactly; a NUL or an empty path is Invalid. No operation leaves
// those folders through a link, and none blocks on a device or a FIFO.
// An error about a path names it.
type Files interface {
	// Read copies length bytes from offset to w; length < 0 is to the end. A
	// range past the end copies what there is. Only regular files.
	Read(ctx context.Context, path string, offset, length int64, w io.Writer) (FileInfo, error)

	// Write puts all of r in the file, making parent folders. The file
	// changes at once and whole, or not at all.
	Write(ctx context.Context, path string, r io.Reader, opts WriteOptions) (FileInfo, error)

	// List gives the entries of a folder, sorted by name, or with Recursive
	// everything below it with paths relative to it.
	List(ctx context.Context, path string, opts ListOptions) ([]FileInfo, error)

	// Stat tells about path itself; a link is not followed.
	Stat(ctx context.Context, path string) (FileInfo, error)

	// Move renames; an existing file at to is replaced.
	Move(ctx context.Context, from, to string) error

	// Remove deletes a file or an empty folder, or with recursive a tree.
	Remove(ctx context.Context, path string, recursive bool) error

	// Mkdir makes a folder and its parents; one that exists is no error.
	Mkdir(ctx context.Context, path string) error

	// Glob gives the paths below dir that match pattern ("**" crosses
	// folders; hidden files are files like any other), sorted, at most limit
	// (0 is the default of 10,000).
	Glob(ctx context.Context, dir, pattern string, limit int) (GlobResult, error)

	// Grep searches the contents of regular files.
	Grep(ctx context.Context, spec GrepSpec) (GrepResult, error)

	// TarIn unpacks a tar stream below dir. An entry that would leave dir, or
	// follow a link, fails the whole call before anything is visible; devices
	// and FIFOs are skipped and counted.
	TarIn(ctx context.Context, dir string, r io.Reader) (TarResult, error)

	// TarOut writes the tree below path as a tar stream, links as links.
	TarOut(ctx context.Context, path string, w io.Writer) (TarResult, error)
}
