//go:build linux

package keeper

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// A keeper is made in two steps. The first process joins the cgroup, for a
// cgroup namespace begins at the group of the process that makes it; then it
// starts the second one in new namespaces and ends, which leaves the second
// without a parent that could take it along.
const (
	stepEnter = "enter"
	stepServe = "serve"
	// reportFD is where both steps report an error; the last one closes it.
	reportFD = 3
)

// Launch starts the keeper and returns when it answers. program is the
// path of a command that does nothing but call [Main]. The keeper outlives the
// caller.
func Launch(ctx context.Context, program string, spec Spec) error {
	if err := spec.check(); err != nil {
		return err
	}
	encoded, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(logPath(spec.Folder), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	cmd := exec.CommandContext(ctx, program, stepEnter, string(encoded))
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{w}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	_ = w.Close()
	if err != nil {
		return fmt.Errorf("start the keeper: %w", err)
	}
	report := make(chan []byte, 1)
	go func() {
		said, _ := io.ReadAll(io.LimitReader(r, maxMessageBytes))
		report <- said
	}()
	if err := cmd.Wait(); err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case said := <-report:
		if text := strings.TrimSpace(string(bytes.TrimSuffix(said, []byte(readyReport)))); text != "" || !bytes.HasSuffix(said, []byte(readyReport)) {
			return fmt.Errorf("the keeper did not start: %s (see %s)", text, log.Name())
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

const readyReport = "ready\n"

// Main is the keeper's own main: args are the arguments of its command. It
// does not return.
func Main(args []string) {
	report := os.NewFile(reportFD, "report")
	syscall.CloseOnExec(reportFD)
	err := step(args, report)
	if err != nil {
		slog.Error("keeper ends", "error", err)
		fmt.Fprintln(report, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func step(args []string, report *os.File) error {
	if len(args) != 2 {
		return errors.New("the keeper is started by the program that boots a cluster, not by hand")
	}
	var spec Spec
	if err := json.Unmarshal([]byte(args[1]), &spec); err != nil {
		return err
	}
	switch args[0] {
	case stepEnter:
		return enter(spec, args[1], report)
	case stepServe:
		return serve(spec, func() {
			_, _ = report.WriteString(readyReport)
			_ = report.Close()
		})
	default:
		return fmt.Errorf("the keeper has no step %q", args[0])
	}
}

func enter(spec Spec, encoded string, report *os.File) error {
	if err := joinCgroup(spec.Cgroup); err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(program, stepServe, encoded)
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{report}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid: true,
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET |
			syscall.CLONE_NEWCGROUP | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start a process in new namespaces: %w", err)
	}
	return nil
}
