#!/bin/sh
# Adds what features and tests use beyond the prerequisites: as root on Debian 12. Without root, or
# with HALFWINK_NO_INSTALL set, it says the line that would. Ends well if nothing is missing then.
# Python modules that only tests use go into the environment of `make setup`, if there is one.
set -eu
cd "$(dirname "$0")/.."

# Whether something links policies in C: lld, or the Rust toolchain.
links_c() {
    command -v wasm-ld || ls "$(rustc --print sysroot)"/lib/rustlib/*/bin/gcc-ld/wasm-ld
} >/dev/null 2>&1

# Debian packages of each optional program that is not here, a program a line.
missing() {
    python3 -I python/halfwink/programs.py
    links_c || echo lld
}
apt_get() { DEBIAN_FRONTEND=noninteractive apt-get "$@"; }

python=.venv/bin/python
modules() { [ ! -x $python ] || $python -I python/halfwink/programs.py -m; }
pip="$python -m pip install --quiet --require-hashes -r requirements-tests.lock"
if [ -n "$(modules)" ]; then
    [ -n "${HALFWINK_NO_INSTALL:-}" ] || $pip || true
    [ -z "$(modules)" ] || echo "without modules of Python some tests are skipped: $pip" >&2
fi

need=$(missing | sort -u)
line="apt-get install -y $(echo "$need" | tr ' ' '\n' | sort -u | tr '\n' ' ')"

if [ -n "${HALFWINK_NO_INSTALL:-}" ] || [ "$(id -u)" -ne 0 ]; then
    [ -n "$need" ] || [ -n "$(modules)" ] || exit 0
    [ -z "$need" ] || echo "what needs more than is here will be skipped; to add it, run as root: $line" >&2
    exit 1
fi

wasm=wasm32-unknown-unknown
if command -v rustup >/dev/null && ! rustup target list --installed | grep -q $wasm; then
    rustup target add $wasm || echo "no $wasm: the purity check will be skipped" >&2
fi
# The compiler of policies in AssemblyScript. No package of Debian 12 has an npm that is new enough.
asc=assemblyscript@0.28.20
if command -v npm >/dev/null && ! command -v asc >/dev/null; then
    npm install --global --ignore-scripts --silent $asc ||
        echo "not added: $asc; policies in AssemblyScript will not be tested" >&2
fi

[ -n "$need" ] || exec test -z "$(modules)"
command -v apt-get >/dev/null || {
    echo "no apt-get here; on Debian 12 one would run: $line" >&2
    exit 1
}
# Services that come along are for tests to start, not for the machine.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi
apt_get update -q
# One package that this Debian does not have must not keep all others away.
# shellcheck disable=SC2086
apt_get install -y -q --no-install-recommends $need ||
    echo "$need" | while read -r packages; do
        apt_get install -y -q --no-install-recommends $packages </dev/null ||
            echo "not added: $packages" >&2
    done
[ -z "$(missing)$(modules)" ]
