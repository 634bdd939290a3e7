"""Routers head to head, in one command: the highest rate without loss, and what lower rates cost.

.venv/bin/python benches/router.py [--kinds kernel,testpmd-af-xdp,...] [--quick] [--json FILE]

Kinds run in turn, repeated; figures are medians. See docs/bed.md for what each column means.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median

from halfwink.bed import KINDS, QUICK, Kind, Plan, Report, measure, parse_kinds
from halfwink.cli.console import print_table
from halfwink.errors import HalfwinkError, RunError

#: Measured unless others are named; what is missing is said and left out.
DEFAULT = [name for name in KINDS if name != "none"]


def main() -> int:
    """Measures, prints the table; 0 unless nothing could be measured."""
    told = arguments()
    plan = QUICK if told.quick else Plan()
    wanted = {"queues": told.queues, "repeats": told.repeats, "size": told.size}
    wanted["common_pps"] = told.common_pps
    plan = replace(plan, **{name: value for name, value in wanted.items() if value})
    try:
        kinds = [with_options(kind, told) for kind in parse_kinds(told.kinds.split(","))]
        report = measure(kinds, plan, lambda line: print(line, file=sys.stderr, flush=True))
    except (HalfwinkError, RunError) as error:
        print(f"router: {error}", file=sys.stderr)
        return 2
    show(report)
    if told.json:
        told.json.write_text(json.dumps(asdict(report), indent=2) + "\n")
    return 0


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kinds", default=",".join(DEFAULT), help="some of " + ", ".join(KINDS))
    parser.add_argument("--quick", action="store_true", help="fewer and shorter trials")
    parser.add_argument("--queues", type=int, help="queues of the ports (1)")
    parser.add_argument(
        "--workers", type=int, default=0, help="threads that forward (halfwink 2, testpmd 1)"
    )
    parser.add_argument("--cpus", default="", help="CPUs of user-space routers, as 0,1 (all)")
    parser.add_argument("--repeats", type=int, help="of everything (5, quick 2)")
    parser.add_argument(
        "--common-pps", type=float, help="loads are shares of this (the lowest of the maxima)"
    )
    parser.add_argument("--size", help="of frames without check sequence (60), or imix")
    parser.add_argument("--policy", default="power-save-in-order", help="of halfwink's router")
    parser.add_argument("--json", type=Path, help="file for all results")
    return parser.parse_args()


def with_options(kind: Kind, told: argparse.Namespace) -> Kind:
    """The kind as asked for."""
    cpus = tuple(int(cpu) for cpu in told.cpus.split(",") if cpu)
    return replace(kind, workers=told.workers, cpus=cpus, policy=told.policy)


def highest(rates: list[float], generator_pps: float) -> str:
    """The highest rate, marked if the generator could not send more."""
    found = median(rates)
    return f"{'>= ' if found >= generator_pps else ''}{found / 1e3:,.1f}"


def show(report: Report) -> None:
    """One table, and what could not be measured."""
    rows: list[list[str]] = []
    ruled: list[int] = []
    for kind, rates in report.maxima.items():
        own = [row for row in report.rows if row["kind"] == kind]
        idle = next((row["idle_cpu_pct"] for row in own if row["load"] == "idle"), None)
        for number, row in enumerate(r for r in own if r["load"] != "idle"):
            first = number == 0
            rows.append(
                [
                    kind if first else "",
                    highest(rates, report.generator_pps) if first else "",
                    "-" if idle is None or not first else f"{idle:.1f}",
                    row["load"],
                    f"{row['sent_pps'] / 1e3:,.1f}",
                    f"{row['cpu_s_per_mpkt']:,.2f}",
                    f"{row['cpu_error_s_per_mpkt'] or 0:,.2f}",
                    f"{row['machine_cpu_s_per_mpkt']:,.2f}",
                    *("-" if row[k] is None else f"{row[k]:,.1f}" for k in ("p50_us", "p99_us")),
                    f"{row['loss']:.1e}" if row["loss"] else "0",
                    f"{row['reordered']:,.0f}",
                ]
            )
        ruled.append(len(rows) - 1)
    heads = ["max kpps", "idle CPU %", "load", "kpps", "CPU s/Mpkt", "+-", "machine CPU s/Mpkt"]
    heads += ["p50 us", "p99 us", "loss", "reordered"]
    print_table([("router", "left"), *((h, "right") for h in heads)], rows, ruled=ruled)
    for kind in report.maxima:
        wrong = sum(row.get("bad_headers", 0) for row in report.rows if row["kind"] == kind)
        if wrong:
            print(f"{kind}: {wrong:,} frames with wrong IPv4 header checksums", file=sys.stderr)
    for kind, why in report.failed.items():
        print(f"{kind}: not measured: {why}", file=sys.stderr)
    print(
        f"medians of {report.plan['repeats']}; loads in shares of {report.common_pps / 1e3:,.1f} "
        f"kpps; no loss: below {report.plan['loss']:.0e}; CPU less that "
        "of `none`, the generator straight into the sink",
        file=sys.stderr,
    )


if __name__ == "__main__":
    sys.exit(main())
