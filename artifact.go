package skerry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"mime"
	"net/http"
	"path"
	"strings"
)

// collect fetches what the program left under OutputDir, one folder at a time,
// so that what can't be read costs nothing else. An error means that nothing
// more can be fetched.
func (r *runner) collect(ctx context.Context, files Files) error {
	one, all := r.spec.ArtifactBytes, r.spec.ArtifactsBytes
	if one == 0 {
		one = DefaultArtifactBytes
	}
	if all == 0 {
		all = DefaultArtifactsBytes
	}
	var total int64
	count := 0
	for folders := []string{OutputDir}; len(folders) > 0; folders = folders[1:] {
		entries, err := files.List(ctx, folders[0], ListOptions{Limit: MaxArtifactCount})
		switch {
		case err == nil:
		case folders[0] == OutputDir && KindOf(err) == NotFound:
			return nil
		case ctx.Err() != nil || KindOf(err) == Unavailable:
			return err
		default:
			r.warn("%s was left out: %v", folders[0], err)
			continue
		}
		for _, e := range entries {
			name := path.Join(folders[0], e.Path)
			if count++; count > MaxArtifactCount {
				return Errorf(Busy, "", "there are more than %d files and folders under %s/", MaxArtifactCount, OutputDir)
			}
			switch {
			case e.Type == Directory:
				folders = append(folders, name)
				continue
			case e.Type != RegularFile:
				r.warn("%s was left out: it is a %s, only regular files are artifacts", name, e.Type.words())
				continue
			case e.Size > one:
				r.warn("%s was left out: %d bytes, an artifact may have %d", name, e.Size, one)
				continue
			case total+e.Size > all:
				r.warn("%s was left out: the artifacts may have %d bytes in all", name, all)
				continue
			}
			a, err := r.fetch(ctx, files, name, e.Size)
			if err != nil {
				if ctx.Err() != nil || KindOf(err) == Unavailable {
					return fmt.Errorf("%s: %w", name, err)
				}
				r.warn("%s was left out: %v", name, err) // the others are worth having
				continue
			}
			total += a.Size
			r.result.Files = append(r.result.Files, a)
		}
	}
	return nil
}

// fetch reads one artifact; limit is the size it had when it was listed, more
// than that is not read.
func (r *runner) fetch(ctx context.Context, files Files, name string, limit int64) (a Artifact, err error) {
	a = Artifact{Path: name, Size: limit}
	sum := &sniffer{hash: sha256.New()}
	var w io.Writer = sum
	if r.spec.Artifact != nil {
		dst, err := r.spec.Artifact(a)
		if err != nil {
			return a, err
		}
		defer func() {
			if e := dst.Close(); err == nil {
				err = e
			}
		}()
		w = io.MultiWriter(sum, dst)
	}
	if _, err := files.Read(ctx, name, 0, limit, w); err != nil {
		return a, err
	}
	if sum.size != limit {
		return a, Errorf(Conflict, "", "it changed while it was read: %d of %d bytes came", sum.size, limit)
	}
	a.Size, a.SHA256, a.MIME = sum.size, hex.EncodeToString(sum.hash.Sum(nil)), mimeType(name, sum.start)
	return a, nil
}

// sniffer hashes and counts, and keeps the start for the MIME type.
type sniffer struct {
	hash  hash.Hash
	size  int64
	start []byte
}

func (s *sniffer) Write(p []byte) (int, error) {
	const enough = 512 // http.DetectContentType looks at no more
	if room := enough - len(s.start); room > 0 {
		s.start = append(s.start, p[:min(room, len(p))]...)
	}
	s.size += int64(len(p))
	return s.hash.Write(p)
}

func mimeType(name string, start []byte) string {
	if t := mime.TypeByExtension(strings.ToLower(path.Ext(name))); t != "" {
		return t
	}
	return http.DetectContentType(start)
}
