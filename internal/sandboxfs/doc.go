// Package sandboxfs is the files of a sandbox as its init sees them: three
// folders (workspace, HOME, /tmp), each held by an os.Root, and nothing else.
//
// Every operation opens a folder inside its root first and then works on
// single names below that folder without following links, so that a program
// which swaps a folder for a link in between gains nothing. A link in a path is
// followed when it ends below one of the three folders, whether it is relative
// or absolute; any other is Denied.
//
// What lists or searches never follows a link. List fails on a folder that
// can't be read; Glob and Grep pass over what the sandbox's user can't read.
package sandboxfs
