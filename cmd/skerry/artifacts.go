package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/skerry-run/skerry"
)

// artifacts puts what a run leaves under output/ into a folder of the
// caller's. Nothing leaves that folder: names that would are refused, links
// are neither made nor followed.
type artifacts struct {
	root *os.Root
}

// openArtifacts makes the folder if it is missing.
func openArtifacts(dir string) (*artifacts, error) {
	const hint = "name a folder that you may write to, or one that can be made"
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, skerry.Errorf(skerry.Invalid, "-o", "%w", err).WithHint(hint)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, skerry.Errorf(skerry.Invalid, "-o", "%w", err).WithHint(hint)
	}
	return &artifacts{root}, nil
}

func (a *artifacts) close() { _ = a.root.Close() }

// create is a sink for skerry.RunSpec.Artifact.
func (a *artifacts) create(artifact skerry.Artifact) (io.WriteCloser, error) {
	name := strings.TrimPrefix(artifact.Path, skerry.OutputDir+"/")
	return createFile(a.root, name, 0o644, artifact.Size, nil)
}

// createFile starts a file that appears at name, whole, when it is closed with
// exactly size bytes; else it never appears. size < 0 takes any that room has.
func createFile(root *os.Root, name string, mode fs.FileMode, size int64, room *room) (*newFile, error) {
	if !isPlainPath(name) {
		return nil, skerry.Errorf(skerry.Denied, "", "%q is not a path below the folder", name)
	}
	dir := path.Dir(name)
	if err := makeFolders(root, dir); err != nil {
		return nil, err
	}
	if info, err := root.Lstat(name); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a folder already", name)
	}
	temporary := path.Join(dir, ".skerry-"+randomID())
	f, err := root.OpenFile(temporary, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return nil, err
	}
	return &newFile{root: root, content: sparseWriter{file: f, room: room}, temporary: temporary, name: name, size: size}, nil
}

// makeFolders makes dir below root. A link on the way is refused, also one
// that stays inside: what lands here must be where its name says.
func makeFolders(root *os.Root, dir string) error {
	if dir == "." {
		return nil
	}
	at := ""
	for part := range strings.SplitSeq(dir, "/") {
		at = path.Join(at, part)
		info, err := root.Lstat(at)
		switch {
		case err == nil && !info.IsDir():
			return fmt.Errorf("%s is a %s, not a folder", at, typeName(info.Mode().Type()))
		case err == nil:
			continue
		}
		if err := root.Mkdir(at, 0o777); err != nil {
			return err
		}
	}
	return nil
}

// isPlainPath says whether name is a relative path without tricks. A backslash
// separates on Windows, so there it may not hide a "..".
func isPlainPath(name string) bool {
	if name == "" || strings.ContainsRune(name, 0) || strings.HasPrefix(name, "/") || name != path.Clean(name) {
		return false
	}
	for _, part := range strings.FieldsFunc(name, func(r rune) bool { return r == '/' || r == '\\' }) {
		if part == ".." {
			return false
		}
	}
	return name != "."
}

type newFile struct {
	root            *os.Root
	content         sparseWriter
	temporary, name string
	size            int64
	failed          error
}

func (f *newFile) Write(p []byte) (int, error) {
	n, err := f.content.Write(p)
	if err != nil {
		f.failed = err
	}
	return n, err
}

// Close makes the file appear.
func (f *newFile) Close() error {
	err := f.failed
	if err == nil {
		err = f.content.finish()
	}
	if e := f.content.file.Close(); err == nil {
		err = e
	}
	if got := f.content.at; err == nil && f.size >= 0 && got != f.size {
		err = fmt.Errorf("%s: got %d of %d bytes", f.name, got, f.size)
	}
	if err == nil {
		err = f.root.Rename(f.temporary, f.name)
	}
	if err != nil {
		_ = f.root.Remove(f.temporary) // err says what went wrong
	}
	return err
}

// abort makes sure that the file never appears.
func (f *newFile) abort() {
	_ = f.content.file.Close()
	_ = f.root.Remove(f.temporary)
}
