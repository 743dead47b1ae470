package attach

import (
	"context"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/skerry-run/skerry"
	pb "github.com/skerry-run/skerry/internal/initproto"
)

// Bounds on what the init may say of files.
const (
	maxPathBytes   = 4096
	maxEntries     = 10_000 // the default limit of List and Glob
	maxMatches     = 1_000  // the default limit of Grep
	maxLineBytes   = 4 << 10
	maxSkipped     = 100
	maxSkippedText = maxPathBytes + 256
)

// files are the files of a sandbox.
type files struct{ sandbox *Sandbox }

var _ skerry.Files = files{}

// List gives the entries of a folder.
func (f files) List(ctx context.Context, dir string, opts skerry.ListOptions) ([]skerry.FileInfo, error) {
	const op = "list files"
	if err := checkPath(op, dir); err != nil {
		return nil, err
	}
	if opts.Limit < 0 {
		return nil, skerry.Errorf(skerry.Invalid, op, "the limit %d is negative", opts.Limit)
	}
	var reply *pb.ListFilesReply
	err := f.sandbox.retry(ctx, op, func(ctx context.Context, l *link) (err error) {
		reply, err = l.client.ListFiles(ctx, &pb.ListFilesRequest{Path: []byte(dir), Recursive: opts.Recursive, Limit: clampLimit(opts.Limit)})
		return err
	})
	if err != nil {
		return nil, err
	}
	if most := limitOr(opts.Limit, maxEntries); len(reply.Files) > most {
		return nil, f.sandbox.distrust(violation(op, "%d entries, at most %d", len(reply.Files), most))
	}
	infos := make([]skerry.FileInfo, 0, len(reply.Files))
	for _, e := range reply.Files {
		info, err := fileInfo(op, e)
		if err == nil {
			err = checkBelow(op, info.Path)
		}
		if err == nil && !opts.Recursive && strings.Contains(info.Path, "/") {
			err = violation(op, "an entry that is not of the folder")
		}
		if err != nil {
			return nil, f.sandbox.distrust(err)
		}
		infos = append(infos, info)
	}
	return infos, nil
}

// Stat tells about a path.
func (f files) Stat(ctx context.Context, name string) (skerry.FileInfo, error) {
	const op = "stat file"
	if err := checkPath(op, name); err != nil {
		return skerry.FileInfo{}, err
	}
	var reply *pb.FileInfo
	err := f.sandbox.retry(ctx, op, func(ctx context.Context, l *link) (err error) {
		reply, err = l.client.StatFile(ctx, &pb.PathRequest{Path: []byte(name)})
		return err
	})
	if err != nil {
		return skerry.FileInfo{}, err
	}
	info, err := f.infoOf(op, reply, name)
	return info, f.sandbox.distrust(err)
}

// Move renames. It is not tried again when the stream broke: by then from may
// be another file.
func (f files) Move(ctx context.Context, from, to string) error {
	const op = "move file"
	if err := checkPath(op, from); err != nil {
		return err
	}
	if err := checkPath(op, to); err != nil {
		return err
	}
	return f.sandbox.onlyOnce(ctx, op, "the file may have been moved or not", func(ctx context.Context, l *link) error {
		_, err := l.client.MoveFile(ctx, &pb.MoveRequest{From: []byte(from), To: []byte(to)})
		return err
	})
}

// Remove deletes. It is not tried again when the stream broke: by then
// something else may have the name.
func (f files) Remove(ctx context.Context, name string, recursive bool) error {
	const op = "remove file"
	if err := checkPath(op, name); err != nil {
		return err
	}
	return f.sandbox.onlyOnce(ctx, op, "the file may have been removed or not", func(ctx context.Context, l *link) error {
		_, err := l.client.RemoveFile(ctx, &pb.RemoveRequest{Path: []byte(name), Recursive: recursive})
		return err
	})
}

// Mkdir makes a folder and its parents.
func (f files) Mkdir(ctx context.Context, name string) error {
	const op = "make folder"
	if err := checkPath(op, name); err != nil {
		return err
	}
	return f.sandbox.retry(ctx, op, func(ctx context.Context, l *link) error {
		_, err := l.client.MakeDirectory(ctx, &pb.PathRequest{Path: []byte(name)})
		return err
	})
}

// Glob gives the paths below dir that match.
func (f files) Glob(ctx context.Context, dir, pattern string, limit int) (skerry.GlobResult, error) {
	const op = "glob"
	if limit < 0 {
		return skerry.GlobResult{}, skerry.Errorf(skerry.Invalid, op, "the limit %d is negative", limit)
	}
	if err := checkPattern(op, pattern); err != nil {
		return skerry.GlobResult{}, err
	}
	var reply *pb.GlobReply
	err := f.sandbox.retry(ctx, op, func(ctx context.Context, l *link) (err error) {
		reply, err = l.client.Glob(ctx, &pb.GlobRequest{Dir: []byte(dir), Pattern: pattern, Limit: clampLimit(limit)})
		return err
	})
	if err != nil {
		return skerry.GlobResult{}, err
	}
	if most := limitOr(limit, maxEntries); len(reply.Paths) > most {
		return skerry.GlobResult{}, f.sandbox.distrust(violation(op, "%d paths, at most %d", len(reply.Paths), most))
	}
	result := skerry.GlobResult{Truncated: reply.Truncated, Paths: make([]string, 0, len(reply.Paths))}
	for _, p := range reply.Paths {
		if err := checkBelow(op, string(p)); err != nil {
			return skerry.GlobResult{}, f.sandbox.distrust(err)
		}
		result.Paths = append(result.Paths, string(p))
	}
	return result, nil
}

