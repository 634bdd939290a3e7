"""Runs too short to judge a governor of idle states, which begins having learnt nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from halfwink.results.results import Results

#: Techniques that predict idle times from past ones.
GOVERNORS = ("menu", "teo", "ladder", "c1e", "c6", "idle-menu", "idle-adaptive")
#: Idle periods below which a run says more of a governor's first guesses than of the governor.
ENOUGH = 1000


def warnings(results: Results) -> list[str]:
    """One line for each workload on which a governor saw too few idle periods."""
    runs = results.runs
    if not {"halts", "technique", "workload"} <= set(runs.columns):
        return []
    fewest: dict[str, tuple[int, list[str]]] = {}
    for row in runs.iter_rows(named=True):
        name = row["technique"].partition("+")[0].partition(":")[0]
        if name not in GOVERNORS or row["halts"] is None or not 0 < row["halts"] < ENOUGH:
            continue
        least, names = fewest.get(row["workload"], (row["halts"], []))
        names += [name] if name not in names else []
        fewest[row["workload"]] = (min(least, row["halts"]), names)
    return [
        f"{workload}: {count} idle periods: {', '.join(names)} choose by past ones, and have "
        f"learnt little before {ENOUGH}; record longer"
        for workload, (count, names) in fewest.items()
    ]
