package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/config"
)

// cancelPatience is how long what must be ended is waited for.
const cancelPatience = 10 * time.Second

func (a *app) sessionCpCommand() *cobra.Command {
	var maxSize string
	cmd := &cobra.Command{
		Use: "cp SRC DEST", Short: "Copy files into a session or out of it", Args: wantArgs(2, 2),
		Long: `Copy a file or a folder into a session or out of it. One of SRC and DEST is
NAME:PATH, a relative PATH is below /workspace; the other is a path here, or -
for stdin or stdout. The name ends at the first colon; a word with a slash
before its first colon is a path here (./a:b).

A DEST that is a folder, or ends in a slash, gets SRC in it under its own name;
else DEST is the new name. A file appears at once and whole. A folder is checked
before anything of it appears: an entry that would leave the folder fails the
copy. Links that lead out of it are left out, and a note tells so.

What comes out has holes where zeros would stand, and is bounded: by what the
session may hold by its limits, unless --max-size says otherwise. Holes do not
count.`,
		Example: `  skerry session cp data.csv work:in/data.csv
  skerry session cp work:results ./results
  tar cz src | skerry session cp - work:src.tgz`,
		RunE: func(cmd *cobra.Command, args []string) error {
			src, dest := parseSessionPath(args[0], runtime.GOOS), parseSessionPath(args[1], runtime.GOOS)
			switch {
			case src.session == "" && dest.session == "":
				return skerry.Errorf(skerry.Invalid, "", "neither SRC nor DEST is in a session").WithHint("write one of them as NAME:PATH")
			case src.session != "" && dest.session != "":
				return skerry.Errorf(skerry.Invalid, "", "SRC and DEST are both in a session").WithHint("copy out of the one, then into the other; a path here with a colon is written ./a:b")
			}
			var limit int64
			if cmd.Flags().Changed("max-size") {
				var err error
				if limit, err = config.ParseBytes(maxSize); err != nil {
					return skerry.Errorf(skerry.Invalid, "--max-size", "%w", err)
				}
			}
			name := src.session + dest.session
			_, s, err := a.openSession(cmd.Context(), cmd, name)
			if err != nil {
				return err
			}
			defer s.Close()
			if src.path != "-" && dest.path != "-" { // else the terminal may be one end of it
				defer a.progress.begin("copying " + src.path)()
			}
			if dest.session != "" {
				err = a.copyIn(cmd.Context(), s.Files(), src.path, dest.path)
			} else {
				if limit == 0 {
					holds := s.Info().Limits
					limit = holds.WorkspaceBytes + holds.TmpBytes
				}
				err = a.copyOut(cmd.Context(), s.Files(), src.path, dest.path, newRoom(limit))
			}
			if err != nil {
				return sessionError(name, err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&maxSize, "max-size", "", "take at most this much data out of the session (default what its limits let it hold)")
	return cmd
}

// copyIn copies a file, a folder or stdin into a session.
func (a *app) copyIn(ctx context.Context, files skerry.Files, src, dest string) error {
	if src == "-" {
		if dest == "" || strings.HasSuffix(dest, "/") {
			return skerry.Errorf(skerry.Invalid, "", "stdin has no name").WithHint("give the whole name: NAME:PATH")
		}
		_, err := files.Write(ctx, dest, a.input, skerry.WriteOptions{})
		return err
	}
	info, err := os.Stat(src)
	if err != nil {
		return err
	}
	base := filepath.Base(filepath.Clean(src))
	if base == "." || base == ".." || base == string(filepath.Separator) {
		abs, err := filepath.Abs(src)
		if err != nil {
			return err
		}
		base = filepath.Base(abs)
	}
	if dest, err = destinationIn(ctx, files, dest, base); err != nil {
		return err
	}
	if info.IsDir() {
		result, err := tarIn(ctx, files, src, dest)
		for _, s := range result.Skipped {
			a.words.note(s)
		}
		return err
	}
	f, err := os.Open(src)
	if err != nil {
		return err
	}
	defer f.Close()
	mode := uint32(0o644)
	if info.Mode().Perm()&0o100 != 0 {
		mode = 0o755
	}
	_, err = files.Write(ctx, dest, f, skerry.WriteOptions{Mode: mode})
	return err
}

// destinationIn resolves where a source of that name lands in the session.
func destinationIn(ctx context.Context, files skerry.Files, dest, base string) (string, error) {
	if dest == "" {
		return base, nil
	}
	info, err := files.Stat(ctx, path.Clean(dest))
	if err == nil && info.Type == skerry.Directory || strings.HasSuffix(dest, "/") {
		return path.Join(dest, base), nil
	}
	if err != nil && skerry.KindOf(err) != skerry.NotFound {
		return "", err
	}
	return dest, nil
}

// copyOut copies a file or a folder of a session here.
func (a *app) copyOut(ctx context.Context, files skerry.Files, src, dest string, room *room) error {
	if src == "" {
		src = "."
	}
	info, err := files.Stat(ctx, src)
	if err != nil {
		return err
	}
	switch info.Type {
	case skerry.RegularFile, skerry.SymbolicLink:
		if dest == "-" {
			out := a.newOutput(false)
			defer out.close()
			_, err := files.Read(ctx, src, 0, -1, out.stdout)
			return err
		}
		return copyFileOut(ctx, files, src, dest, os.FileMode(info.Mode).Perm(), room)
	case skerry.Directory:
		if dest == "-" {
			_, err := files.TarOut(ctx, src, a.stdout)
			return err
		}
		return a.copyFolderOut(ctx, files, src, dest, room)
	}
	return skerry.Errorf(skerry.Invalid, "", "%s is neither a file nor a folder", src)
}

// destinationOut resolves where a source of that name lands here: the folder
// and the name in it.
func destinationOut(dest, base string) (dir, name string) {
	if info, err := os.Stat(dest); err == nil && info.IsDir() || strings.HasSuffix(dest, "/") || strings.HasSuffix(dest, string(filepath.Separator)) {
		return dest, base
	}
	return filepath.Dir(dest), filepath.Base(dest)
}

func copyFileOut(ctx context.Context, files skerry.Files, src, dest string, mode os.FileMode, room *room) error {
	if info, err := os.Stat(dest); err == nil && !info.IsDir() {
		if !info.Mode().IsRegular() {
			return writeInto(ctx, files, src, dest)
		}
		// The caller's own link is followed, and stays a link.
		if dest, err = filepath.EvalSymlinks(dest); err != nil {
			return err
		}
	}
	dir, name := destinationOut(dest, path.Base(path.Clean(src)))
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	f, err := createFile(root, name, mode|0o600, -1, room)
	if err != nil {
		return err
	}
	if _, err := files.Read(ctx, src, 0, -1, f); err != nil {
		f.abort()
		return err
	}
	return f.Close()
}

// writeInto writes to a device or a pipe that exists, which must not be
// replaced by a file.
func writeInto(ctx context.Context, files skerry.Files, src, dest string) error {
	f, err := os.OpenFile(dest, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = files.Read(ctx, src, 0, -1, f)
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

// copyFolderOut unpacks beside the destination first, so that a bad stream
// leaves nothing.
func (a *app) copyFolderOut(ctx context.Context, files skerry.Files, src, dest string, room *room) error {
	base := path.Base(path.Clean(src))
	if base == "." || base == "/" || base == ".." {
		base = "workspace"
	}
	dir, name := destinationOut(dest, base)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	var sent skerry.TarResult
	notes, err := receiveFolder(ctx, root, name, room, func(ctx context.Context, w io.Writer) (err error) {
		sent, err = files.TarOut(ctx, src, w)
		return err
	})
	for _, n := range append(sent.Skipped, notes...) {
		a.words.note(n)
	}
	if err != nil {
		return fmt.Errorf("copy %s: %w", src, err)
	}
	return nil
}
