#!/halfwink/busybox sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# First process of the recorded machine. Says what it does on the console, in lines that begin with
# "@guest". With two CPUs, CPU 1 is the server's and is recorded; CPU 0 has all the rest.

box=/halfwink/busybox
# This shell takes a bare name for one of its own commands if it can: other programs need their paths.
ip=/usr/bin/ip
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export HOME=/root LC_ALL=C

say() { echo "@guest $*"; }

stop() {
    # Let the console drain before the power goes.
    $box sleep 0.1
    $box poweroff -f
}

fail() {
    say "error: $*"
    stop
}

$box mount -t proc proc /proc
$box mount -t sysfs sysfs /sys
$box mount -t devtmpfs dev /dev
$box mkdir -p /dev/shm /dev/pts /run /tmp
$box mount -t tmpfs tmpfs /dev/shm
$box mount -t tmpfs tmpfs /run
$box mount -t tmpfs tmpfs /tmp
$box chmod 1777 /tmp /dev/shm
$box ip link set lo up
$box hostname guest
ulimit -n 4096

. /halfwink/environment
[ -f /halfwink/workload.sh ] && . /halfwink/workload.sh
say "booted"

# Two network name spaces joined by a pair of devices, as two machines by a cable. Each direction is
# received on the CPU of its receiver.
join_networks() {
    [ -d /sys/devices/system/cpu/cpu1 ] || fail "the second CPU did not come up"
    $box insmod /halfwink/veth.ko || fail "cannot load the network driver"
    $ip netns add clients || fail "no network name spaces"
    $ip link add server type veth peer name client netns clients || fail "no network devices"
    $ip addr add 192.0.2.1/24 dev server
    $ip link set server up
    $ip -n clients addr add 192.0.2.2/24 dev client
    $ip -n clients link set client up
    echo 2 >/sys/class/net/server/queues/rx-0/rps_cpus
    $ip netns exec clients $box sh -c 'echo 1 >/sys/class/net/client/queues/rx-0/rps_cpus'
    echo 1 >/sys/devices/virtual/workqueue/cpumask
    $box taskset -p 1 $$ >/dev/null
}

# QEMU fixes the CPU number that it gives to a plugin when it translates code, so the CPUs must not
# share translations. They do not if something differs that code generation depends on: EFER.SVME on
# CPU 1, which only allows instructions that nobody uses here.
split_cpus() {
    $box insmod /halfwink/msr.ko allow_writes=on || fail "cannot load the register driver"
    /halfwink/load split-cpu 1 || fail "cannot set a register of CPU 1"
}

# Loads a driver with its arguments, behind those that it depends on.
drive() {
    while read -r needed; do
        [ "$needed" != "$1" ] || break
        [ "$needed" = msr ] || $box insmod "/halfwink/$needed.ko" || return 1
    done </halfwink/drivers
    driver=$1
    shift
    $box insmod "/halfwink/$driver.ko" "$@"
}

# Starts the server with its arguments, on its CPU.
on_server_cpu() { $box taskset 2 "$@"; }

wait_for_port() {
    tries=0
    until $ip netns exec clients $box nc -w 1 192.0.2.1 "$1" </dev/null >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ $tries -lt 100 ] || fail "the server does not answer on port $1"
        $box sleep 0.1
    done
}

case $KIND in
server)
    join_networks
    split_cpus
    start_server || fail "the server did not start"
    wait_for_port "$PORT"
    say "warming up: $LOAD_ARGUMENTS"
    # shellcheck disable=SC2086 # these are several arguments
    $ip netns exec clients /halfwink/load "$PROTOCOL" "192.0.2.1:$PORT" $LOAD_ARGUMENTS ||
        fail "the load generator failed"
    ;;
program)
    [ "$CPUS" -eq 1 ] || split_cpus
    if [ -n "$COMMAND" ]; then
        # Not sooner: for workloads by name nothing shall change.
        [ ! -d /halfwink/files ] || $box cp -R /halfwink/files/. / || fail "no room for files"
        eval "set -- $COMMAND"
        cd /root
    else
        prepare || fail "the program could not be prepared"
        set -- $box sh /halfwink/workload.sh run
    fi
    say "warming up: $WARMUP runs before the recorded one"
    # shellcheck disable=SC2086 # none or one
    /halfwink/load run --warmup "$WARMUP" $OWN_START -- "$@" || fail "the program failed"
    ;;
esac
say "finished"
stop
