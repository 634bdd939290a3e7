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

# Instructions recorded, left out before the slice (in millions), and kept.
plan() {
    case $1 in
    nginx-1pct) echo "50 30 10" ;;
    nginx-*pct) echo "100 60 10" ;;
    sqlite) echo "100 60 10" ;;
    gcc) echo "300 150 5" ;;
    bzip2 | routino) echo "100 90 4" ;;
    minisat) echo "100 90 2" ;;
    *)
        case " $programs " in
        *" $1 "*) echo "100 90 5" ;;
        *) echo "200 120 10" ;;
        esac
        ;;
    esac
}

all="nginx apache memcached redis postgresql sqlite gcc gzip nginx-1pct nginx-10pct nginx-50pct $programs"
for name in ${*:-$all}; do
    set -- $(plan "$name")
    whole=$captures/$name.hwt
    [ -e "$whole" ] || "$halfwink" capture "$name" -o "$whole" --instructions "${1}000000"
    "$halfwink" trace slice "$whole" -o "$here/$name.hwt" --skip "${2}000000" --keep "${3}000000"
done
