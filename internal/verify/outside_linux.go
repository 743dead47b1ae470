package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/skerry-run/skerry"
	"github.com/skerry-run/skerry/internal/probe"
)

// outside are attacks that need a second sandbox, or are seen from this side.
var outside = []struct {
	name, tries string
	run         func(context.Context, *verifier) probe.Finding
}{
	{"kernel-user", "look from outside as which user of the kernel a command runs", kernelUser},
	{"neighbour-inotify", "take all inotify instances, and see whether a neighbour has any left", neighbourInotify},
	{"neighbour-processes", "start as many processes as the limit allows, and see whether a neighbour can start one", neighbourProcesses},
	{"neighbour-sight", "look for files and processes of a neighbour", neighbourSight},
	{"blocking-files", "make the client hang on a FIFO or a device, or read through a link", blockingFiles},
	{"forged-end", "pass for a program that ended in another way, by its code, its signal, its output or a child that died of memory", forgedEnd},
}

func kernelUser(ctx context.Context, v *verifier) probe.Finding {
	if !v.cfg.SameHost {
		return finding(probe.Unknown, "the sandbox is not on this machine")
	}
	mark := "86398." + randomDigits()
	c, err := v.box.Start(ctx, skerry.CommandSpec{ID: "mark-" + mark, Argv: []string{"sleep", mark}, Timeout: attackTimeout})
	if err != nil {
		return finding(probe.Unknown, "start sleep: %v", err)
	}
	defer c.Cancel(ctx, "it was seen")
	status, err := findProcess(mark)
	if err != nil {
		return finding(probe.Unknown, "%v", err)
	}
	for line := range strings.Lines(status) {
		name, ids, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name != "Uid" && name != "Gid" {
			continue
		}
		for id := range strings.FieldsSeq(ids) {
			if id == "0" {
				return finding(probe.Open, "it is root for the kernel: %s", strings.TrimSpace(line))
			}
		}
	}
	uid, _, _ := strings.Cut(strings.TrimSpace(lineOf(status, "Uid:")), "\t")
	return finding(probe.Blocked, "for the kernel it is user %s", uid)
}

// findProcess gives the status of the host's process whose command line ends
// with mark.
func findProcess(mark string) (string, error) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return "", err
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil || !bytes.Contains(data, []byte("\x00"+mark+"\x00")) {
			continue
		}
		status, err := os.ReadFile(filepath.Join(filepath.Dir(f), "status"))
		if err == nil {
			return string(status), nil
		}
	}
	return "", errors.New("the process can't be seen from outside")
}

func lineOf(text, prefix string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			return rest
		}
	}
	return ""
}

// held starts a helper that takes something and keeps it, and calls f while it
// does.
func (v *verifier) held(ctx context.Context, helper []string, f func(told string) probe.Finding) probe.Finding {
	c, err := v.launch(ctx, v.box, helper...)
	if err != nil {
		return finding(probe.Unknown, "start the one that takes all: %v", err)
	}
	defer c.Cancel(context.WithoutCancel(ctx), "it was seen")
	line, err := firstLine(ctx, c)
	if err != nil || !bytes.HasPrefix(line, []byte("holding ")) {
		return finding(probe.Unknown, "the one that takes all said %q: %v", line, err)
	}
	return f(string(line))
}

// neighbour makes a second sandbox and calls f with it.
func (v *verifier) neighbour(ctx context.Context, f func(skerry.Sandbox) probe.Finding) probe.Finding {
	box, ref, err := v.create(ctx)
	if err != nil {
		return finding(probe.Unknown, "make a neighbour: %v", err)
	}
	defer v.drop(ctx, box, ref)
	return f(box)
}

func neighbourInotify(ctx context.Context, v *verifier) probe.Finding {
	return v.neighbour(ctx, func(other skerry.Sandbox) probe.Finding {
		return v.held(ctx, []string{"hold-inotify"}, func(told string) probe.Finding {
			// The control: where all were taken, there is none left.
			if f := v.start(ctx, v.box, attackNamed("inotify"), nil); f.Verdict != probe.Open {
				return finding(probe.Unknown, "%s, and there are still some left in the same sandbox: a limit on open files came first", told)
			}
			f := v.start(ctx, other, attackNamed("inotify"), nil)
			f.Detail = told + "; " + f.Detail
			return f
		})
	})
}

