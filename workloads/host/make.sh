#!/bin/sh
# Makes workloads/host again: the programs of workloads/programs/host.c and held_out.c as two files
# that run on every x86-64 Linux, and a recording of each program, stepped on this machine. Minutes.
set -eu
cd "$(dirname "$0")"
flags="-O2 -std=gnu11 -Wall -Wextra -Werror -DALONE -ffreestanding -nostdlib -static -no-pie
    -fno-stack-protector -fcf-protection=none -s -Wl,--build-id=none"
# shellcheck disable=SC2086 # several words
gcc $flags -o programs ../programs/host.c
# No loop becomes a call of memset or memcpy, which there is none of.
# shellcheck disable=SC2086 # several words
gcc $flags -fno-tree-loop-distribute-patterns -o held-out/programs ../programs/held_out.c
"${PYTHON:-../../.venv/bin/python}" -m halfwink.calibrate.host "$PWD" "$PWD/held-out"
