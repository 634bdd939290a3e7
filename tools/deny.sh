#!/bin/sh
# Licences, sources, bans and, where the database of advisories can be had, known holes of all that
# is depended on: deny.toml. 77: there is no cargo-deny here.
set -eu
cd "$(dirname "$0")/.."
command -v cargo-deny >/dev/null || {
    echo "cargo-deny is missing; run: cargo install --locked cargo-deny" >&2
    exit 77
}
cargo deny --locked check --hide-inclusion-graph bans licenses sources
cargo deny --locked check --hide-inclusion-graph advisories
