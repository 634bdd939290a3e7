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
    line_sets preheat sync_frames flow_files nbd; do
    echo "-- $target"
    # Conversations of real clients are where it begins.
    case $target in
        nbd) mkdir -p corpus/nbd && cp ../crates/live-block/tests/corpus/* corpus/nbd/ ;;
    esac
    cargo +nightly fuzz run --fuzz-dir . "$target" -- -max_total_time="$seconds" -timeout=20 \
        -rss_limit_mb=4096 -print_final_stats=1 2>&1 | tail -n 8
done
