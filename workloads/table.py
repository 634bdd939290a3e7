"""Prints the table of programs in docs/workloads.md: computed here, nothing typed in but kinship.

.venv/bin/python workloads/table.py
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import polars as pl

import halfwink as hw

HERE = Path(__file__).resolve().parent
HALFWINK = HERE.parent / ".venv/bin/halfwink"

# Compiled from workloads/programs by the guest's compiler.
OWN = "gcc-12"

# Name: package in Debian, what it does, and the program of SPEC CPU2006 that it is kin to.
PROGRAMS = {
    "perl": ("perl", "text", "perlbench (the same program)"),
    "bzip2": ("bzip2", "compression", "bzip2 (the same)"),
    "gcc": ("gcc-12", "compiler", "gcc (the same)"),
    "lemon": ("liblemon-utils", "network simplex", "mcf (the same method)"),
    "gnugo": ("gnugo", "Go", "gobmk (the same program)"),
    "hmmer": ("hmmer", "protein search", "hmmer (the same, later)"),
    "sjeng": ("sjeng", "chess", "sjeng (the same family)"),
    "quantum": ("libquantum-dev", "quantum computer", "libquantum (the same library)"),
    "x264": ("x264", "video encoder", "h264ref (the same format)"),
    "iverilog": ("iverilog", "discrete events", "omnetpp (the same kind)"),
    "routino": ("routino", "ways on a map", "astar (the same kind)"),
    "xalan": ("xalan", "XML to HTML", "xalancbmk (the same)"),
    "gromacs": ("gromacs", "molecules", "gromacs (the same)"),
    "meep": ("meep", "Maxwell's equations", "GemsFDTD (the same method)"),
    "glpk": ("glpk-utils", "linear program", "soplex (the same method)"),
    "povray": ("povray", "ray tracing", "povray (the same)"),
    "calculix": ("calculix-ccx", "finite elements", "calculix (the same)"),
    "pocketsphinx": ("pocketsphinx", "speech", "sphinx3 (the same family)"),
    "lattice": ("python3-numpy", "lattice Boltzmann", "lbm (the same method)"),
    "lbm": (OWN, "lattice Boltzmann", "lbm (the same method and grid)"),
    "lbm-2": (OWN, "later", "lbm"),
    "lbm-3": (OWN, "later", "lbm"),
    "fdtd": (OWN, "Maxwell's equations", "GemsFDTD (the same method)"),
    "fdtd-2": (OWN, "later", "GemsFDTD"),
    "fdtd-3": (OWN, "later", "GemsFDTD"),
    "mcf": (OWN, "network simplex", "mcf (the same method)"),
    "mcf-2": (OWN, "later", "mcf"),
    "mcf-3": (OWN, "later", "mcf"),
    "minisat": ("minisat", "satisfiability", "-"),
    "xz": ("xz-utils", "compression", "-"),
    "gzip": ("gzip", "compression", "-"),
    "sqlite": ("sqlite3", "database", "-"),
}
TECHNIQUES = ["always-on", "tap", "oracle"]


def info(name: str) -> dict:
    """What a slice says of itself."""
    command = [HALFWINK, "trace", "info", HERE / f"{name}.hwt", "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def waits(results: hw.Results, name: str) -> float:
    """Share of the time in which the core is stalled on main memory, when never gated."""
    core = results.ledger.filter(
        (pl.col("workload") == name)
        & (pl.col("technique") == "always-on")
        & (pl.col("component") == "core0")
    )
    on_memory = (pl.col("state") == "stalled") & (pl.col("cause") == "memory-stall")
    return core.filter(on_memory)["time_s"].sum() / core["time_s"].sum()


# Programs that wait for memory, before and since they are ours, and what calls the kernel.
MISSES = ["lattice", "lbm", "lbm-2", "lbm-3", "meep", "fdtd", "fdtd-2", "fdtd-3", "lemon", "mcf"]
MISSES += ["mcf-2", "mcf-3", "syscalls", "syscalls-getpid", "apache", "apache-cgi", "java-shop"]


def print_misses() -> None:
    """Misses per 1000 instructions by `halfwink trace caches`, in its default shapes: ev6-1's."""
    print("| name | kernel | L1 instruction | L1 data | last level |\n|---|---|---|---|---|")
    for name in MISSES:
        totals = info(name)["totals"]
        file = str(HERE / f"{name}.hwt")
        command = [HALFWINK, "trace", "caches", file, "--json"]
        found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        thousands = totals["instructions"] / 1000
        fetches = [row for row in found if row["kind"] == "fetch"]
        others = [row for row in found if row["kind"] != "fetch"]
        cells = [
            f"`{name}`",
            f"{totals['kernel_instructions'] / totals['instructions']:.1%}",
            f"{sum(row['l1_misses'] for row in fetches) / thousands:.2f}",
            f"{sum(row['l1_misses'] for row in others) / thousands:.2f}",
            f"{sum(row['ll_misses'] for row in found) / thousands:.2f}",
        ]
        print(f"| {' | '.join(cells)} |")


def main() -> int:
    """Prints the tables; the first with the most memory-bound on top."""
    names = list(PROGRAMS)
    wide = hw.compare(names, machine="ev6-1", techniques=TECHNIQUES)
    narrow = hw.compare(names, machine="in-order-1", techniques=["always-on"])
    always = pl.col("technique") == "always-on"
    misses = wide.counters.filter(
        always & (pl.col("component") == "l3") & (pl.col("counter") == "misses")
    )
    rows = []
    for name, (package, what, kin) in PROGRAMS.items():
        header = info(name)["header"]
        version = {p["name"]: p["version"] for p in header["packages"]}[package]
        mine = pl.col("workload") == name
        by_technique = {r["technique"]: r for r in wide.runs.filter(mine).iter_rows(named=True)}
        base = by_technique["always-on"]
        other = narrow.runs.filter(mine).row(0, named=True)
        missed = misses.filter(mine).select(pl.col("user") + pl.col("kernel")).sum().item()
        cells = [
            f"`{name}`",
            what,
            f"`{header['command'][0]}.c`, {package} {version}"
            if package == OWN and name != "gcc"
            else f"{package} {version}",
            kin,
            f"{base['kernel_instructions'] / base['instructions']:.1%}",
            f"{base['ipc']:.2f}",
            f"{1000 * missed / base['instructions']:.2f}",
            f"{base['stalled_share']:.1%}",
            f"{waits(wide, name):.1%}",
            f"{other['stalled_share']:.1%}",
            f"{waits(narrow, name):.1%}",
            f"{by_technique['tap']['core_energy_saving_pct']:.2f} %",
            f"{by_technique['oracle']['core_energy_saving_pct']:.2f} %",
        ]
        rows.append((waits(wide, name), cells))
    heads = (
        "name | does | Debian package | kin in SPEC CPU2006 | kernel | IPC | L3 misses per 1000"
        " | stalled, ev6-1 | on memory | stalled, in-order-1 | on memory | TAP saves | oracle saves"
    )
    print(f"| {heads} |\n|{'---|' * 13}")
    for _, cells in sorted(rows, key=lambda row: -row[0]):
        print(f"| {' | '.join(cells)} |")
    print()
    print_misses()
    return 0


if __name__ == "__main__":
    sys.exit(main())
