#!/bin/sh
# Notes of a release: the section of a version in CHANGELOG.md. Fails if Cargo.toml has another
# version, or the section is missing or empty.
#
#   tools/release_notes.sh 0.2.0
set -eu
[ $# -eq 1 ] || { sed -n 's/^# *//p' "$0" >&2; exit 2; }
cd "$(dirname "$0")/.."
grep -qx "version = \"$1\"" Cargo.toml || {
    echo "Cargo.toml: expected version = \"$1\", as the tag has it" >&2
    exit 1
}
notes=$(awk -v version="$1" '/^## /{ is_own = $2 == version; next } is_own' CHANGELOG.md)
[ -n "$notes" ] || {
    echo "CHANGELOG.md: expected a section ## $1 with notes" >&2
    exit 1
}
printf '%s\n' "$notes"
