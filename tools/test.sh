#!/bin/sh
# The test suite. Optional parts that are missing are skipped with a line that says how to add them;
# with HALFWINK_REQUIRE_ALL set they fail instead.
set -eu
cd "$(dirname "$0")/.."
full=${1:-}
bin=.venv/bin

say() { printf '\n== %s\n' "$1"; }

say "formatting, lints, types, floors, purity"
make --no-print-directory check

say "Rust"
cargo test --workspace --locked --quiet

if [ -d capture ]; then
    say "capture: recorder and load generator"
    cargo test --manifest-path capture/Cargo.toml --quiet
fi

say "Python and end to end"
if [ "$full" = --full ]; then
    "$bin/pytest" -q
else
    "$bin/pytest" -q -m "not slow"
fi

if [ "$full" = --full ]; then
    say "fuzzing, a minute each"
    tools/fuzz.sh 60
fi
