//go:build linux

package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// epoch is the time of everything that has none of its own: when Debian 12 came
// out.
var epoch = time.Date(2023, time.June, 10, 0, 0, 0, 0, time.UTC)

// A tree is files by their path, without a slash at the beginning or the end.
type tree map[string]entry

// An entry is one file, folder or link of a tree.
type entry struct {
	header  tar.Header // of which the name is left to the tree
	content io.ReaderAt
	offset  int64
	sum     [sha256.Size]byte // of the content of a regular file
}

func fileOf(data []byte, mode int64) entry {
	return entry{
		header:  tar.Header{Typeflag: tar.TypeReg, Size: int64(len(data)), Mode: mode, ModTime: epoch},
		content: bytes.NewReader(data),
		sum:     sha256.Sum256(data),
	}
}

func folderOf(mode int64) entry {
	return entry{header: tar.Header{Typeflag: tar.TypeDir, Mode: mode, ModTime: epoch}}
}

func (e entry) equal(o entry) bool {
	a, b := e.header, o.header
	return a.Typeflag == b.Typeflag && a.Linkname == b.Linkname && a.Size == b.Size && a.Mode == b.Mode &&
		a.Uid == b.Uid && a.Gid == b.Gid && a.ModTime.Equal(b.ModTime) && e.sum == o.sum
}

// over gives what has to be laid over lower to have t: what is new or not the
// same, and a mark for what is gone.
func (t tree) over(lower tree) tree {
	out := tree{}
	for name, e := range t {
		if old, ok := lower[name]; !ok || !e.equal(old) {
			out[name] = e
		}
	}
	for name := range lower {
		_, stays := t[name]
		_, inside := t[path.Dir(name)]
		// What goes with its folder needs no mark of its own.
		if !stays && (inside || path.Dir(name) == ".") {
			out[path.Join(path.Dir(name), ".wh."+path.Base(name))] = fileOf(nil, 0)
		}
	}
	return out
}

// writeLayer writes the tree, sorted, to a file that is the layer.
func (t tree) writeLayer(path string) (*layer, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	hash := sha256.New()
	out := tar.NewWriter(io.MultiWriter(file, hash))
	for _, name := range slices.Sorted(maps.Keys(t)) {
		e := t[name]
		header := e.header
		header.Name = name
		if header.Typeflag == tar.TypeDir {
			header.Name += "/"
		}
		if err := out.WriteHeader(&header); err != nil {
			return nil, fmt.Errorf("write %s: %w", name, err)
		}
		if header.Size == 0 {
			continue
		}
		if _, err := io.Copy(out, io.NewSectionReader(e.content, e.offset, header.Size)); err != nil {
			return nil, fmt.Errorf("write %s: %w", name, err)
		}
	}
	if err := out.Close(); err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	digest := v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(hash.Sum(nil))}
	return &layer{path: path, digest: digest, size: info.Size()}, file.Close()
}

// A layer is a tar file, left uncompressed: it never travels, and a node takes
// it in faster.
type layer struct {
	path   string
	digest v1.Hash
	size   int64
}

func (l *layer) Digest() (v1.Hash, error)             { return l.digest, nil }
func (l *layer) DiffID() (v1.Hash, error)             { return l.digest, nil }
func (l *layer) Size() (int64, error)                 { return l.size, nil }
func (l *layer) MediaType() (types.MediaType, error)  { return types.OCIUncompressedLayer, nil }
func (l *layer) Compressed() (io.ReadCloser, error)   { return os.Open(l.path) }
func (l *layer) Uncompressed() (io.ReadCloser, error) { return os.Open(l.path) }
