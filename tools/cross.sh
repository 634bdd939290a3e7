#!/bin/sh
# The native module, checked for systems that this machine cannot run: Linux
# on ARM and macOS. C code is compiled by zig (PyPI: `ziglang`, `cargo-zigbuild`), which has the
# headers of both; rustup adds the targets.
#
#   tools/cross.sh [TARGET...]
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- aarch64-unknown-linux-gnu aarch64-apple-darwin

for tool in rustup cargo-zigbuild; do
    command -v "$tool" >/dev/null || {
        echo "cross: $tool is missing; rustup is at https://rustup.rs, run the rest by: make cross" >&2
        exit 1
    }
done
rustup --quiet target add "$@"
for target; do
    cargo-zigbuild check --quiet --locked --target "$target" -p halfwink-py \
        --features extension-module
    echo "$target: compiles"
done
