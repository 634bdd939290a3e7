"""The live router under steps, ramps and bursts, for minutes: nothing may be lost or overtaken.

.venv/bin/python benches/router_soak.py [--seconds 600] [--peak-pps 60000] [--io ...] [--policy ...]

Prints a row for each round, and replays the log of the policy at the end. Ends with 1 if a frame
was lost or reordered.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import halfwink
from halfwink.bed import Bed, Live, description
from halfwink.cli.console import print_table
from halfwink.errors import HalfwinkError, RunError

#: A round: seconds, and shares of the peak from and to.
ROUND = (
    (3.0, 0.02, 0.02),
    (3.0, 1.0, 1.0),
    (2.0, 0.02, 0.02),
    (4.0, 0.02, 1.0),
    (4.0, 1.0, 0.02),
    (2.0, 0.35, 0.35),
    (2.0, 0.0, 0.0),
)
#: Frames that are due at once, by turns.
BURSTS = (1, 32, 128, 256)


def main() -> int:
    """Runs it; 0 if nothing was lost or overtaken."""
    told = arguments()
    try:
        rows, report, again = soak(told)
    except (HalfwinkError, RunError) as error:
        print(f"soak: {error}", file=sys.stderr)
        return 2
    differs = again.first_difference
    columns = ["seconds", "burst", "sent", "lost", "reordered", "duplicated", "p50 us", "p99 us"]
    print_table([(name, "right") for name in columns], rows)
    lost, reordered = (sum(int(row[n].replace(",", "")) for row in rows) for n in (3, 4))
    print(
        f"lost {lost}, reordered {reordered}; {report['changes']:,} changes of workers, "
        f"{report['moves']:,} entries moved; queues overflowed {report['overflowed']:,} times; "
        f"log of {again.lines:,} events replayed, {report['log_dropped']:,} dropped: "
        f"{'the same actions' if differs is None else f'differs at {differs}'}"
    )
    return int(lost > 0 or reordered > 0 or differs is not None)


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--peak-pps", type=float, default=60_000.0)
    parser.add_argument("--io", default="af-xdp")
    parser.add_argument("--policy", default="power-save-in-order")
    return parser.parse_args()


def soak(told: argparse.Namespace) -> tuple[list[list[str]], dict[str, Any], Any]:
    """Rounds until the time is over."""
    rows: list[list[str]] = []
    length = sum(part[0] for part in ROUND)
    rates = [(s, a * told.peak_pps, b * told.peak_pps) for s, a, b in ROUND]
    text = description(io=told.io, policy=told.policy)
    with tempfile.TemporaryDirectory() as folder, Bed() as bed:
        log = Path(folder) / "log.jsonl"
        with Live(bed, text, words=["--log", str(log)]) as live:
            bed.trial(pps=100, seconds=0.1)
            for number in range(max(1, round(told.seconds / length))):
                burst = BURSTS[number % len(BURSTS)]
                found = bed.trial(rates=rates, burst=burst, flows=256)
                rows.append(row(number * length, burst, found))
                print(" ".join(rows[-1]), file=sys.stderr, flush=True)
            report = live.result()
            again = halfwink.replay(log)
    return rows, report, again


def row(at: float, burst: int, found: dict[str, Any]) -> list[str]:
    """What a round came to."""
    counts = [f"{found[name]:,}" for name in ("sent", "lost", "reordered", "duplicated")]
    latency = [f"{found['latency_us'][name]:,.0f}" for name in ("p50", "p99")]
    return [f"{at:.0f}", str(burst), *counts, *latency]


if __name__ == "__main__":
    sys.exit(main())
