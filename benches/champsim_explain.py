"""``benches/champsim.py --explain``: one thing is changed after the other, on one side.

Each line says what it moves: LLC misses, mispredictions and IPC of ours over ChampSim's, beside
those of the matched pair.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import champsim_config
from champsim import MACHINE, Played, champsim, convert, ours, write
from champsim_build import Builder


@dataclass(frozen=True)
class Change:
    """What is changed: keys of ChampSim's core or first-level caches, or values of our machine."""

    what: str
    theirs: dict[str, object] = field(default_factory=dict)
    first: dict[str, object] = field(default_factory=dict)
    ours: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.what.replace(" ", "-").replace(",", "").replace(":", "").lower()


CHANGES = (
    Change("matched"),
    Change("ChampSim: first levels told two look-ups", first={"max_tag_check": 2}),
    Change("ChampSim: first levels told 1 cycle", first={"hit_latency": 1}),
    Change("ChampSim: a code miss at a time", first={"mshr_size": 1}),
    Change(
        "ChampSim: its own bimodal and targets", {"branch_predictor": "bimodal", "btb": "basic_btb"}
    ),
    Change("halfwink: bimodal too", ours={"branch.predictor": "bimodal"}),
    Change("halfwink: branches in any order", ours={"core.branches_in_order": "false"}),
    Change("halfwink: lines pass no stages", ours={"fetch.depth_cycles": "0"}),
    Change("halfwink: redirected after 1 cycle", ours={"branch.btb.redirect_cycles": "1"}),
    Change("halfwink: half the queue of fetch", ours={"fetch.queue": "8"}),
    Change("halfwink: two lines a cycle", ours={"fetch.lines_per_cycle": "2"}),
    Change("halfwink: a width of 6", ours={"core.width": "6"}),
    Change(
        "halfwink: refill as of EV6", ours={"core.refill_cycles": "7", "fetch.depth_cycles": "2"}
    ),
    Change("halfwink: first level 4 cycles", ours={"l1d.latency_cycles": "4"}),
    Change("halfwink: second level 1 ns sooner", ours={"l2.latency_ns": "3.0"}),
)


def main(builder: Builder, workloads: list[str], instructions: int, out: Path) -> int:
    """Prints and writes the table."""
    pairs = {w: convert(w, instructions, out) for w in workloads}
    plain = builder.build(champsim_config.configuration(MACHINE, name="matched"))
    before = {
        w: (champsim(plain, r, instructions), ours(t, instructions)) for w, (r, t) in pairs.items()
    }
    rows: list[dict[str, object]] = []
    print(f"{'changed':<42}{'workload':<11}{'LLC':>8}{'MPKI':>8}{'IPC':>8}")
    for change in CHANGES:
        binary = plain
        if change.theirs or change.first:
            config = champsim_config.configuration(MACHINE, name=change.name, **change.theirs)
            # Misses at a time are those of code alone.
            caches = ("L1I",) if "mshr_size" in change.first else ("L1I", "L1D")
            for cache in caches:
                config[cache] |= change.first
            binary = builder.build(config)
        for workload, (records, trace) in pairs.items():
            theirs, own = before[workload]
            if binary is not plain:
                theirs = champsim(binary, records, instructions)
            if change.ours:
                own = ours(trace, instructions, change.ours)
            ratios = [ratio(own, theirs, of) for of in (llc, wrong, ipc)]
            print(f"{change.what:<42}{workload:<11}" + "".join(f"{r:>8.3f}" for r in ratios))
            names = ("llc_ratio", "mispredicted_ratio", "ipc_ratio")
            shown = dict(zip(names, (round(r, 4) for r in ratios), strict=True))
            rows.append({"changed": change.what, "workload": workload, **shown})
    write(out / "champsim-explained.csv", rows)
    for records, _ in pairs.values():
        records.unlink()
    return 0


def ratio(own: Played, theirs: Played, of: Callable[[Played], float]) -> float:
    return of(own) / of(theirs)


def llc(played: Played) -> float:
    return float(played.llc)


def wrong(played: Played) -> float:
    return float(played.mispredicted)


def ipc(played: Played) -> float:
    return played.ipc
