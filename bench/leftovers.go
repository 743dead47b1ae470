//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skerry-run/skerry"
)

// measureLeftovers makes many runs, some at a time, and counts what there is
// before and after.
func measureLeftovers(ctx context.Context, s *setting, runs int) error {
	const atOnce, warmUp = 8, 16
	if err := s.runMany(ctx, "warm", warmUp, atOnce); err != nil {
		return err
	}
	before := s.count()
	t := time.Now()
	if err := s.runMany(ctx, "run", runs, atOnce); err != nil {
		return err
	}
	took := time.Since(t)
	after := s.settle(ctx, before)
	var grown []string
	for _, name := range counted {
		if after[name] > before[name] {
			grown = append(grown, fmt.Sprintf("%s %d → %d", name, before[name], after[name]))
		}
	}
	told := "none"
	if len(grown) > 0 {
		told = strings.Join(grown, ", ")
	}
	s.row(fmt.Sprintf("growth after %d runs, %d at a time, of %s", runs, atOnce, strings.Join(counted, ", ")), told, "none", len(grown) == 0)
	s.row("one of these runs, on average", ms(took/time.Duration(max(runs, 1))), "–", true)
	return nil
}

func (s *setting) runMany(ctx context.Context, prefix string, runs, atOnce int) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, atOnce)
	for range atOnce {
		wg.Go(func() {
			for {
				i := next.Add(1)
				if i > int64(runs) {
					return
				}
				want := fmt.Sprintf("out-%d", i)
				r := skerry.Run(ctx, s.backend, skerry.RunSpec{
					Sandbox: skerry.SandboxSpec{Ref: skerry.Ref{Name: fmt.Sprintf("%s-%d", prefix, i)}},
					Command: skerry.CommandSpec{Argv: []string{"echo", want}},
				})
				if r.Outcome != skerry.Exited || *r.ExitCode != 0 || r.Stdout != want+"\n" {
					errs <- fmt.Errorf("run %d: %s %s, stdout %q", i, r.Outcome, r.Reason, r.Stdout)
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return ctx.Err()
	}
}

// counted names what may not grow.
var counted = []string{"processes", "mounts", "files", "cgroups", "goroutines", "state files"}

// count counts what belongs to this process and its sandboxes; others on the
// machine are not in it.
func (s *setting) count() map[string]int {
	n := map[string]int{"goroutines": runtime.NumGoroutine()}
	for _, pid := range descendants() {
		// What has ended and waits for somebody else to notice is not ours.
		if data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && len(data) > 0 {
			n["processes"]++
		}
	}
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range all { // those that left our tree
		if data, err := os.ReadFile(f); err == nil && bytes.Contains(data, []byte(s.state)) {
			n["processes"]++
		}
	}
	if data, err := os.ReadFile("/proc/self/mountinfo"); err == nil {
		n["mounts"] = bytes.Count(data, []byte("\n"))
	}
	if entries, err := os.ReadDir("/proc/self/fd"); err == nil {
		n["files"] = len(entries)
	}
	n["cgroups"] = s.cgroups()
	_ = filepath.WalkDir(s.state, func(_ string, _ fs.DirEntry, err error) error {
		if err == nil {
			n["state files"]++
		}
		return nil
	})
	return n
}

// cgroups counts the control groups of the runs made here, by their keys.
func (s *setting) cgroups() int {
	n := 0
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if d.IsDir() && s.isOurs(filepath.Base(path)) {
			n++
		}
		return nil
	})
	return n
}

// isOurs says whether a group's name holds the key of one of the runs.
func (s *setting) isOurs(name string) bool {
	keys := ourKeys()
	for i := 0; i+keyLength <= len(name); i++ {
		if keys[name[i:i+keyLength]] {
			return true
		}
	}
	return false
}

const keyLength = 32 // of skerry.Ref.Key

// ourKeys gives the keys of every run that this program may have made.
var ourKeys = sync.OnceValue(func() map[string]bool {
	const most = 20_000
	keys := map[string]bool{}
	for _, prefix := range []string{"warm", "run"} {
		for i := range most {
			keys[skerry.Ref{Kind: skerry.RunKind, Name: fmt.Sprintf("%s-%d", prefix, i)}.Key()] = true
		}
	}
	return keys
})

// settle counts until nothing is more than before, or for as long as the
// design allows what is left to go away.
func (s *setting) settle(ctx context.Context, before map[string]int) map[string]int {
	const allowed = 2 * time.Second
	ctx, cancel := context.WithTimeout(ctx, allowed)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		now := s.count()
		more := false
		for _, name := range counted {
			more = more || now[name] > before[name]
		}
		if !more {
			return now
		}
		select {
		case <-ctx.Done():
			return now
		case <-tick.C:
		}
	}
}
