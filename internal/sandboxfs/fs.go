//go:build linux

package sandboxfs

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/skerry-run/skerry"
)

// Bounds on one call.
const (
	defaultListLimit = 10_000
	maxListLimit     = 100_000
	defaultGrepLimit = 1_000
	maxGrepLimit     = 10_000
	maxFolderNames   = 100_000   // names of one folder that are held at a time
	maxVisited       = 1_000_000 // files and folders that one call looks at
	maxDepth         = 400       // folders inside folders; each costs a descriptor while it is walked
	maxPathBytes     = 4096      // as Linux takes in one call
	maxLinks         = 40        // links in one path, as in the kernel
	copyBytes        = 256 << 10
	maxTarBytes      = 4 * skerry.GiB // contents of one archive
	maxTarEntries    = 200_000
)

// Names of what is being written, hidden and not guessable.
const (
	stagePrefix = ".skerry-"
	stageSuffix = ".tmp"
	stageRandom = 16 // bytes
)

// FS is the files of one sandbox. At most one FS at a time may hold a folder:
// New removes what an earlier one left half-written at its top. Methods are safe
// for concurrent use.
type FS struct {
	roots   []*root // the workspace is the first
	buffers sync.Pool

	// Fields so that tests can lower them.
	tarBytes, tarEntries int64

	mu     sync.Mutex
	staged map[string]struct{} // names that no listing shows
}

var _ skerry.Files = (*FS)(nil)

// root is one of the folders.
type root struct {
	name  string   // absolute
	elems []string // of name
	dir   *os.Root
	limit string // what bounds its size, for hints
}

// New opens the three folders, which must exist and have absolute names.
func New(workspace, home, tmp string) (*FS, error) {
	const op = "open folders"
	f := &FS{tarBytes: maxTarBytes, tarEntries: maxTarEntries, staged: map[string]struct{}{}}
	f.buffers.New = func() any { b := make([]byte, copyBytes); return &b }
	for i, name := range []string{workspace, home, tmp} {
		if !filepath.IsAbs(name) {
			_ = f.Close()
			return nil, skerry.Errorf(skerry.Invalid, op, "%q is not an absolute path", name)
		}
		dir, err := os.OpenRoot(name)
		if err != nil {
			_ = f.Close()
			return nil, failed(op, name, nil, err)
		}
		limit := "the workspace limit"
		if i == 2 {
			limit = "the tmp limit"
		}
		r := &root{name: filepath.Clean(name), dir: dir, limit: limit}
		r.elems = splitPath(r.name)
		f.roots = append(f.roots, r)
		f.sweep(r)
	}
	return f, nil
}

// Close gives the folders back. Calls that are under way may fail.
func (f *FS) Close() error {
	var errs []error
	for _, r := range f.roots {
		errs = append(errs, r.dir.Close())
	}
	return errors.Join(errs...)
}

// sweep removes what an init that was killed had staged at the top of r.
func (f *FS) sweep(r *root) {
	d, err := f.openFolder(place{root: r})
	if err != nil {
		return
	}
	defer d.close()
	names, err := d.names(maxFolderNames)
	if err != nil {
		return
	}
	for _, name := range names {
		if isStageName(name) {
			_ = d.removeAll(name, nil)
		}
	}
}

// stageName makes a name for something that is being written; no listing of
// this FS shows it until unstage.
func (f *FS) stageName() string {
	var b [stageRandom]byte
	_, _ = rand.Read(b[:]) // it ends the process rather than fail
	name := stagePrefix + hex.EncodeToString(b[:]) + stageSuffix
	f.mu.Lock()
	f.staged[name] = struct{}{}
	f.mu.Unlock()
	return name
}

func (f *FS) unstage(name string) {
	f.mu.Lock()
	delete(f.staged, name)
	f.mu.Unlock()
}

func (f *FS) isStaged(name string) bool {
	if !strings.HasPrefix(name, stagePrefix) {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.staged[name]
	return ok
}

func isStageName(name string) bool {
	s, ok := strings.CutPrefix(name, stagePrefix)
	if !ok {
		return false
	}
	s, ok = strings.CutSuffix(s, stageSuffix)
	b, err := hex.DecodeString(s)
	return ok && err == nil && len(b) == stageRandom
}

func (f *FS) buffer() (b []byte, release func()) {
	p := f.buffers.Get().(*[]byte)
	return *p, func() { f.buffers.Put(p) }
}

// info tells about an open or listed file.
func info(path string, st *unix.Stat_t) skerry.FileInfo {
	fi := skerry.FileInfo{Path: path, Type: typeOf(st), Mode: st.Mode & 0o777}
	fi.Modified = timeOf(st.Mtim)
	if fi.Type == skerry.RegularFile {
		fi.Size = st.Size
	}
	return fi
}

func typeOf(st *unix.Stat_t) skerry.FileType {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return skerry.RegularFile
	case unix.S_IFDIR:
		return skerry.Directory
	case unix.S_IFLNK:
		return skerry.SymbolicLink
	}
	return skerry.OtherFile
}

// kindName says in words what a file that is neither file, folder nor link is.
func kindName(st *unix.Stat_t) string {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return "file"
	case unix.S_IFDIR:
		return "folder"
	case unix.S_IFLNK:
		return "link"
	case unix.S_IFIFO:
		return "FIFO"
	case unix.S_IFSOCK:
		return "socket"
	case unix.S_IFCHR, unix.S_IFBLK:
		return "device"
	}
	return fmt.Sprintf("file of mode %#o", st.Mode)
}
