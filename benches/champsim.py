"""``python benches/champsim.py --champsim DIR``: halfwink beside ChampSim on the same records.

Ten recorded workloads are exported as ChampSim records. ChampSim plays them, configured like
benches/champsim/matched.toml (benches/champsim_config.py), and halfwink plays what its import makes
of them on that machine, in turn. Misses, mispredictions, cycles and host time are put side by side;
``--explain`` changes one thing after the other and shows what that moves. docs/champsim.md has the
results.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import champsim_build
import champsim_config
import peers
from halfwink import _core
from halfwink.errors import HalfwinkError
from halfwink.jobs import Job, pairs
from halfwink.library import root
from run import measured

WORKLOADS = [
    "nginx",
    "memcached",
    "redis",
    "postgresql",
    "sqlite",
    "gcc",
    "perl",
    "xalan",
    "gzip",
    "hmmer",
]
MACHINE = Path(__file__).parent / "champsim" / "matched.toml"
#: Of that machine.
CLOCK_HZ = 4e9
#: How close misses and mispredictions shall be.
CLOSE = 0.05
#: How much faster halfwink shall be.
FASTER = 40


@dataclass(frozen=True)
class Played:
    """What a simulator says of a trace; misses without those merged into an outstanding one."""

    instructions: int
    cycles: float
    l1i: int
    l1d: int
    l2: int
    llc: int
    mispredicted: int
    host_s: float

    @property
    def ipc(self) -> float:
        return self.instructions / self.cycles

    def per_thousand(self, count: int) -> float:
        return 1000 * count / self.instructions


def champsim(binary: Path, trace: Path, instructions: int) -> Played:
    """ChampSim on a file of records, from cold caches."""
    out = trace.with_suffix(".json")
    words = ["--warmup-instructions", "0", "--simulation-instructions", str(instructions)]
    seconds, text = peers.user_seconds([binary, *words, "--json", out, trace])
    if not out.exists():
        raise HalfwinkError(f"{binary}: {text.strip().splitlines()[-1]}")
    found: dict[str, Any] = json.loads(out.read_text())[0]["sim"]
    out.unlink()

    def misses(cache: str, *kinds: str) -> int:
        counts = (found[cache][kind] for kind in kinds)
        return sum(c["miss"][0] - c["mshr_merge"][0] for c in counts)

    core = found["cores"][0]
    # Direct jumps and calls miss only where their target was never seen: ours reads it.
    direct = ("BRANCH_DIRECT_JUMP", "BRANCH_DIRECT_CALL")
    wrong = sum(n for kind, n in core["mispredict"].items() if kind not in direct)
    return Played(
        core["instructions"],
        core["cycles"],
        misses("cpu0_L1I", "LOAD"),
        misses("cpu0_L1D", "LOAD", "WRITE"),
        misses("cpu0_L2C", "LOAD", "RFO", "TRANSLATION"),
        misses("LLC", "LOAD", "RFO", "TRANSLATION"),
        wrong,
        seconds,
    )


def ours(trace: Path, instructions: int, set: dict[str, str] | None = None) -> Played:
    """halfwink on an imported trace, from cold caches."""
    limit = {"instructions": str(instructions)}
    job = Job("chip", str(trace), str(MACHINE), "always-on", pairs(set), pairs(limit)).prepare()
    tables: dict[str, Any] = {}

    def play() -> float:
        tables.update(job.run(_core.RunControl()))
        return 0.0

    _, seconds = measured(play)
    run = {name: values[0] for name, _, values in tables["run"]}
    columns = (values for _, _, values in tables["counters"])
    counts = {(who, what): user + kernel for who, what, user, kernel in zip(*columns, strict=True)}

    def core(what: str) -> int:
        return counts["core0", what]

    return Played(
        run["instructions"],
        run["duration_s"] * CLOCK_HZ,
        core("l1i.misses"),
        core("l1d.misses"),
        core("l2.misses"),
        counts["l3", "misses"],
        core("branches.mispredicted"),
        seconds,
    )


def in_turn(
    first: Callable[[], Played], second: Callable[[], Played], times: int
) -> tuple[Played, Played, float]:
    """Both, so many times in turn; the last of each, and the median ratio of their host times."""
    both = [(first(), second()) for _ in range(times)]
    ratio = statistics.median(a.host_s / b.host_s for a, b in both)
    return *both[-1], ratio


def convert(workload: str, instructions: int, folder: Path) -> tuple[Path, Path]:
    """A recorded workload as records, and what the import makes of them."""
    records, trace = folder / f"{workload}.champsimtrace", folder / f"{workload}.hwt"
    # More than are played: ChampSim fetches ahead.
    limit = instructions + 1000
    recorded = str(root() / "workloads" / f"{workload}.hwt")
    _core.export_champsim(recorded, str(records), True, True, limit)
    _core.import_champsim(str(records), str(trace), workload, limit)
    return records, trace


#: Columns of the table: what, of which both, and how many digits.
COUNTS = ("l1i", "l1d", "l2", "llc", "mispredicted")


def row_of(workload: str, theirs: Played, own: Played, speed: float) -> dict[str, Any]:
    row: dict[str, Any] = {"workload": workload, "instructions": theirs.instructions}
    for name in COUNTS:
        row[f"{name}_champsim"] = getattr(theirs, name)
        row[f"{name}_halfwink"] = getattr(own, name)
    row |= {"ipc_champsim": round(theirs.ipc, 4), "ipc_halfwink": round(own.ipc, 4)}
    row |= {"ipc_ratio": round(own.ipc / theirs.ipc, 4), "speed_ratio": round(speed, 1)}
    return row


def deviation(row: dict[str, Any], name: str) -> float:
    """Share by which ours is above theirs."""
    return row[f"{name}_halfwink"] / max(row[f"{name}_champsim"], 1) - 1


def show(rows: list[dict[str, Any]]) -> None:
    heads = ["workload", "L1I", "L1D", "L2", "LLC", "MPKI", "LLC %", "MPKI %", "IPC", "speed"]
    print("misses and mispredictions per 1000 instructions, ChampSim's; %: ours above theirs;")
    print("IPC and speed: ours over theirs")
    form = "{:<11}" + "{:>7}" * 9
    print(form.format(*heads))
    for row in rows:
        thousands = row["instructions"] / 1000
        counts = [f"{row[f'{name}_champsim'] / thousands:.2f}" for name in COUNTS]
        shares = [f"{100 * deviation(row, name):+.1f}" for name in ("llc", "mispredicted")]
        ratios = [f"{row['ipc_ratio']:.2f}", f"{row['speed_ratio']:.0f}"]
        print(form.format(row["workload"], *counts, *shares, *ratios))
    for name, what in (("llc", "LLC misses"), ("mispredicted", "mispredictions")):
        far = [r["workload"] for r in rows if abs(deviation(r, name)) > CLOSE]
        print(f"{what} within 5 %: {', '.join(far) + ' not' if far else 'all'}")
    slow = [r["workload"] for r in rows if r["speed_ratio"] < FASTER]
    print(f"{FASTER} times ChampSim's speed: {', '.join(slow) + ' not' if slow else 'all'}")


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="") as out:
        table = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    print(path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--champsim", type=Path, required=True, help="a clone of ChampSim")
    parser.add_argument("--out", type=Path, default=Path("halfwink-out/champsim"))
    parser.add_argument("--instructions", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3, help="runs of each, in turn")
    parser.add_argument("--explain", action="store_true", help="change one thing after the other")
    parser.add_argument("workloads", nargs="*", default=list(WORKLOADS))
    asked = parser.parse_args()
    try:
        asked.out.mkdir(parents=True, exist_ok=True)
        builder = champsim_build.Builder(asked.champsim, asked.out)
        if asked.explain:
            import champsim_explain

            return champsim_explain.main(builder, asked.workloads, asked.instructions, asked.out)
        binary = builder.build(champsim_config.configuration(MACHINE, name="matched"))
        rows: list[dict[str, Any]] = []
        for workload in asked.workloads:
            records, trace = convert(workload, asked.instructions, asked.out)
            theirs, own, speed = in_turn(
                lambda r=records: champsim(binary, r, asked.instructions),
                lambda t=trace: ours(t, asked.instructions),
                asked.repeats,
            )
            rows.append(row_of(workload, theirs, own, speed))
            print(json.dumps(rows[-1]), file=sys.stderr)
            records.unlink()
        show(rows)
        write(asked.out / "champsim.csv", rows)
    except (HalfwinkError, subprocess.CalledProcessError, OSError) as error:
        print(f"champsim: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
