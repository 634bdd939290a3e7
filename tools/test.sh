#!/bin/sh
# The test suite. As root it first adds what is missing (not with HALFWINK_NO_INSTALL); what is
# missing then is skipped with a line that says how to add it, and named again at the end. With
# HALFWINK_REQUIRE_ALL set it fails instead.
set -eu
cd "$(dirname "$0")/.."
full=${1:-}
bin=.venv/bin

say() { printf '\n== %s\n' "$1"; }

# Where what is no test of pytest's tells that it was skipped.
HALFWINK_SKIPPED=$(mktemp)
export HALFWINK_SKIPPED
trap 'rm -f "$HALFWINK_SKIPPED"' EXIT

say "what the suite uses"
tools/install.sh || [ -z "${HALFWINK_REQUIRE_ALL:-}" ]

say "formatting, lints, types, floors, purity"
make --no-print-directory check

say "Rust"
cargo test --workspace --locked --quiet

say "Rust: the fuzzer's entry points"
# Its library is in C++.
if command -v c++ >/dev/null; then
    # With the workspace's build of what both use.
    CARGO_TARGET_DIR="$PWD/target" cargo check --manifest-path fuzz/Cargo.toml --locked --quiet
else
    [ -z "${HALFWINK_REQUIRE_ALL:-}" ]
    echo "skipped: no C++ compiler; halfwink doctor has the line that adds one" >&2
fi

if [ -d capture ]; then
    say "capture: recorder and load generator"
    cargo test --manifest-path capture/Cargo.toml --quiet
fi

if [ "$full" = --full ]; then
    say "fuzzing, a minute each"
    tools/fuzz.sh 60
    say "a thousand seeds of faults in each world"
    HALFWINK_FAULT_SEEDS=1000 cargo test --locked --quiet -p halfwink-study --lib fault_tests
    # 77: it is not here, and has said how to add it.
    say "what the language does not define"
    tools/miri.sh || [ $? -eq 77 ]
    say "licences, sources and known holes of what is depended on"
    tools/deny.sh || [ $? -eq 77 ]
    say "both commands on a bare Debian 12"
    # 77: it cannot be made here, and has said why.
    tools/bare.sh || [ $? -eq 77 ]
fi

# Last: the line that it ends with is the suite's.
say "Python and end to end"
if [ "$full" = --full ]; then
    "$bin/pytest" -q -rs
else
    "$bin/pytest" -q -rs -m "not slow"
fi
