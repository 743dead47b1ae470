// Package cluster boots a real Kubernetes cluster of one node on a Linux
// machine, from programs that are built from Go modules: no container engine,
// no registry and no download of a binary is needed. On other systems it is
// empty.
//
// Each cluster lives in namespaces of its own (processes, mounts, network,
// cgroups) under one keeper process; see package keeper. What it leaves on the
// machine outside of them is one network link, its cgroup and its folder, and
// Down removes all three. Settings of the kernel that are the whole machine's
// are not changed; two kernel modules (overlay, br_netfilter) are loaded when
// they are missing.
package cluster
