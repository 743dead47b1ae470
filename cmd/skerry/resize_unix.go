//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// watchResize calls changed whenever the terminal's size changes, until stop.
func watchResize(changed func()) (stop func()) {
	ch := make(chan os.Signal, 1)
	done := make(chan struct{})
	signal.Notify(ch, syscall.SIGWINCH)
	go func() {
		defer close(done)
		for range ch {
			changed()
		}
	}()
	return func() {
		signal.Stop(ch)
		close(ch)
		<-done
	}
}
