"""The ledger of a report: of each run what its components took, and of each of these why. Energies
and times are modelled. Where the watts of a machine are assumed, energies are shares."""

from __future__ import annotations

from typing import Any

import polars as pl

from halfwink.results.relate import IDENTITY
from halfwink.results.results import Results
from halfwink.results.sources import is_assumed, source_of
from halfwink.results.summary import energy, of_baseline

#: Runs, at most, that are told apart; of more, those of a workload and technique are added up.
RUNS = 60
WHY = ("state", "mode", "cause")


def ledger(results: Results) -> list[dict[str, Any]]:
    """Returns runs with the origins of their times and energies, and their components with their
    rows, each level with its sums, most energy first.

    Components of a kind (all cores) are added up; so are runs, where there are more than `RUNS`.
    """
    rows = results.ledger.with_columns(
        pl.col("component")
        .str.replace(r"^core\d+$", "cores")
        .str.replace(r"^os\d+$", "OS cores")
        .str.replace(r"([a-z]{2,})-?\d+$", "${1}")
        .alias("component")
    )
    of = list(IDENTITY) if results.runs.height <= RUNS else ["workload", "technique"]
    sums = [pl.col("time_s").sum(), pl.col("energy_j").sum()]
    rows = rows.group_by(*of, "component", *WHY).agg(*sums)
    rows = rows.sort("energy_j", "time_s", *WHY, descending=[True, True, False, False, False])
    runs: list[dict[str, Any]] = []
    for row in results.runs.unique(of, maintain_order=True, keep="first").iter_rows(named=True):
        own = rows
        for name in of:
            own = own.filter(pl.col(name) == row[name])
        title = " on ".join(row[name] for name in of[:-1] if name != "set" and row[name])
        if row.get("set") and "set" in of:
            title += f" ({row['set']})"
        assumed = f"{of_baseline(row)} % of the baseline's energy" if is_assumed(row) else None
        origins = {
            f"{name}_source": source_of(f"{name}_{unit}", row | {f"{name}_{unit}": 0.0})
            for name, unit in (("time", "s"), ("energy", "j"))
        }
        runs.append({"title": f"{row['technique']}: {title}", **origins, **_level(own, assumed)})
    return runs


def _level(rows: pl.DataFrame, assumed: str | None) -> dict[str, Any]:
    """A run's energy, and its components; where watts are ``assumed``, that stands for joules."""
    whole = _number(rows["energy_j"].sum())
    parts: list[tuple[float, dict[str, Any]]] = []
    for (name,), own in rows.group_by(["component"], maintain_order=True):
        joules = _number(own["energy_j"].sum())
        inner = [
            {
                "why": ", ".join(row[column] for column in WHY if row[column]),
                **_sums(row["time_s"], row["energy_j"], whole, assumed),
            }
            for row in own.iter_rows(named=True)
        ]
        sums = _sums(_number(own["time_s"].sum()), joules, whole, assumed)
        parts.append((joules, {"name": name, **sums, "rows": inner}))
    parts.sort(key=lambda part: -part[0])
    return {"energy": assumed or energy(whole), "parts": [part for _, part in parts]}


def _sums(time_s: float, energy_j: float, whole_j: float, assumed: str | None) -> dict[str, str]:
    return {
        "time": _time(time_s),
        "energy": "" if assumed else energy(energy_j),
        "share": f"{100 * energy_j / whole_j:.1f}" if whole_j else "-",
    }


def _time(seconds: float) -> str:
    for limit, factor, unit in ((1e-6, 1e9, "ns"), (1e-3, 1e6, "us"), (1.0, 1e3, "ms")):
        if seconds < limit:
            return f"{seconds * factor:.4g} {unit}" if seconds else "-"
    return f"{seconds:.4g} s"


def _number(value: Any) -> float:
    return float(value)
