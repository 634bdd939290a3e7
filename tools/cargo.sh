#!/bin/sh
# Runs a cargo command, and once more if cargo could not even ask rustc what it is. On some machines
# with many builds at a time that question, which cargo pipes to rustc, comes back garbled, and cargo
# remembers the failure.
set -u
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
"$@" 2>"$errors"
status=$?
cat "$errors" >&2
if [ $status -ne 0 ] && grep -q 'failed to run `rustc` to learn about' "$errors"; then
    echo "cargo could not ask rustc what it is; once more" >&2
    rm -f target/.rustc_info.json capture/target/.rustc_info.json
    "$@"
    status=$?
fi
exit $status
