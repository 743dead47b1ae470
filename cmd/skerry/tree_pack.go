package main

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/skerry-run/skerry"
)

// tarIn sends a folder of this machine. Links that stay inside go as links;
// any other, and what is neither a file, a folder nor a link, is left out and
// named in the result.
func tarIn(ctx context.Context, files skerry.Files, src, dest string) (skerry.TarResult, error) {
	r, w := io.Pipe()
	var skipped []string
	packed := make(chan error, 1)
	go func() {
		err := packTree(src, w, &skipped)
		w.CloseWithError(err)
		packed <- err
	}()
	if err := files.Mkdir(ctx, dest); err != nil {
		r.CloseWithError(err)
		<-packed
		return skerry.TarResult{}, err
	}
	result, err := files.TarIn(ctx, dest, r)
	r.CloseWithError(io.ErrClosedPipe)
	if e := <-packed; err == nil && e != nil {
		err = e
	}
	result.Skipped = append(skipped, result.Skipped...)
	return result, err
}

func packTree(src string, w io.Writer, skipped *[]string) error {
	tw := tar.NewWriter(w)
	err := filepath.WalkDir(src, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(src, p)
		if err != nil || rel == "." {
			return err
		}
		return packEntry(tw, p, filepath.ToSlash(rel), d, skipped)
	})
	if err != nil {
		return err
	}
	return tw.Close()
}

func packEntry(tw *tar.Writer, p, name string, d fs.DirEntry, skipped *[]string) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	// Owners of this machine mean nothing in there, so they stay out.
	h := &tar.Header{Name: name, Mode: int64(info.Mode().Perm()), ModTime: info.ModTime(), Format: tar.FormatPAX}
	switch {
	case info.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
		return tw.WriteHeader(h)
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(p)
		if err != nil {
			return err
		}
		h.Typeflag, h.Linkname = tar.TypeSymlink, filepath.ToSlash(target)
		if !staysInside(name, h.Linkname) {
			*skipped = append(*skipped, fmt.Sprintf("%s was left out: it is a link that leads out of the folder, to %s", p, target))
			return nil
		}
		return tw.WriteHeader(h)
	case !info.Mode().IsRegular():
		*skipped = append(*skipped, fmt.Sprintf("%s was left out: it is a %s", p, typeName(info.Mode().Type())))
		return nil
	}
	f, err := os.Open(p)
	if err != nil {
		return err
	}
	defer f.Close()
	h.Typeflag, h.Size = tar.TypeReg, info.Size()
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	if _, err := io.CopyN(tw, f, h.Size); err != nil {
		return fmt.Errorf("%s changed while it was read: %w", p, err)
	}
	return nil
}
