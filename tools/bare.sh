#!/bin/sh
# Both commands on a bare Debian 12: debootstrap, README's prerequisites, nothing else, and a fresh
# clone of HEAD. First as a user, who installs nothing; then as root, who does, and lacks nothing.
#
#   tools/bare.sh                  all of it: two builds, two suites
#   tools/bare.sh --only user      or root: one of both
#   tools/bare.sh --no-test        `make demo` alone
#
# Root of a Linux with debootstrap (installed, if apt-get can) makes it; else this is skipped with a
# line and status 77. Everything is under TMPDIR and goes at the end; logs stay in halfwink-out/bare.
set -eu
users=/home

# --- inside: process 1 of namespaces of its own, in which all mounts end with it ---------------

enter() {
    root=$1
    mount -t proc proc "$root/proc"
    # Topology, interfaces and control groups.
    mount --rbind /sys "$root/sys"
    mount -t tmpfs -o mode=755 dev "$root/dev"
    for node in null:3 zero:5 full:7 random:8 urandom:9; do
        mknod -m 666 "$root/dev/${node%:*}" c 1 "${node#*:}"
    done
    mknod -m 666 "$root/dev/tty" c 5 0
    mkdir "$root/dev/net" "$root/dev/pts" "$root/dev/shm"
    mknod -m 666 "$root/dev/net/tun" c 10 200
    mount -t devpts -o newinstance,ptmxmode=666 pts "$root/dev/pts"
    ln -s pts/ptmx "$root/dev/ptmx"
    mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
    ln -s /proc/self/fd "$root/dev/fd"
    for n in 0:stdin 1:stdout 2:stderr; do ln -s "fd/${n%:*}" "$root/dev/${n#*:}"; done
    mount --bind "$2" "$root/opt/rust"
    mount -o remount,bind,ro "$root/opt/rust"
}

if [ "${1:-}" = --inside ]; then
    root=$2 toolchain=$3
    shift 3
    enter "$root" "$toolchain"
    status=0
    "$0" --part "$root" "$@" || status=$?
    exit "$status"
fi

# --- the parts, in order -----------------------------------------------------------------------

# Runs a line there as one who is named, in what a fresh login has and the host's way to the net.
there() {
    who=$1 home=$2 line=$3
    # shellcheck disable=SC2046
    chroot --userspec="$who" "$root" /usr/bin/env -i $(cat "$root/host-environment") \
        HOME="$home" USER="$who" LANG=C.UTF-8 CARGO_HOME="$home/.cargo" \
        PATH=/opt/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        sh -c "$line"
}

# One command there, with its last lines; all of what it says is in a log.
command_there() {
    name=$1
    shift
    begun=$(date +%s)
    status=0
    there "$@" >"$logs/$name.log" 2>&1 </dev/null || status=$?
    printf '\n-- %s: status %s, %s s\n' "$name" "$status" "$(($(date +%s) - begun))"
    if [ "$status" -eq 0 ]; then tail -n 12 "$logs/$name.log"; else tail -n 60 "$logs/$name.log"; fi
    [ "$status" -eq 0 ] || failed=1
}

part() {
    who=$1 home=$2 more=$3
    # A fresh clone; of what another has built, what comes from outside is kept.
    rm -rf "$root/halfwink.before"
    [ ! -e "$root/halfwink" ] || mv "$root/halfwink" "$root/halfwink.before"
    git clone --quiet "file://$here" "$root/halfwink"
    [ ! -e "$root/halfwink.before/target" ] || mv "$root/halfwink.before/target" "$root/halfwink/"
    rm -rf "$root/halfwink.before"
    chroot "$root" chown -R "$who:" /halfwink "$home"
    command_there "$who-demo" "$who" "$home" "cd /halfwink && make demo"
    [ -n "$no_test" ] || command_there "$who-test" "$who" "$home" "cd /halfwink && $more make test"
}

if [ "${1:-}" = --part ]; then
    root=$2 here=$3 logs=$4 only=$5 no_test=$6 failed=0
    [ "$only" = root ] || part user "$users/user" ""
    [ "$only" = user ] || part root /root "HALFWINK_REQUIRE_ALL=1"
    exit "$failed"
fi

# --- outside: makes the machine ----------------------------------------------------------------

only="" no_test=""
while [ $# -gt 0 ]; do
    case $1 in
    --only) only=${2:-} && shift ;;
    --no-test) no_test=yes ;;
    *) only=? ;;
    esac
    shift
done
case $only in "" | user | root) ;; *)
    echo "usage: tools/bare.sh [--only user|root] [--no-test]" >&2
    exit 2
    ;;
esac

skip() {
    echo "bare Debian 12: skipped: $1" | tee -a "${HALFWINK_SKIPPED:-/dev/null}" >&2
    [ -z "${HALFWINK_REQUIRE_ALL:-}" ] || exit 1
    exit 77
}

