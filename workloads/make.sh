#!/bin/sh
# Records the shipped workloads again: captures each service, then cuts a slice out of its middle with
# the cache lines that were in use before. The same guest gives the same files, to the bit.
#
#   workloads/make.sh [CAPTURES] [WORKLOAD...]
#
# CAPTURES is a folder for the whole recordings (some 200 MB); they are reused if they are there.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
halfwink="$here/../.venv/bin/halfwink"
captures=${1:-$here/../.cache/captures}
[ $# -gt 0 ] && shift
mkdir -p "$captures"

# Recorded from their main phase on: see record_after_s in python/halfwink/capture/workloads.py.
programs="perl bzip2 lemon gnugo hmmer sjeng quantum x264 iverilog routino xalan gromacs meep glpk"
programs="$programs povray calculix pocketsphinx lattice minisat xz"
# From source, three slices each: of one recording, or of three.
sliced="lbm lbm-2 lbm-3 fdtd fdtd-2 fdtd-3 mcf mcf-2 mcf-3"

# Instructions recorded, left out before the slice (in millions), and kept; which recording, if not that
# of the same name.
plan() {
    case $1 in
    nginx-1pct) echo "50 30 10" ;;
    nginx-*pct) echo "100 60 10" ;;
    apache-cgi) echo "100 80 8" ;;
    java-shop) echo "100 85 10" ;;
    sqlite) echo "100 60 10" ;;
    gcc) echo "300 150 5" ;;
    bzip2 | routino) echo "100 90 4" ;;
    minisat) echo "100 90 2" ;;
    lbm | fdtd) echo "700 90 5" ;;
    lbm-2 | fdtd-2) echo "700 310 5 ${1%-2}" ;;
    lbm-3 | fdtd-3) echo "700 530 5 ${1%-3}" ;;
    # A tick of the guest falls into every 4 million: a shorter slice may have no kernel in it.
    mcf*) echo "100 90 4" ;;
    syscalls* | tcp-stream) echo "100 90 5" ;;
    null-blk*) echo "8 2 4" ;;
    *)
        case " $programs " in
        *" $1 "*) echo "100 90 5" ;;
        *) echo "200 120 10" ;;
        esac
        ;;
    esac
}

all="nginx apache memcached redis postgresql sqlite gcc gzip nginx-1pct nginx-10pct nginx-50pct $programs $sliced"
all="$all syscalls syscalls-getpid tcp-stream apache-cgi java-shop"
for queues in one many; do
    all="$all null-blk-$queues null-blk-$queues-other null-blk-$queues-alone"
done
for name in ${*:-$all}; do
    set -- $(plan "$name")
    whole=$captures/${4:-$name}.hwt
    [ -e "$whole" ] || "$halfwink" capture "${4:-$name}" -o "$whole" --instructions "${1}000000"
    "$halfwink" trace slice "$whole" -o "$here/$name.hwt" --skip "${2}000000" --keep "${3}000000"
done
