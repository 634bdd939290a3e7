#!/bin/sh
# Makes workloads/host again: the programs of workloads/programs/host.c as one file that runs on
# every x86-64 Linux, and a recording of each, stepped on this machine. Minutes.
set -eu
cd "$(dirname "$0")"
gcc -O2 -std=gnu11 -Wall -Wextra -Werror -DALONE -ffreestanding -nostdlib -static -no-pie \
    -fno-stack-protector -fcf-protection=none -s -Wl,--build-id=none -o programs ../programs/host.c
"${PYTHON:-../../.venv/bin/python}" -m halfwink.calibrate.host "$PWD"
