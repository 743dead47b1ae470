//go:build linux

// Command provisioner makes a cluster's volumes; see package storage. Package
// cluster builds it and starts it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/skerry-run/skerry/test/cluster/storage"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "`file` with the rights of an administrator")
	dir := flag.String("dir", "", "absolute `folder` of the volumes, the same for the kubelet")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err == nil {
		err = storage.Run(ctx, config, *dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "provisioner: error:", err)
		os.Exit(1)
	}
}
