#!/bin/sh
# The test suite. As root it first adds what is missing (not with HALFWINK_NO_INSTALL). Tests whose
# requirements are missing are skipped, and the summary lists each with the command that installs it;
# with HALFWINK_REQUIRE_ALL set they fail instead.
#
#   tools/test.sh               what `make test` runs
#   tools/test.sh --full        and everything else, which takes hours
#   tools/test.sh --full PART   one part of that: fuzz, faults, miri, deny, bare-user, bare-root, or
#                               one of python/tests/shards.toml
#
# HALFWINK_SHARDS names parts of shards.toml that run with the suite (`touched`: the changed ones).
# HALFWINK_WORKERS is the number of processes that play Python's tests; default: CPUs, at most 2.
set -eu
cd "$(dirname "$0")/.."
bin=.venv/bin

say() { printf '\n== %s (%s s)\n' "$1" "$(($(date +%s) - begun))"; }
begun=$(date +%s)

# Checks that are not pytest's report here what they skipped.
HALFWINK_SKIPPED=$(mktemp)
export HALFWINK_SKIPPED
trap 'rm -f "$HALFWINK_SKIPPED"' EXIT
# Nobody edits the tree between two compilations of one run.
export CARGO_INCREMENTAL="${CARGO_INCREMENTAL:-0}"
# Thousands of processes import the package: compiled once, not by each.
unset PYTHONDONTWRITEBYTECODE

cpus=$(nproc)
workers=${HALFWINK_WORKERS:-$((cpus < 2 ? cpus : 2))}

python_tests() {
    # A file's tests share what they start; files do not. costs.py puts the dearest first, where the
    # plugin would put those of the most tests.
    # One word: pytest reads a word apart as a file before it has heard of the option.
    "$bin/pytest" -q -rs -n "$workers" --dist loadfile --no-loadscope-reorder "--shards=$1" ${2:-}
}

install() {
    say "what the suite uses"
    tools/install.sh || [ -z "${HALFWINK_REQUIRE_ALL:-}" ]
}

suite() {
    install
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
}

# Status 77: the part cannot run here, and has said how to add what it needs.
part() {
    say "$1"
    case $1 in
    fuzz) tools/fuzz.sh 60 ;;
    faults) HALFWINK_FAULT_SEEDS=1000 cargo test --locked --quiet -p halfwink-study --lib fault_tests ;;
    miri) tools/miri.sh || [ $? -eq 77 ] ;;
    deny) tools/deny.sh || [ $? -eq 77 ] ;;
    docs) make --no-print-directory docs && python_tests docs --costs ;;
    bare-user | bare-root) tools/bare.sh --only "${1#bare-}" || [ $? -eq 77 ] ;;
    *) python_tests "$1" --costs ;;
    esac
}

case "${1:-} ${2:-}" in
" ")
    suite
    # Last: the line that the run ends with is pytest's.
    say "Python and end to end"
    python_tests "${HALFWINK_SHARDS:-}"
    ;;
"--full ")
    suite
    for name in fuzz faults miri deny bare-user bare-root; do part "$name"; done
    # What builds the site, for its part.
    make --no-print-directory docs
    part all
    ;;
"--full "*)
    install
    part "$2"
    ;;
*)
    echo "usage: tools/test.sh [--full [PART]]" >&2
    exit 2
    ;;
esac
