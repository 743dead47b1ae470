//go:build linux

// Package bwrap knows how bubblewrap is called: which of the host's files a
// sandbox sees, the argument list, and what a version of bwrap can do.
package bwrap

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Layout is what of the host's file system a sandbox sees, all of it
// read-only. It is an allow-list: what is not named does not exist inside.
type Layout struct {
	Binds    []Bind
	Symlinks []Symlink
	// Copies are small files of the host whose content is copied in: bwrap
	// reads the whole table of mounts for every bind.
	Copies []Bind
	// Masks are entries of /proc that tell of the host, or act on it.
	MaskFiles, MaskDirs []string
	// Path is the PATH of commands.
	Path []string
}

// Bind shows the host's Source at Dest.
type Bind struct{ Source, Dest string }

// Symlink is a link at Path that points to Target.
type Symlink struct{ Target, Path string }

// topLevel are the folders of programs and libraries. Where they are links (a
// merged /usr) the links are made again; where they are folders they are
// bound; what a machine does not have is left out.
var topLevel = []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"}

// etcNames are the files of /etc that programs need to find libraries, names,
// certificates, fonts and the time. Nothing among them is a secret on a
// well-kept machine; /etc/ssl/private, for one, is not reached.
var etcNames = []string{
	"alternatives", "ld.so.cache", "ld.so.conf", "ld-musl-x86_64.path", "ld-musl-aarch64.path",
	"ssl/certs", "ssl/cert.pem", "ssl/openssl.cnf",
	"pki/tls/certs", "pki/tls/cert.pem", "pki/tls/openssl.cnf", "pki/ca-trust/extracted", "crypto-policies",
	"localtime", "timezone", "mime.types", "magic", "fonts", "protocols", "services", "gai.conf", "host.conf",
	"locale.alias", "locale.conf", "inputrc", "debian_version", "alpine-release", "os-release", "lsb-release",
	"python*.*", "ImageMagick-*", "java-*", "R", "texmf", "ghostscript", "matplotlibrc", "OpenCL", "vulkan",
}

// maxCopy is the size up to which a file is copied instead of bound. Copies
// count against the sandbox's memory.
const maxCopy = 256 << 10

// procFiles and procDirs are hidden where the kernel has them.
var (
	procFiles = []string{"kcore", "keys", "latency_stats", "timer_list", "timer_stats", "sched_debug", "kallsyms", "kmsg"}
	procDirs  = []string{"acpi", "asound", "scsi"}
)

// ReadLayout looks at a machine whose file system is at root; "" is this one.
func ReadLayout(root string) Layout {
	l := Layout{Path: []string{"/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin"}}
	at := func(p string) string { return filepath.Join(root+"/", p) }
	if isDir(at("/usr")) {
		l.Binds = append(l.Binds, Bind{"/usr", "/usr"})
	}
	if isDir(at("/nix/store")) {
		l.Binds = append(l.Binds, Bind{"/nix/store", "/nix/store"})
		if target, ok := resolve(root, "/run/current-system/sw"); ok && strings.HasPrefix(target, "/nix/store/") {
			l.Symlinks = append(l.Symlinks, Symlink{target, "/run/current-system/sw"})
			l.Path = append(l.Path, "/run/current-system/sw/bin")
		}
	}
	for _, name := range topLevel {
		p := "/" + name
		fi, err := os.Lstat(at(p))
		switch {
		case err != nil:
		case fi.IsDir():
			l.Binds = append(l.Binds, Bind{p, p})
		case fi.Mode()&os.ModeSymlink != 0:
			target, err := os.Readlink(at(p))
			if err == nil && l.shows(filepath.Join("/", target)) {
				l.Symlinks = append(l.Symlinks, Symlink{target, p})
			}
		}
	}
	for _, pattern := range etcNames {
		matches, _ := filepath.Glob(at("/etc/" + pattern)) // the patterns are ours, and well-formed
		slices.Sort(matches)
		for _, m := range matches {
			l.addEtc(root, "/etc/"+strings.TrimPrefix(m, at("/etc")+"/"))
		}
	}
	for _, name := range procFiles {
		// What only root can read stays closed without us.
		if fi, err := os.Lstat(at("/proc/" + name)); err == nil && fi.Mode()&0o004 != 0 {
			l.MaskFiles = append(l.MaskFiles, "/proc/"+name)
		}
	}
	for _, name := range procDirs {
		if isDir(at("/proc/" + name)) {
			l.MaskDirs = append(l.MaskDirs, "/proc/"+name)
		}
	}
	return l
}

// addEtc shows one entry of /etc. A link into what is shown anyway stays a
// link, so that a bind never meets one; any other is followed to its end.
func (l *Layout) addEtc(root, p string) {
	target, ok := resolve(root, p)
	if !ok {
		return
	}
	if target != p && l.shows(target) {
		l.Symlinks = append(l.Symlinks, Symlink{target, p})
		return
	}
	fi, err := os.Stat(filepath.Join(root+"/", target))
	switch {
	case err != nil:
	case fi.Mode().IsRegular() && fi.Size() <= maxCopy:
		// Root reads it for the sandbox, so what is not everyone's is left out.
		if fi.Mode()&0o004 != 0 {
			l.Copies = append(l.Copies, Bind{target, p})
		}
	case fi.Mode().IsRegular(), fi.IsDir() && strings.HasPrefix(target, "/etc/"):
		l.Binds = append(l.Binds, Bind{target, p})
	}
}

// shows says whether p lies below something that is bound at its own place.
func (l *Layout) shows(p string) bool {
	return slices.ContainsFunc(l.Binds, func(b Bind) bool {
		return b.Source == b.Dest && (p == b.Dest || strings.HasPrefix(p, b.Dest+"/"))
	})
}

// resolve follows every link of p as seen from root.
func resolve(root, p string) (string, bool) {
	const most = 40 // links, as the kernel counts
	done, rest := "/", strings.TrimPrefix(filepath.Clean(p), "/")
	for links := 0; rest != ""; {
		first, tail, _ := strings.Cut(rest, "/")
		next := filepath.Join(done, first)
		fi, err := os.Lstat(filepath.Join(root+"/", next))
		if err != nil {
			return "", false
		}
		rest = tail
		if fi.Mode()&os.ModeSymlink == 0 {
			done = next
			continue
		}
		if links++; links > most {
			return "", false
		}
		target, err := os.Readlink(filepath.Join(root+"/", next))
		if err != nil {
			return "", false
		}
		if filepath.IsAbs(target) {
			done = "/"
		}
		rest = strings.TrimPrefix(filepath.Join("/", strings.TrimPrefix(filepath.Join(done, target), "/"), tail), "/")
		done = "/"
	}
	return done, true
}

func isDir(p string) bool {
	fi, err := os.Lstat(p)
	return err == nil && fi.IsDir()
}
