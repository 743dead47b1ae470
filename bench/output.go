//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/skerry-run/skerry"
)

// measureOutput takes a lot of output and watches the memory of both ends.
func measureOutput(ctx context.Context, s *setting) error {
	const (
		size, times = 500_000_000, 5
		rateGoal    = 500.0    // MB/s
		memoryGoal  = 32 << 20 // bytes; "flat" is far below what flows
	)
	box, remove, err := s.session(ctx, "output")
	if err != nil {
		return err
	}
	defer remove()
	initPID, err := findInit()
	if err != nil {
		return err
	}
	idle, err := rss(initPID)
	if err != nil {
		return err
	}
	s.row("init's memory when nothing has run yet", fmt.Sprintf("%.1f MiB", mib(idle)), "≤ 15 MiB", idle <= 15<<20)
	var took []time.Duration
	flow := func(i int) error {
		c, err := box.Start(ctx, skerry.CommandSpec{ID: fmt.Sprintf("flood %d", i), Argv: []string{"head", "-c", strconv.Itoa(size), "/dev/zero"}})
		if err != nil {
			return err
		}
		var n, omitted int64
		d, err := timed(func() error {
			return c.Output(ctx, skerry.Offsets{}, func(chunk skerry.Chunk) error {
				n += int64(len(chunk.Data))
				omitted += chunk.Omitted
				return nil
			})
		})
		if err == nil && (n != size || omitted != 0) {
			err = fmt.Errorf("%d bytes came and %d were omitted, of %d", n, omitted, size)
		}
		took = append(took, d)
		return err
	}
	if err := flow(0); err != nil { // what is allocated once is not growth
		return err
	}
	took = nil
	client, server := watchMemory(os.Getpid()), watchMemory(initPID)
	for i := range times {
		if err := flow(i + 1); err != nil {
			return err
		}
	}
	clientGrew, serverGrew := client(), server()
	rate := size / 1e6 / median(took).Seconds()
	s.row("500 MB of output through the library", fmt.Sprintf("%.0f MB/s", rate), "≥ 500 MB/s", rate >= rateGoal)
	s.row("memory while it flows, client and init", fmt.Sprintf("+%.1f MiB, +%.1f MiB", mib(clientGrew), mib(serverGrew)), "flat", clientGrew < memoryGoal && serverGrew < memoryGoal)
	return nil
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

// watchMemory samples a process until the function that it gives is called,
// which tells by how much it grew at most.
func watchMemory(pid int) (grew func() int64) {
	first, _ := rss(pid)
	var most atomic.Int64
	most.Store(first)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		const every = 5 * time.Millisecond
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				if now, err := rss(pid); err == nil && now > most.Load() {
					most.Store(now)
				}
			}
		}
	}()
	return func() int64 {
		close(stop)
		<-done
		return most.Load() - first
	}
}

// rss gives the resident bytes of a process.
func rss(pid int) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(data))
	if len(fields) < 2 {
		return 0, fmt.Errorf("statm of %d: %q", pid, data)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// findInit gives the pid of the one init below this process.
func findInit() (int, error) {
	var found []int
	for _, pid := range descendants() {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			continue
		}
		words := strings.Split(string(data), "\x00")
		if len(words) > 1 && words[1] == "serve" {
			found = append(found, pid)
		}
	}
	if len(found) != 1 {
		return 0, fmt.Errorf("%d inits below this process, want one", len(found))
	}
	return found[0], nil
}

// descendants gives all processes below this one.
func descendants() []int {
	children := map[int][]int{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		text := string(data)
		rest := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		if err != nil || len(rest) < 2 {
			continue
		}
		if parent, err := strconv.Atoi(rest[1]); err == nil {
			children[parent] = append(children[parent], pid)
		}
	}
	var all []int
	for next := []int{os.Getpid()}; len(next) > 0; {
		kids := children[next[0]]
		all, next = append(all, kids...), append(next[1:], kids...)
	}
	return all
}
