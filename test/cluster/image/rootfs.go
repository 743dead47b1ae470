//go:build linux

package image

import (
	"archive/tar"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// What an image does not need, or may not have because it is of the machine or
// of the moment.
var (
	// Folders that stay, empty.
	emptied = []string{
		"dev", "proc", "run", "sys", "tmp", "var/cache", "var/lib/apt", "var/log", "var/tmp",
	}
	// Files and folders that go.
	dropped = []string{
		"etc/.pwd.lock", "etc/apt", "etc/group-", "etc/gshadow", "etc/gshadow-", "etc/hostname", "etc/hosts",
		"etc/machine-id", "etc/passwd-", "etc/resolv.conf", "etc/shadow", "etc/shadow-", "etc/subgid-", "etc/subuid-",
		"usr/share/bug", "usr/share/info", "usr/share/lintian", "usr/share/locale", "usr/share/man",
		"var/lib/dbus/machine-id", "var/lib/dpkg/lock", "var/lib/dpkg/lock-frontend", "var/lib/dpkg/triggers/Lock",
	}
	// Of the documents only the licences stay.
	documents = "usr/share/doc"
	licence   = "copyright"
	// The data base of packages as it was before the last one.
	older = regexp.MustCompile(`^var/lib/dpkg/[^/]*-old$`)
)

func isWanted(name string) bool {
	if older.MatchString(name) || slices.ContainsFunc(emptied, func(folder string) bool { return strings.HasPrefix(name, folder+"/") }) {
		return false
	}
	return !slices.ContainsFunc(dropped, func(gone string) bool { return name == gone || strings.HasPrefix(name, gone+"/") })
}

// readRootfs reads a root file system from a tar file, which must stay open as
// long as the tree is in use, and takes out of it what would differ from one
// build to the next. Times since begun are when the build wrote something; the
// others came with the packages and are kept, because compiled Python notes the
// time of its source.
//
// No program keeps a set-user-id bit: nobody becomes root in a container.
func readRootfs(file *os.File, begun time.Time) (tree, error) {
	t := tree{}
	in := tar.NewReader(file)
	for {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return t, nil
		}
		if err != nil {
			return nil, err
		}
		name := path.Clean(header.Name)
		if name == "." || !isWanted(name) {
			continue
		}
		if strings.HasPrefix(name, documents+"/") && header.Typeflag != tar.TypeDir && path.Base(name) != licence {
			continue
		}
		e := entry{header: tar.Header{
			Typeflag: header.Typeflag, Linkname: header.Linkname, Size: header.Size, Mode: header.Mode & 0o7777,
			Uid: header.Uid, Gid: header.Gid, ModTime: header.ModTime,
		}}
		if !header.ModTime.Before(begun) {
			e.header.ModTime = epoch
		}
		switch header.Typeflag {
		case tar.TypeDir, tar.TypeSymlink:
		case tar.TypeReg:
			e.header.Mode &= 0o777
			e.content = file
			// The reader reads no further than it has to.
			if e.offset, err = file.Seek(0, io.SeekCurrent); err != nil {
				return nil, err
			}
			hash := sha256.New()
			if _, err := io.Copy(hash, in); err != nil {
				return nil, fmt.Errorf("read %s: %w", name, err)
			}
			e.sum = [sha256.Size]byte(hash.Sum(nil))
		case tar.TypeLink:
			// Which of the names comes first is chance, so each has a copy.
			other, ok := t[path.Clean(header.Linkname)]
			if !ok {
				return nil, fmt.Errorf("%s is a link to %s, which is not in the image", name, header.Linkname)
			}
			e = other
		default:
			return nil, fmt.Errorf("%s is neither a file nor a folder nor a link (type %q)", name, header.Typeflag)
		}
		t[name] = e
	}
}

// prune removes the folders of documents that nothing is left in.
func (t tree) prune() {
	used := map[string]bool{}
	for name, e := range t {
		if e.header.Typeflag != tar.TypeDir {
			for ; name != "."; name = path.Dir(name) {
				used[name] = true
			}
		}
	}
	for name := range t {
		if strings.HasPrefix(name, documents+"/") && !used[name] {
			delete(t, name)
		}
	}
}
