#!/bin/sh
# Stops with one clear line if something is missing that the build cannot add by itself.
set -eu

missing() {
    echo "halfwink needs $1; run: $2" >&2
    exit 1
}

command -v python3 >/dev/null || missing "Python 3.11 or newer" "apt-get install -y python3 python3-venv"
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    missing "Python 3.11 or newer (found $(python3 -V))" "apt-get install -y python3 python3-venv"
python3 -c 'import venv, ensurepip' 2>/dev/null ||
    missing "Python's venv module" "apt-get install -y python3-venv"
command -v cargo >/dev/null ||
    missing "a Rust toolchain (stable, 1.90 or newer)" "the installer of rustup.rs"
command -v cc >/dev/null || missing "a C compiler, for the compression libraries" "apt-get install -y gcc libc6-dev"
