//go:build linux

package cluster

import (
	"context"
	"io"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
)

// Exec is a command to run in a container that runs.
type Exec struct {
	Namespace, Pod string
	Container      string // "" is the only one
	Command        []string
	Stdin          io.Reader // nil: none
	Stdout, Stderr io.Writer // nil: not asked for
}

// Exec runs a command in a container over a WebSocket, as kubectl does, and
// returns when it has ended. That of a command which ended with another code
// than 0 is an error of k8s.io/client-go/util/exec.CodeExitError.
func (c *Cluster) Exec(ctx context.Context, e Exec) error {
	config, err := c.RESTConfig()
	if err != nil {
		return err
	}
	client, err := c.Client()
	if err != nil {
		return err
	}
	url := client.CoreV1().RESTClient().Get().Resource("pods").Namespace(e.Namespace).Name(e.Pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: e.Container, Command: e.Command,
			Stdin: e.Stdin != nil, Stdout: e.Stdout != nil, Stderr: e.Stderr != nil,
		}, scheme.ParameterCodec).URL()
	executor, err := remotecommand.NewWebSocketExecutor(config, "GET", url.String())
	if err != nil {
		return err
	}
	return executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: e.Stdin, Stdout: e.Stdout, Stderr: e.Stderr})
}
