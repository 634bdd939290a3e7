#!/bin/sh
# Runs fuzz targets for a while each: tools/fuzz.sh [SECONDS [TARGET...]], default 60 and all.
# Its status says whether all of them ended well.
set -eu
cd "$(dirname "$0")/../fuzz"
seconds=${1:-60}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- trace_bytes trace_sections champsim descriptions gating dataplane routes \
    request_log request_counts cdf steer event_log resctrl announce \
    line_sets preheat sync_frames flow_files chakra block_loads nbd
rustup toolchain list | grep -q nightly || {
    echo "fuzzing needs a nightly Rust toolchain; run: rustup toolchain add nightly" >&2
    exit 1
}
command -v cargo-fuzz >/dev/null || cargo install --quiet --locked cargo-fuzz
# The protocol alone builds in a minute, the worlds do not.
features=
[ "$*" != nbd ] || features="--no-default-features --features nbd"
said=$(mktemp)
trap 'rm -f "$said"' EXIT
failed=
for target; do
    echo "-- $target"
    mkdir -p "corpus/$target"
    # What is found is kept in the first folder; others are only read: what real tools wrote.
    written=
    case $target in
        chakra) written=../workloads/flows/data-parallel-8 ;;
        nbd) written=../crates/live-block/tests/corpus ;;
    esac
    # Not through a pipe, whose status would be that of its last program.
    # shellcheck disable=SC2086
    if cargo +nightly fuzz run --fuzz-dir . $features "$target" "corpus/$target" $written -- \
        -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 \
        >"$said" 2>&1; then
        tail -n 8 "$said"
    else
        tail -n 120 "$said"
        failed="$failed $target"
    fi
done
[ -z "$failed" ] || {
    echo "fuzzing failed:$failed" >&2
    exit 1
}
