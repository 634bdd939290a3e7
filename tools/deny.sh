#!/bin/sh
# Licences, sources, bans and, where the databases of advisories can be had, known holes of all
# crates (deny.toml) and Python packages (requirements*.lock). 77: a tool is missing here.
set -eu
cd "$(dirname "$0")/.."
status=0
if command -v cargo-deny >/dev/null; then
    cargo deny --locked check --hide-inclusion-graph bans licenses sources
    cargo deny --locked check --hide-inclusion-graph advisories
else
    echo "cargo-deny is missing; run: cargo install --locked cargo-deny" >&2
    status=77
fi
if command -v pip-audit >/dev/null; then
    # A package that the database does not know fails, too: it was not audited.
    for lock in requirements*.lock; do
        pip-audit --strict --progress-spinner=off --disable-pip --require-hashes -r "$lock"
    done
else
    echo "pip-audit is missing; run: pipx install pip-audit" >&2
    status=77
fi
exit $status
