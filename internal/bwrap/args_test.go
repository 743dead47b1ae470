//go:build linux

package bwrap

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// lines puts each option on a line of its own, with what belongs to it.
func lines(args []string) string {
	var b strings.Builder
	for i, a := range args {
		switch {
		case i == 0:
		case strings.HasPrefix(a, "--"):
			b.WriteByte('\n')
		default:
			b.WriteByte(' ')
		}
		b.WriteString(a)
	}
	return b.String() + "\n"
}

func TestArgsAgainstGoldenFiles(t *testing.T) {
	merged := Layout{
		Binds:     []Bind{{"/usr", "/usr"}, {"/etc/ssl/certs", "/etc/ssl/certs"}},
		Symlinks:  []Symlink{{"usr/bin", "/bin"}, {"usr/lib64", "/lib64"}, {"/usr/share/zoneinfo/Europe/Berlin", "/etc/localtime"}},
		MaskFiles: []string{"/proc/kcore", "/proc/keys"}, MaskDirs: []string{"/proc/acpi"},
	}
	data := []Data{{7, "/etc/passwd"}, {8, "/etc/resolv.conf"}}
	for name, s := range map[string]Spec{
		"ephemeral-v1": {
			Layout: merged, Init: "/var/lib/skerry/local/init/skerry-init-0123456789abcdef", Data: data, SeccompFD: 5, StatusFD: 4, HoldFD: -1,
			WorkspaceBytes: 458752 << 10, HomeBytes: 65536 << 10, TmpBytes: 256 << 20, ShmBytes: 64 << 20,
			CgroupBinds: map[string]string{"/sys/fs/cgroup/pids": "/sys/fs/cgroup/pids/skerry-x/k", "/sys/fs/cgroup/memory": "/sys/fs/cgroup/memory/skerry-x/k"},
		},
		"persistent-v2": {
			Layout: merged, Init: "/init", Data: data, SeccompFD: 5, StatusFD: 4, HoldFD: -1,
			WorkspaceSource: "/var/lib/skerry/local/volumes/k/workspace", HomeSource: "/var/lib/skerry/local/volumes/k/home",
			TmpBytes: 1 << 20, ShmBytes: 64 << 10,
			CgroupBinds: map[string]string{"/sys/fs/cgroup": "/sys/fs/cgroup/skerry-x/k"}, ReadOnlyProc: true,
		},
		"network-no-cgroups": {
			Layout: Layout{Binds: []Bind{{"/usr", "/usr"}, {"/bin", "/bin"}, {"/lib", "/lib"}}}, Init: "/init", Data: data, SeccompFD: 6, StatusFD: 4, HoldFD: 5,
			WorkspaceBytes: 1 << 20, HomeBytes: 1 << 18, TmpBytes: 1 << 20, ShmBytes: 64 << 10,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := lines(Args(s))
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got:\n%s\nwant (go test -update writes it anew):\n%s", got, want)
			}
		})
	}
}

// Threats 26 to 28, B191: whatever a machine looks like, what must not be seen
// is not bound and what must be there is.
func TestArgsAlwaysAndNever(t *testing.T) {
	args := Args(Spec{Layout: ReadLayout(""), Init: "/init", HoldFD: -1})
	for _, must := range []string{"--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--disable-userns", "--new-session", "--as-pid-1", "--die-with-parent", "--clearenv", "--seccomp"} {
		if !slices.Contains(args, must) {
			t.Errorf("%s is missing", must)
		}
	}
	for i, a := range args {
		switch a {
		case "--share-net", "--dev-bind", "--cap-add":
			t.Errorf("%s is there", a)
		case "--bind", "--ro-bind", "--ro-bind-try", "--bind-try":
			src := args[i+1]
			for _, never := range []string{"/", "/run", "/home", "/var", "/root", "/opt", "/etc", "/dev", "/proc", "/sys", "/tmp", "/srv", "/mnt", "/boot", "/etc/ssl", "/etc/ssl/private", "/etc/shadow"} {
				if src == never {
					t.Errorf("%s is bound", src)
				}
			}
		}
	}
	// The places that are writable come before the root is made read-only, and
	// that is the last word.
	if n := len(args); args[n-2] != "--remount-ro" || args[n-1] != "/" {
		t.Errorf("the last option is %q", args[n-2:])
	}
}

