//go:build linux

package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// mergedUsr makes /bin and its like links from the beginning. A system that has
// none would get a program that makes them, and with it all of Perl.
const mergedUsr = "/usr/share/mmdebstrap/hooks/merged-usr"

// debianPackages is root file systems that grow: each stage has the packages of
// those before it and its own.
type debianPackages struct {
	suite   string
	sources []string // lines of a sources.list; none is Debian's own servers
	stages  [][]string
	log     *log
}

// install makes a tar file of each stage in the folder work. When ctx ends, all
// that it started ends, and nothing stays mounted.
func (d debianPackages) install(ctx context.Context, work string) ([]string, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("a root file system can only be made by root: run this as root")
	}
	for _, program := range []string{"mmdebstrap", "unshare", "tar"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("%w: apt-get install mmdebstrap util-linux tar", err)
		}
	}
	temp := filepath.Join(work, "tmp")
	if err := os.Mkdir(temp, 0o755); err != nil {
		return nil, err
	}
	args := []string{
		// With processes and mounts of its own, so that the end of the first of
		// them is the end of all.
		"--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "--",
		"mmdebstrap", "--mode=root", "--variant=essential", "--format=null", "--hook-dir=" + mergedUsr,
		// The cache may lie where nobody else comes in.
		`--aptopt=APT::Sandbox::User "root"`,
		"--include=usr-is-merged," + strings.Join(d.stages[0], ","),
	}
	var stages []string
	for i, packages := range d.stages {
		if i > 0 {
			args = append(args, `--customize-hook=APT_CONFIG="$MMDEBSTRAP_APT_CONFIG" apt-get --yes --no-install-recommends install -oDPkg::Chroot-Directory="$1" `+strings.Join(packages, " "))
		}
		stage := strconv.Itoa(i) + ".tar"
		// mmdebstrap gives its hooks the environment that it has.
		args = append(args, `--customize-hook=tar --numeric-owner --one-file-system --exclude='./var/lib/apt/lists/*' --exclude='./var/cache/*' -C "$1" -cf "$SKERRY_STAGES/`+stage+`" .`)
		stages = append(stages, filepath.Join(work, stage))
	}
	args = append(args, d.suite, "/dev/null")
	args = append(args, d.sources...)

	said := &apt{log: d.log}
	cmd := exec.CommandContext(ctx, "unshare", args...)
	cmd.Stdout, cmd.Stderr = said, said
	cmd.Env = append(os.Environ(),
		"TMPDIR="+temp, "SKERRY_STAGES="+work, "LC_ALL=C.UTF-8", "TZ=UTC", "DEBIAN_FRONTEND=noninteractive",
		// The order of sets in compiled Python.
		"PYTHONHASHSEED=0",
	)
	// A parent-death signal is tied to the thread that started the child: it
	// has to live as long.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = stopGrace
	err := cmd.Run()
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	if err != nil {
		return nil, fmt.Errorf("mmdebstrap: %w: %s", err, tail(said.text.String()))
	}
	return stages, nil
}

// An apt takes what mmdebstrap and the programs under it say: its own lines are
// progress, the end of all of it explains a failure.
type apt struct {
	log  *log
	line []byte
	text bytes.Buffer
}

// Of what was said this much is kept.
const saidBytes = 256 << 10

func (a *apt) Write(data []byte) (int, error) {
	for _, c := range data {
		// Bars of progress are drawn over and over.
		if c != '\n' && c != '\r' {
			a.line = append(a.line, c)
			continue
		}
		line := strings.TrimSpace(string(a.line))
		a.line = a.line[:0]
		if line == "" {
			continue
		}
		if a.text.Len() > saidBytes {
			a.text.Next(saidBytes / 2)
		}
		a.text.WriteString(line + "\n")
		step, ok := strings.CutPrefix(line, "I: ")
		// The hooks are ours, and too long to read.
		if ok && !strings.HasPrefix(step, "running --") {
			a.log.printf("runtime: %s", step)
		}
	}
	return len(data), nil
}
