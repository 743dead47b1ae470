// Command containerd-shim-runsc-v1 is gVisor's shim for containerd, started
// without an oom_score_adj below zero: to set one needs CAP_SYS_RESOURCE, which
// a container that runs tests seldom has, and then no pod would start.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/pkg/shim"
	runsc "gvisor.dev/gvisor/pkg/shim/v1"
	_ "gvisor.dev/gvisor/pkg/shim/v1/plugin" // the task service
)

func main() {
	shim.Run(context.Background(), manager{runsc.NewShimManager("io.containerd.runsc.v1")})
}

// A manager is gVisor's own but for how the shim is started.
type manager struct{ shim.Manager }

// Start leaves a shim running that serves on its own socket and returns that
// socket's address. Every container gets a shim of its own: there is no
// grouping by pod.
func (manager) Start(ctx context.Context, id string, opts shim.StartOpts) (params shim.BootstrapParams, err error) {
	namespace, err := namespaces.NamespaceRequired(ctx)
	if err != nil {
		return params, err
	}
	address, err := shim.SocketAddress(ctx, opts.Address, id, opts.Debug)
	if err != nil {
		return params, err
	}
	listener, err := shim.NewSocket(address)
	if shim.SocketEaddrinuse(err) && !shim.CanConnect(address) {
		// A shim that was killed left its socket.
		if err := shim.RemoveSocket(address); err != nil {
			return params, fmt.Errorf("remove the socket of a dead shim: %w", err)
		}
		listener, err = shim.NewSocket(address)
	}
	if err != nil {
		return params, fmt.Errorf("listen for containerd at %s: %w", address, err)
	}
	defer listener.Close()
	defer func() {
		if err != nil {
			shim.RemoveSocket(address)
		}
	}()
	socket, err := listener.File()
	if err != nil {
		return params, err
	}
	defer socket.Close()
	// Closing our copy must not take the socket from under the shim.
	listener.SetUnlinkOnClose(false)

	self, err := os.Executable()
	if err != nil {
		return params, err
	}
	// The shim reads it to remove its socket when it ends.
	if err := os.WriteFile("address", []byte(address), 0o644); err != nil {
		return params, err
	}
	args := []string{"-namespace", namespace, "-address", opts.Address, "-id", id}
	if opts.Debug {
		args = append(args, "-debug")
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=2")
	cmd.ExtraFiles = []*os.File{socket}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return params, fmt.Errorf("start the shim: %w", err)
	}
	if err := shim.WritePidFile("shim.pid", cmd.Process.Pid); err != nil {
		cmd.Process.Kill()
		cmd.Wait()
		return params, err
	}
	return shim.BootstrapParams{Version: 2, Address: address, Protocol: "ttrpc"}, nil
}