// Grep searches the contents of regular files.
func (f files) Grep(ctx context.Context, spec skerry.GrepSpec) (skerry.GrepResult, error) {
	const op = "grep"
	if spec.Limit < 0 {
		return skerry.GrepResult{}, skerry.Errorf(skerry.Invalid, op, "the limit %d is negative", spec.Limit)
	}
	if err := checkPattern(op, spec.Pattern, spec.Glob); err != nil {
		return skerry.GrepResult{}, err
	}
	var reply *pb.GrepReply
	err := f.sandbox.retry(ctx, op, func(ctx context.Context, l *link) (err error) {
		reply, err = l.client.Grep(ctx, &pb.GrepRequest{
			Pattern: spec.Pattern, Literal: spec.Literal, IgnoreCase: spec.IgnoreCase,
			Dir: []byte(spec.Dir), Glob: spec.Glob, Limit: clampLimit(spec.Limit),
		})
		return err
	})
	if err != nil {
		return skerry.GrepResult{}, err
	}
	if most := limitOr(spec.Limit, maxMatches); len(reply.Matches) > most {
		return skerry.GrepResult{}, f.sandbox.distrust(violation(op, "%d matches, at most %d", len(reply.Matches), most))
	}
	result := skerry.GrepResult{Truncated: reply.Truncated, Matches: make([]skerry.GrepMatch, 0, len(reply.Matches))}
	for _, m := range reply.Matches {
		err := checkBelow(op, string(m.Path))
		if err == nil && (m.Line < 1 || len(m.Text) > maxLineBytes) {
			err = violation(op, "line %d with %d bytes", m.Line, len(m.Text))
		}
		if err != nil {
			return skerry.GrepResult{}, f.sandbox.distrust(err)
		}
		result.Matches = append(result.Matches, skerry.GrepMatch{Path: string(m.Path), Line: int(m.Line), Text: string(m.Text)})
	}
	return result, nil
}

// checkPath refuses what no file system could hold.
func checkPath(op, p string) error {
	switch {
	case p == "":
		return skerry.Errorf(skerry.Invalid, op, "the path is empty")
	case strings.ContainsRune(p, 0):
		return skerry.Errorf(skerry.Invalid, op, "the path holds a NUL byte")
	case len(p) > maxPathBytes:
		return skerry.Errorf(skerry.Invalid, op, "the path has %d bytes, at most %d", len(p), maxPathBytes)
	}
	return nil
}

// checkPattern refuses what the protocol can't carry.
func checkPattern(op string, patterns ...string) error {
	for _, p := range patterns {
		if !utf8.ValidString(p) {
			return skerry.Errorf(skerry.Invalid, op, "the pattern %q is not UTF-8", clean(p, maxVersionText))
		}
	}
	return nil
}

// checkBelow makes sure that a path that the init named stays below the folder
// that was asked for: callers join it to a folder of their own.
func checkBelow(op, p string) error {
	if p == "" || len(p) > maxPathBytes || strings.ContainsRune(p, 0) || p[0] == '/' || path.Clean(p) != p || p == ".." || strings.HasPrefix(p, "../") {
		return violation(op, "the path %q", clean(p, maxVersionText))
	}
	return nil
}

// infoOf checks an answer about the path that was asked for.
func (f files) infoOf(op string, reply *pb.FileInfo, asked string) (skerry.FileInfo, error) {
	info, err := fileInfo(op, reply)
	if err == nil && info.Path != asked {
		err = violation(op, "it was asked for one path and answered for another")
	}
	return info, err
}

func fileInfo(op string, r *pb.FileInfo) (skerry.FileInfo, error) {
	if r == nil {
		return skerry.FileInfo{}, violation(op, "an answer without the file")
	}
	info := skerry.FileInfo{
		Path: string(r.Path), Type: skerry.FileType(r.Type), Size: r.Size, Mode: r.Mode,
		Modified: time.Unix(0, r.ModifiedUnixNs), Target: string(r.Target), SHA256: r.Sha256,
	}
	switch info.Type {
	case skerry.RegularFile, skerry.Directory, skerry.SymbolicLink, skerry.OtherFile:
	default:
		return info, violation(op, "a file of type %q", clean(r.Type, maxVersionText))
	}
	switch {
	case info.Size < 0 || info.Size > maxCounter || info.Size != 0 && info.Type != skerry.RegularFile:
		return info, violation(op, "a %s of %d bytes", info.Type, info.Size)
	case info.Mode&^0o7777 != 0:
		return info, violation(op, "mode %#o", info.Mode)
	case len(info.Target) > maxPathBytes || strings.ContainsRune(info.Target, 0) || info.Target != "" && info.Type != skerry.SymbolicLink:
		return info, violation(op, "a %s with a target of %d bytes", info.Type, len(info.Target))
	case info.SHA256 != "" && !isHexDigest(info.SHA256):
		return info, violation(op, "a digest of %d characters", len(info.SHA256))
	}
	return info, nil
}

func isHexDigest(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(s) == 64
}

// clampLimit makes a limit fit the wire; the init has a smaller bound anyway.
func clampLimit(n int) int32 { return int32(min(n, 1<<30)) }

func limitOr(n, def int) int {
	if n == 0 {
		return def
	}
	return n
}
