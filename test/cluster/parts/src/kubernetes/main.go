// Command kubernetes is the API server, the controller manager, the scheduler,
// the kubelet and the proxy in one binary: they share most of their packages,
// so one link instead of five saves minutes and half a gigabyte.
//
// The name it is called by, or else its first argument, says which one it is.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	_ "time/tzdata" // a CronJob may name a time zone that the machine does not have

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// Constructors, not commands: each one registers flags and feature gates, and
// only those of the program that runs may be there.
var programs = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
	"kube-proxy":              proxy.NewProxyCommand,
}

func main() {
	name := filepath.Base(os.Args[0])
	if programs[name] == nil && len(os.Args) > 1 {
		name = os.Args[1]
		os.Args = slices.Delete(os.Args, 1, 2)
	}
	program := programs[name]
	if program == nil {
		fmt.Fprintf(os.Stderr, "kubernetes: no program %q: call it as, or with a first argument of, kube-apiserver, "+
			"kube-controller-manager, kube-scheduler, kubelet or kube-proxy\n", strings.TrimSpace(name))
		os.Exit(2)
	}
	os.Exit(cli.Run(program()))
}
