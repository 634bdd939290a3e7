#!/bin/sh
# Tests under Miri, which sees what the language does not define: tools/miri.sh [CRATE...], default
# policy, engine and trace. 77: there is no Miri here.
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- policy engine trace
rustup +nightly component list --installed 2>/dev/null | grep -q '^miri' || {
    echo "Miri is missing; run: rustup toolchain add nightly --component miri" >&2
    exit 77
}
# Properties are tried a few times only: an instruction takes a hundred times as long here.
export PROPTEST_CASES=4 PROPTEST_DISABLE_FAILURE_PERSISTENCE=1
# Files are read: the machines and programs that tests use. Miri draws the last bit of what `ln` and its
# like give unless told not to; laws are the same on every machine here.
export MIRIFLAGS="${MIRIFLAGS:--Zmiri-disable-isolation -Zmiri-deterministic-floats}"
for crate; do
    echo "-- $crate"
    # Whole runs and C libraries (zstd, xz) are not for Miri.
    cargo +nightly miri test --locked --quiet -p "halfwink-$crate" --lib -- \
        --skip thousand --skip compress --skip written --skip archive
done