here=$(cd "$(dirname "$0")/.." && pwd)
cd "$here"
[ "$(id -u)" -eq 0 ] || skip "run as root"
PATH="$PATH:/usr/sbin:/sbin"
if ! command -v debootstrap >/dev/null; then
    [ -z "${HALFWINK_NO_INSTALL:-}" ] || skip "run: apt-get install -y debootstrap"
    { apt-get update -q && apt-get install -y -q --no-install-recommends debootstrap; } \
        >/dev/null 2>&1 || skip "run: apt-get install -y debootstrap"
fi
unshare --mount --pid --fork true || skip "the kernel refuses namespaces"

logs=$here/halfwink-out/bare
mkdir -p "$logs"
bare=$(mktemp -d)
# There is no such folder inside.
unset TMPDIR
# It becomes a root folder, which users must be able to enter.
chmod 755 "$bare"
inside=
# Mounts are in namespaces that end with their first process: nothing of the host is below this.
trap 'rm -rf --one-file-system "$bare"' EXIT
# With the process that made them, the namespaces end, and all that runs in them.
trap '[ -z "$inside" ] || { kill "$inside"; wait "$inside" || true; }; exit 130' INT TERM HUP

# Where this host gets Debian from; without, where debootstrap does.
sources() {
    apt-get indextargets --format '$(CODENAME) $(SITE) $(RELEASE) $(COMPONENT)' 2>/dev/null |
        awk '$1 ~ /^bookworm(-updates|-security)?$/ && $4 == "main" { print $2, $3, $4 }' |
        sort -u
}
mirror=$(sources | awk '$2 == "bookworm" { print $1; exit }')

echo "making a bare Debian 12"
# shellcheck disable=SC2086
debootstrap --variant=minbase bookworm "$bare" $mirror >"$logs/debootstrap.log" 2>&1 ||
    { tail -n 20 "$logs/debootstrap.log" >&2 && exit 1; }

# How this host reaches the net: names, trust, proxies, and where packages are.
cp /etc/resolv.conf /etc/hosts "$bare/etc/"
sources | sed 's/^/deb /' >"$bare/etc/apt/sources.list"
apt-config dump Acquire 2>/dev/null >"$bare/etc/apt/apt.conf.d/99host" || true
env | grep -E '^((https?|no|all|ftp)_proxy|(HTTPS?|NO|ALL)_PROXY|PIP_[A-Z_]*|CARGO_(HTTP|NET|REGISTR|SOURCE)[A-Z_]*)=[^ ]*$' \
    >"$bare/host-environment" || true
for folder in $(env | sed -n 's/^PIP_FIND_LINKS=\(\/.*\)/\1/p'); do
    [ ! -d "$folder" ] || { mkdir -p "$bare$folder" && cp -a "$folder/." "$bare$folder"; }
done
for file in /etc/pip.conf "${HOME:-/root}/.config/pip/pip.conf" "${HOME:-/root}/.pip/pip.conf"; do
    [ ! -f "$file" ] || cp "$file" "$bare/etc/pip.conf"
done

chroot "$bare" useradd --create-home --shell /bin/sh user
cargo_home=${CARGO_HOME:-${HOME:-/root}/.cargo}
for home in /root "$users/user"; do
    mkdir -p "$bare$home/.cargo"
    # Crates that are here already need no registry.
    for file in config config.toml registry; do
        [ ! -e "$cargo_home/$file" ] || cp -a "$cargo_home/$file" "$bare$home/.cargo/"
    done
done
mkdir -p "$bare/opt/rust"

# README says what is needed; nothing else comes in.
wanted=$(sed -n 's/^    apt-get install -y \([^#]*[^ #]\).*/\1/p' README.md | head -n 1)
[ -n "$wanted" ] || { echo "README.md names no prerequisites" >&2 && exit 1; }
# shellcheck disable=SC2086
{ chroot "$bare" apt-get update -q && DEBIAN_FRONTEND=noninteractive chroot "$bare" \
    apt-get install -y -q --no-install-recommends $wanted; } >"$logs/prerequisites.log" 2>&1 ||
    { tail -n 20 "$logs/prerequisites.log" >&2 && exit 1; }
# Certificates that only this host trusts, behind a proxy that needs them.
bundle=/etc/ssl/certs/ca-certificates.crt
[ ! -f $bundle ] || cp $bundle "$bare$bundle"

echo "Debian $(cat "$bare/etc/debian_version"), $(chroot "$bare" dpkg --list | grep -c '^ii') packages, \
$(git log -1 --format='%h %s')"
unshare --mount --pid --fork --kill-child --propagation private \
    tools/bare.sh --inside "$bare" "$(rustc --print sysroot)" "$here" "$logs" "$only" "$no_test" &
inside=$!
status=0
wait "$inside" || status=$?
inside=
exit "$status"
