#!/bin/sh
# Adds what features and tests need beyond the build: as root on Debian 12, else prints the lines.
set -eu

need=""
add() { command -v "$1" >/dev/null || need="$need $2"; }
add gcc gcc
add valgrind valgrind
add chromium chromium
add ngspice ngspice
add git git
# Programs that tests run under `halfwink live delegate`.
add tar tar
add sqlite3 sqlite3
add curl curl
add nginx nginx-light
add openssl openssl
add redis-server redis-server
add redis-benchmark redis-tools
# HTTP/2 clients of the steering proxy, and what it is compared with.
add h2load nghttp2-client
add haproxy haproxy
add wrk wrk
# The routers' test bed, and what its routers are compared with.
PATH="$PATH:/usr/sbin:/sbin"
add ip iproute2
add ethtool ethtool
# Reads the flow records that the router exports.
add nfdump nfdump
# Decrypts what the router encrypts.
add tshark tshark
add dpdk-testpmd "dpdk-dev librte-net-af-packet23 librte-net-af-xdp23 librte-mempool-ring23"
add ping iputils-ping

if [ -n "$need" ]; then
    if [ "$(id -u)" -ne 0 ]; then
        echo "run as root: apt-get install -y$need" >&2
        exit 1
    fi
    # Services that come along are for tests to start, not for the machine.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
        trap 'rm -f "$policy"' EXIT
    fi
    apt-get update -q
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $need
fi

if command -v rustup >/dev/null; then
    rustup target list --installed | grep -q wasm32-unknown-unknown ||
        rustup target add wasm32-unknown-unknown
fi