// Root reads what is copied, so a file that not everyone may read is not, and
// a large one is bound, for the kernel to judge.
func TestOnlyPublicSmallFilesAreCopied(t *testing.T) {
	root := tree(t, "usr/bin/", "etc/protocols", "etc/services", "etc/mime.types")
	if err := os.Chmod(filepath.Join(root, "etc/services"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(root, "etc/mime.types"), maxCopy+1); err != nil {
		t.Fatal(err)
	}
	l := ReadLayout(root)
	if want := []Bind{{"/etc/protocols", "/etc/protocols"}}; !slices.Equal(l.Copies, want) {
		t.Errorf("copies %v, want %v", l.Copies, want)
	}
	if want := []Bind{{"/usr", "/usr"}, {"/etc/mime.types", "/etc/mime.types"}}; !slices.Equal(l.Binds, want) {
		t.Errorf("binds %v, want %v", l.Binds, want)
	}
}

// tree makes a file system: "dir/", "file", "link -> target".
func tree(t *testing.T, entries ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, e := range entries {
		name, target, isLink := strings.Cut(e, " -> ")
		p := filepath.Join(root, name)
		os.MkdirAll(filepath.Dir(p), 0o755)
		switch {
		case isLink:
			if err := os.Symlink(target, p); err != nil {
				t.Fatal(err)
			}
		case strings.HasSuffix(e, "/"):
			os.MkdirAll(p, 0o755)
		default:
			os.WriteFile(p, nil, 0o644)
		}
	}
	return root
}

// B186: merged and unmerged machines, one without lib64, links that lead
// elsewhere.
func TestLayoutOfDifferentMachines(t *testing.T) {
	bind := func(p string) Bind { return Bind{p, p} }
	for name, c := range map[string]struct {
		tree     []string
		binds    []Bind
		symlinks []Symlink
		copies   []Bind
	}{
		"debian": {
			[]string{"usr/bin/", "usr/lib/", "usr/lib64/", "usr/sbin/", "bin -> usr/bin", "lib -> usr/lib", "lib64 -> usr/lib64", "sbin -> usr/sbin",
				"etc/alternatives/awk -> /usr/bin/mawk", "etc/localtime -> /usr/share/zoneinfo/UTC", "usr/share/zoneinfo/UTC", "etc/resolv.conf -> ../run/systemd/resolve/stub-resolv.conf",
				"run/systemd/resolve/stub-resolv.conf", "etc/ssl/certs/", "etc/ssl/private/key", "etc/shadow", "home/a/", "root/", "etc/os-release -> ../usr/lib/os-release", "usr/lib/os-release"},
			[]Bind{bind("/usr"), bind("/etc/alternatives"), bind("/etc/ssl/certs")},
			[]Symlink{{"usr/bin", "/bin"}, {"usr/sbin", "/sbin"}, {"usr/lib", "/lib"}, {"usr/lib64", "/lib64"}, {"/usr/share/zoneinfo/UTC", "/etc/localtime"}, {"/usr/lib/os-release", "/etc/os-release"}},
			nil,
		},
		"alpine": {
			[]string{"usr/bin/", "usr/lib/", "bin/", "sbin/", "lib/", "etc/ssl/cert.pem -> certs/ca-certificates.crt", "etc/ssl/certs/ca-certificates.crt", "etc/alpine-release"},
			[]Bind{bind("/usr"), bind("/bin"), bind("/sbin"), bind("/lib"), bind("/etc/ssl/certs")},
			[]Symlink{{"/etc/ssl/certs/ca-certificates.crt", "/etc/ssl/cert.pem"}},
			[]Bind{bind("/etc/alpine-release")},
		},
		"nixos": {
			[]string{"nix/store/abc-sw/bin/", "nix/store/tz/UTC", "nix/store/etc/ssl/certs/", "usr/bin/env -> /nix/store/abc-sw/bin/env", "bin/sh -> /nix/store/abc-sw/bin/sh",
				"run/current-system -> /nix/store/sys", "nix/store/sys/sw -> /nix/store/abc-sw", "etc/localtime -> /etc/zoneinfo/UTC", "etc/zoneinfo -> /nix/store/tz", "etc/ssl/certs -> /nix/store/etc/ssl/certs"},
			[]Bind{bind("/usr"), bind("/nix/store"), bind("/bin")},
			[]Symlink{{"/nix/store/abc-sw", "/run/current-system/sw"}, {"/nix/store/etc/ssl/certs", "/etc/ssl/certs"}, {"/nix/store/tz/UTC", "/etc/localtime"}},
			nil,
		},
		"odd links": {
			[]string{"usr/bin/", "bin -> /opt/secret", "opt/secret/", "lib -> nowhere", "etc/fonts -> /home/a", "home/a/", "etc/localtime -> /srv/tz", "srv/tz", "etc/magic -> magic"},
			[]Bind{bind("/usr")},
			nil,
			[]Bind{{"/srv/tz", "/etc/localtime"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := ReadLayout(tree(t, c.tree...))
			if !slices.Equal(l.Binds, c.binds) {
				t.Errorf("binds %v\nwant  %v", l.Binds, c.binds)
			}
			if !slices.Equal(l.Copies, c.copies) {
				t.Errorf("copies %v\nwant   %v", l.Copies, c.copies)
			}
			if !slices.Equal(l.Symlinks, c.symlinks) {
				t.Errorf("links %v\nwant  %v", l.Symlinks, c.symlinks)
			}
		})
	}
}

func TestVersions(t *testing.T) {
	for s, want := range map[string]Version{"bubblewrap 0.8.0\n": {0, 8}, "bubblewrap 1.10": {1, 10}} {
		if got, ok := parseVersion(s); !ok || got != want {
			t.Errorf("%q: %v %v", s, got, ok)
		}
	}
	for _, s := range []string{"", "bubblewrap", "bwrap 0.8.0", "bubblewrap x.y", "bubblewrap 8"} {
		if _, ok := parseVersion(s); ok {
			t.Errorf("%q counts as a version", s)
		}
	}
	if (Version{0, 8}).before(Needed) || !(Version{0, 7}).before(Needed) || (Version{1, 0}).before(Needed) {
		t.Error("order of versions")
	}
	if _, err := ReadVersion(context.Background(), "/no/such/bwrap"); err == nil {
		t.Error("a program that is not there has a version")
	}
}
