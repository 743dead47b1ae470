package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/skerry-run/skerry"
)

// inputArg is one -f: SRC or SRC:DEST.
//
// The last colon separates, so a SRC that holds a colon is written with one
// more at its end ("a:b:" is the file a:b under its own name). A drive letter
// is no SRC. An empty DEST is the base name, a DEST that ends in a slash is a
// folder for it.
type inputArg struct {
	src, dest string
}

func parseInputArg(s string) (inputArg, error) { return parseInputArgFor(s, runtime.GOOS) }

func parseInputArgFor(s, goos string) (inputArg, error) {
	bad := func(format string, args ...any) (inputArg, error) {
		return inputArg{}, skerry.Errorf(skerry.Invalid, "-f", format, args...).WithHint("write SRC or SRC:DEST, for example -f data.csv:in/data.csv")
	}
	src, dest := s, ""
	if i := strings.LastIndexByte(s, ':'); i >= 0 && !isDriveColon(s, i, goos) {
		src, dest = s[:i], s[i+1:]
	}
	if src == "" {
		return bad("%q names no file", s)
	}
	return inputArg{src, dest}, nil
}

// isDriveColon says whether the colon at i belongs to a Windows drive letter.
func isDriveColon(s string, i int, goos string) bool {
	if goos != "windows" || i != 1 || len(s) < 3 {
		return false
	}
	letter := s[0] | 0x20
	return letter >= 'a' && letter <= 'z' && (s[2] == '\\' || s[2] == '/')
}

// resolveInputs looks at the files that -f names. Notes tell of what is left
// out. limit bounds what is read of a source that is no regular file, a pipe.
func resolveInputs(args []string, limit int64) (inputs []skerry.Input, notes []string, err error) {
	for _, s := range args {
		a, err := parseInputArg(s)
		if err != nil {
			return nil, nil, err
		}
		in, more, err := a.resolve(limit)
		if err != nil {
			return nil, nil, err
		}
		inputs, notes = append(inputs, in...), append(notes, more...)
		if len(inputs) > skerry.MaxArtifactCount {
			return nil, nil, skerry.Errorf(skerry.Invalid, "-f", "more than %d files", skerry.MaxArtifactCount).WithHint("pack them into an archive and unpack it in the program")
		}
	}
	return inputs, notes, nil
}

func (a inputArg) resolve(limit int64) ([]skerry.Input, []string, error) {
	info, err := os.Stat(a.src)
	if err != nil {
		return nil, nil, skerry.Errorf(skerry.Invalid, "-f", "%w", err).WithHint("the last colon separates SRC from DEST; a SRC with a colon in its name is written with one more at its end")
	}
	dest, err := a.destination()
	if err != nil {
		return nil, nil, err
	}
	if info.IsDir() {
		return walkInputs(a.src, dest)
	}
	if dest == "." {
		return nil, nil, skerry.Errorf(skerry.Invalid, "-f", "%q is no name for a file", a.src)
	}
	if info.Mode().IsRegular() {
		return []skerry.Input{fileInput(a.src, dest, info)}, nil, nil
	}
	f, err := os.Open(a.src)
	if err != nil {
		return nil, nil, skerry.Errorf(skerry.Invalid, "-f", "%w", err)
	}
	defer f.Close()
	data, err := readBounded(f, limit, a.src)
	if err != nil {
		return nil, nil, err
	}
	return []skerry.Input{bytesInput(dest, data)}, nil, nil
}

// destination is where the source lands: slash-separated, "." for a folder
// whose contents go into the workspace itself.
func (a inputArg) destination() (string, error) {
	if a.dest != "" && !strings.HasSuffix(a.dest, "/") {
		return path.Clean(a.dest), nil
	}
	base := filepath.Base(filepath.Clean(a.src))
	if base == ".." {
		abs, err := filepath.Abs(a.src)
		if err != nil {
			return "", fmt.Errorf("-f %s: %w", a.src, err)
		}
		base = filepath.Base(abs)
	}
	if base == string(filepath.Separator) {
		return "", skerry.Errorf(skerry.Invalid, "-f", "the root folder has no name").WithHint("give it a place with -f SRC:DEST")
	}
	return path.Join(a.dest, base), nil
}

func fileInput(src, dest string, info fs.FileInfo) skerry.Input {
	mode := uint32(0o644)
	if info.Mode().Perm()&0o100 != 0 {
		mode = 0o755
	}
	return skerry.Input{Path: dest, Mode: mode, Size: info.Size(), Open: func() (io.ReadCloser, error) { return os.Open(src) }}
}

// walkInputs takes the regular files below a folder. Links are not followed:
// they could lead anywhere on this machine.
func walkInputs(dir, dest string) (inputs []skerry.Input, notes []string, err error) {
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return skerry.Errorf(skerry.Invalid, "-f", "%w", err)
		}
		if d.IsDir() {
			return nil
		}
		if !d.Type().IsRegular() {
			notes = append(notes, fmt.Sprintf("%s was left out: only regular files of a folder are sent, this is a %s", p, typeName(d.Type())))
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return skerry.Errorf(skerry.Invalid, "-f", "%w", err)
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return skerry.Errorf(skerry.Invalid, "-f", "%w", err)
		}
		inputs = append(inputs, fileInput(p, path.Join(dest, filepath.ToSlash(rel)), info))
		if len(inputs) > skerry.MaxArtifactCount {
			return skerry.Errorf(skerry.Invalid, "-f", "%s has more than %d files", dir, skerry.MaxArtifactCount).WithHint("pack them into an archive and unpack it in the program")
		}
		return nil
	})
	return inputs, notes, err
}

func typeName(m fs.FileMode) string {
	switch {
	case m.IsRegular():
		return "file"
	case m.IsDir():
		return "folder"
	case m&fs.ModeSymlink != 0:
		return "link"
	case m&fs.ModeNamedPipe != 0:
		return "pipe"
	case m&fs.ModeSocket != 0:
		return "socket"
	case m&fs.ModeDevice != 0:
		return "device"
	}
	return "special file"
}