func neighbourProcesses(ctx context.Context, v *verifier) probe.Finding {
	return v.neighbour(ctx, func(other skerry.Sandbox) probe.Finding {
		return v.held(ctx, []string{"hold-processes", fmt.Sprint(2 * (limits.PIDs + taskReserve))}, func(told string) probe.Finding {
			f := v.start(ctx, other, attackNamed("fork"), nil)
			f.Detail = told + "; " + f.Detail
			return f
		})
	})
}

func neighbourSight(ctx context.Context, v *verifier) probe.Finding {
	const file = "/workspace/neighbour-canary"
	token := "neighbour-" + randomHex()
	if _, err := v.box.Files().Write(ctx, file, strings.NewReader(token), skerry.WriteOptions{}); err != nil {
		return finding(probe.Unknown, "write the canary: %v", err)
	}
	mark := "86397." + randomDigits()
	c, err := v.box.Start(ctx, skerry.CommandSpec{ID: "mark-" + mark, Argv: []string{"sleep", mark}, Timeout: attackTimeout})
	if err != nil {
		return finding(probe.Unknown, "start sleep: %v", err)
	}
	defer c.Cancel(ctx, "it was seen")
	// The control: in its own sandbox both are found.
	for _, own := range []probe.Finding{
		v.start(ctx, v.box, attackNamed("host-files"), []string{token, file}),
		v.start(ctx, v.box, attackNamed("host-processes"), []string{mark}),
	} {
		if own.Verdict != probe.Open {
			return finding(probe.Unknown, "not even the sandbox itself finds it: %s", own.Detail)
		}
	}
	return v.neighbour(ctx, func(other skerry.Sandbox) probe.Finding {
		files := v.start(ctx, other, attackNamed("host-files"), []string{token, file})
		if files.Verdict != probe.Blocked {
			return files
		}
		processes := v.start(ctx, other, attackNamed("host-processes"), []string{mark})
		if processes.Verdict == probe.Blocked {
			processes.Detail = files.Detail + "; " + processes.Detail
		}
		return processes
	})
}

func blockingFiles(ctx context.Context, v *verifier) probe.Finding {
	const patience = 15 * time.Second
	const make = "rm -rf trap; mkdir trap; mkfifo trap/fifo; ln -s /dev/zero trap/zero; ln -s /proc/self/environ trap/environ; ln -s /etc/passwd trap/passwd; ln -s fifo trap/link"
	c, err := v.box.Start(ctx, skerry.CommandSpec{ID: "trap-" + randomHex(), Argv: []string{"sh", "-c", make}, Dir: "/workspace", Timeout: attackTimeout})
	if err != nil {
		return finding(probe.Unknown, "lay the traps: %v", err)
	}
	if exit, err := c.Wait(ctx); err != nil || exit.ExitCode == nil || *exit.ExitCode != 0 {
		return finding(probe.Unknown, "lay the traps: %v, %v", exit.Outcome, err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var refused []string
	for _, name := range []string{"fifo", "link", "zero", "environ", "passwd"} {
		_, err := v.box.Files().Read(ctx, "trap/"+name, 0, -1, io.Discard)
		switch {
		case ctx.Err() != nil:
			return finding(probe.Open, "reading trap/%s hung for %v", name, patience)
		case err == nil:
			return finding(probe.Open, "trap/%s was read", name)
		}
		refused = append(refused, name)
	}
	if _, err := v.box.Files().Grep(ctx, skerry.GrepSpec{Pattern: "root", Dir: "trap"}); ctx.Err() != nil {
		return finding(probe.Open, "searching beside a FIFO hung: %v", err)
	}
	if _, err := v.box.Files().TarOut(ctx, "trap", io.Discard); ctx.Err() != nil {
		return finding(probe.Open, "packing a FIFO hung: %v", err)
	}
	return finding(probe.Blocked, "%s were refused at once", strings.Join(refused, ", "))
}

func attackNamed(name string) probe.Attack {
	for _, a := range probe.Attacks() {
		if a.Name == name {
			return a
		}
	}
	return probe.Attack{Name: name}
}

func finding(v probe.Verdict, format string, args ...any) probe.Finding {
	return probe.Finding{Verdict: v, Detail: fmt.Sprintf(format, args...)}
}

func randomDigits() string {
	return fmt.Sprint(100_000_000 + time.Now().UnixNano()%800_000_000)
}
