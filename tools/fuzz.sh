#!/bin/sh
# Runs every fuzz target for a while (seconds, default 60).
set -eu
cd "$(dirname "$0")/../fuzz"
seconds=${1:-60}
rustup toolchain list | grep -q nightly || {
    echo "fuzzing needs a nightly Rust toolchain; run: rustup toolchain add nightly" >&2
    exit 1
}
command -v cargo-fuzz >/dev/null || cargo install --quiet --locked cargo-fuzz
for target in trace_bytes trace_sections champsim descriptions gating dataplane routes \
    request_log request_counts cdf steer event_log resctrl announce \
    line_sets preheat sync_frames flow_files chakra nbd; do
    echo "-- $target"
    mkdir -p "corpus/$target"
    set -- "corpus/$target"
    case $target in
        # What is found is kept in the first folder; others are only read: what real tools wrote.
        chakra) set -- "$@" ../workloads/flows/data-parallel-8 ;;
        nbd) set -- "$@" ../crates/live-block/tests/corpus ;;
    esac
    cargo +nightly fuzz run --fuzz-dir . "$target" "$@" -- -max_total_time="$seconds" -timeout=20 \
        -rss_limit_mb=4096 -print_final_stats=1 2>&1 | tail -n 8
done
