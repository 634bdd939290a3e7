#!/bin/sh
# Changes the code in small ways and sees which changes no test minds: tools/mutants.sh [CRATE...],
# default units, engine and policy. What survived is in target/mutants/CRATE/mutants.out/missed.txt.
# SHARD=3/20: of every twenty changes the fourth, for what takes hours (engine 1.5, policy 6).
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- units engine policy
command -v cargo-mutants >/dev/null || cargo install --quiet --locked cargo-mutants
for crate; do
    mkdir -p "target/mutants/$crate"
    # 2: some survived; their number is what this is for.
    cargo mutants --package "halfwink-$crate" --output "target/mutants/$crate" \
        --timeout-multiplier 4 --minimum-test-timeout 30 --no-shuffle \
        ${SHARD:+--shard "$SHARD" --sharding round-robin} || [ $? -eq 2 ]
    total=$(wc -l <"target/mutants/$crate/mutants.out/caught.txt")
    missed=$(wc -l <"target/mutants/$crate/mutants.out/missed.txt")
    echo "$crate: $total killed, $missed survived"
done
