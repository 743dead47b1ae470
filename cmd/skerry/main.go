// Command skerry runs code that nobody has vetted in isolated sandboxes.
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// A reader that goes away is an error of one write, which ends the run
	// properly, and not the death of this process. Not signal.Ignore: that
	// would be inherited by what this process starts.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	a := newApp(os.Stdin, os.Stdout, os.Stderr, os.LookupEnv)
	a.environ = os.Environ()
	ctx, cancel := context.WithCancelCause(context.Background())
	go watchSignals(cancel, a.restore)
	os.Exit(a.run(ctx, os.Args[1:]))
}

// errInterrupted is why the context of an interrupted command ended.
var errInterrupted = errors.New("interrupted")

// watchSignals ends the work at the first signal, and the process at the
// second: then the sandbox is left to its supervisor, which removes it.
func watchSignals(cancel context.CancelCauseFunc, restore func()) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup
		signals = append(signals, syscall.SIGHUP)
	}
	ch := make(chan os.Signal, 2)
	signal.Notify(ch, signals...)
	<-ch
	cancel(errInterrupted)
	<-ch
	restore()
	os.Exit(exitCancelled)
}
