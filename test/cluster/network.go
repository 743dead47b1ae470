//go:build linux

package cluster

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// inNetwork calls do in the network namespace of a process: sockets that do
// makes and programs that it starts belong there. What do starts as goroutines
// does not.
func inNetwork(pid int, do func() error) error {
	result := make(chan error, 1)
	go func() {
		// Never unlocked: the thread ends with the goroutine, so that no other
		// goroutine runs in a network that it does not expect.
		runtime.LockOSThread()
		result <- func() error {
			fd, err := unix.Open(fmt.Sprintf("/proc/%d/ns/net", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return fmt.Errorf("open the cluster's network: %w", err)
			}
			defer unix.Close(fd)
			if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("enter the cluster's network: %w", err)
			}
			return do()
		}()
	}()
	return <-result
}
