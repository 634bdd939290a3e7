#!/bin/sh
# Runs fuzz targets for a while each: tools/fuzz.sh [SECONDS [TARGET...]], default 60 and all.
# Its status says whether all of them ended well. What is found new stays in fuzz/corpus; what is
# worth keeping goes to fuzz/kept, which `cargo test -p halfwink-fuzz-targets` plays each time.
set -eu
cd "$(dirname "$0")/../fuzz"
seconds=${1:-60}
[ $# -eq 0 ] || shift
# Each target, and the feature that builds no more than it tests.
feature() {
    awk -v target="\"$1\"" '$1 == "name" { name = $3 }
        $1 == "required-features" && name == target { gsub(/[]["]/, "", $3); print $3 }' Cargo.toml
}
# shellcheck disable=SC2046
[ $# -gt 0 ] || set -- $(sed -n 's/^path = "fuzz_targets\/\(.*\)\.rs"/\1/p' Cargo.toml)
rustup toolchain list | grep -q nightly || {
    echo "fuzzing needs a nightly Rust toolchain; run: rustup toolchain add nightly" >&2
    exit 1
}
command -v cargo-fuzz >/dev/null || cargo install --quiet --locked cargo-fuzz
said=$(mktemp)
trap 'rm -f "$said"' EXIT
failed=
for target; do
    feature=$(feature "$target")
    [ -n "$feature" ] || {
        echo "$target: no such target; there are: $(ls fuzz_targets)" >&2
        exit 2
    }
    echo "-- $target"
    mkdir -p "corpus/$target"
    # What is found is kept in the first folder; others are only read.
    written=
    [ "$target" != chakra ] || written=../workloads/flows/data-parallel-8
    # Not through a pipe, whose status would be that of its last program.
    # shellcheck disable=SC2086
    if cargo +nightly fuzz run --fuzz-dir . --no-default-features --features "$feature" \
        "$target" "corpus/$target" "kept/$target" $written -- \
        -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 \
        >"$said" 2>&1; then
        # Edges that were reached (cov), then executions and what they took.
        grep -aE '[[:space:]]DONE[[:space:]]' "$said" || true
        tail -n 6 "$said"
    else
        tail -n 120 "$said"
        failed="$failed $target"
    fi
done
[ -z "$failed" ] || {
    echo "fuzzing failed:$failed" >&2
    exit 1
}
