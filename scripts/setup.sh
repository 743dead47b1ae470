#!/bin/sh
# Makes a machine ready for `make demo` and `make test`: installs what is
# missing on Debian and Ubuntu, and says what to install elsewhere.
#
#   scripts/setup.sh run     what sandboxes need
#   scripts/setup.sh test    and what the tests need besides
#   scripts/setup.sh cluster what the Kubernetes cluster of test/cluster needs
set -eu

die() { echo "setup: error: $*" >&2; exit 1; }

command -v go >/dev/null || die "there is no go on PATH; install Go 1.26 or later (https://go.dev/dl)"
[ "$(uname -s)" = Linux ] || die "the local sandbox needs Linux; on other systems use a Linux machine or a virtual one"

# program:package
wanted="bwrap:bubblewrap python3:python3 node:nodejs bash:bash"
[ "${1:-run}" != test ] || wanted="$wanted gcc:gcc nft:nftables ip:iproute2 pasta:passt setpriv:util-linux su:util-linux pgrep:procps nsenter:util-linux"
[ "${1:-run}" != cluster ] || wanted="runc:runc ip:iproute2 iptables:iptables ipset:ipset nft:nftables conntrack:conntrack mmdebstrap:mmdebstrap"
# Programs of root's are not on everybody's PATH.
PATH=$PATH:/usr/sbin:/sbin

missing=
for pair in $wanted; do
	command -v "${pair%%:*}" >/dev/null || missing="$missing ${pair#*:}"
done
[ "${1:-run}" != cluster ] || [ -e /usr/lib/cni/bridge ] || missing="$missing containernetworking-plugins"
# The race detector links with the C library.
[ "${1:-run}" != test ] || [ -e /usr/include/stdlib.h ] || missing="$missing libc6-dev"
[ -n "$missing" ] || exit 0

if command -v apt-get >/dev/null; then
	sudo=
	if [ "$(id -u)" != 0 ]; then
		command -v sudo >/dev/null || die "install these as root, then try again:$missing"
		sudo=sudo
	fi
	echo "setup: installing$missing" >&2
	# Word splitting is wanted here: a list of packages.
	# shellcheck disable=SC2086
	{ $sudo apt-get update -qq && $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing; } >&2 </dev/null ||
		die "apt-get could not install:$missing"
else
	die "install these with your package manager, then try again:$missing"
fi
