"""Output of ``halfwink trace kernel``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from halfwink.cli.console import out, print_table, print_tables
from halfwink.models.profiles import OsProfile, os_profile


def show(
    workload: str, caches: str, values: Sequence[tuple[str, str]], limit: int, *, json: bool
) -> int:
    """Profiles a workload and prints it."""
    profile = os_profile(workload, caches=caches, set=dict(values))
    if json:
        facts = {"workload": workload, "caches": caches}
        print_tables("trace kernel", profile.frames(), facts)
        return 0
    tables = (_totals, _privileged, _entries, _thresholds, _levels, _evictions)
    for number, table in enumerate(tables):
        if number:
            out.print()
        table(profile, workload, limit)
    return 0


def _count(n: float | None) -> str:
    return "-" if n is None else f"{n:,.0f}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _totals(profile: OsProfile, workload: str, _: int) -> None:
    facts: dict[str, float | None] = dict(profile.totals.iter_rows())
    lines: dict[str, int] = dict(profile.footprint.iter_rows())
    rows = [
        ["user instructions", _count(facts["user_instructions"])],
        [
            "kernel instructions",
            f"{_count(facts['kernel_instructions'])} ({_percent(facts['kernel_share'])})",
        ],
        [
            "kernel invocations",
            f"{_count(facts['invocations'])}, of "
            f"{_count(facts['kernel_instructions_per_invocation'])} instructions on average",
        ],
        ["user runs", f"of {_count(facts['user_instructions_per_run'])} instructions on average"],
        ["taken inside the kernel", f"{_count(facts['nested'])} interrupts and exceptions"],
        ["halts", _count(facts["halts"])],
        [
            "lines touched",
            f"{lines['user']:,} by user code alone, {lines['kernel']:,} by the kernel alone, "
            f"{lines['both']:,} by both",
        ],
    ]
    print_table([("workload", "left"), (workload, "left")], rows)


def _privileged(profile: OsProfile, _: str, __: int) -> None:
    """Prints both readings of what enters the kernel, and the traps that make the second one."""
    rows: list[list[str]] = []
    for name, totals, thresholds in (
        ("as recorded", profile.totals, profile.thresholds),
        ("all privileged", profile.privileged_totals, profile.privileged_thresholds),
    ):
        facts: dict[str, float | None] = dict(totals.iter_rows())
        short = thresholds.filter(thresholds["threshold_instructions"] == 100)
        share = 1 - (short["longer_invocation_share"].item() or 0)
        rows.append(
            [
                name,
                _count(facts["invocations"]),
                _percent(facts["kernel_share"]),
                _count(facts["kernel_instructions_per_invocation"]),
                _count(facts["user_instructions_per_run"]),
                _percent(share),
            ]
        )
    heads = ["entries", "kernel", "mean length", "user before", "up to 100"]
    print_table([("which entries count", "left"), *((h, "right") for h in heads)], rows)
    facts = dict(profile.privileged_totals.iter_rows())
    out.print(
        f"all privileged: modelled handlers of windows, {_percent(facts['window_trap_share'])} of "
        f"the kernel;\nof TLB misses, {_percent(facts['tlb_miss_share'])}"
    )
    traps = profile.privileged_entries.filter(profile.privileged_entries["kind"] == "trap")
    rows = [
        [
            e["name"],
            _count(e["invocations"]),
            _percent(e["kernel_share"]),
            _count(e["mean_instructions"]),
        ]
        for e in traps.to_dicts()
    ]
    heads = ["entries", "of kernel", "mean length"]
    print_table([("traps of user code, modelled", "left"), *((h, "right") for h in heads)], rows)


def _entries(profile: OsProfile, _: str, limit: int) -> None:
    listed = profile.entries.filter(profile.entries["invocations"] > 0)
    listed = listed.sort("kernel_instructions", descending=True, maintain_order=True)
    rows = [
        [
            f"{e['kind']} {'' if e['number'] is None else e['number']} {e['name']}".strip(),
            _count(e["invocations"]),
            _percent(e["kernel_share"]),
            _count(e["mean_instructions"]),
            _count(e["median_instructions"]),
            _count(e["p90_instructions"]),
            _count(e["longest_instructions"]),
            _count(e["user_instructions_before"]),
        ]
        for e in listed.head(limit).to_dicts()
    ]
    heads = ["invocations", "of kernel", "mean length", "median", "90 %", "longest", "user before"]
    print_table([("entered for", "left"), *((h, "right") for h in heads)], rows)


def _thresholds(profile: OsProfile, _: str, __: int) -> None:
    rows = [
        [
            _count(t["threshold_instructions"]),
            _count(t["longer_invocations"]),
            _percent(t["longer_invocation_share"]),
            _percent(t["longer_instruction_share"]),
        ]
        for t in profile.thresholds.to_dicts()
    ]
    heads = ["longer than", "invocations", "of invocations", "of kernel instructions"]
    print_table([(h, "right") for h in heads], rows)


def _levels(profile: OsProfile, _: str, __: int) -> None:
    rows = [
        [
            x["level"],
            x["mode"],
            _count(x["accesses"]),
            _count(x["misses"]),
            _percent(x["miss_share"]),
            _count(x["evicted_user_lines"]),
            _count(x["evicted_kernel_lines"]),
        ]
        for x in profile.levels.to_dicts()
    ]
    heads = ["accesses", "misses", "of misses", "evicted user lines", "evicted kernel lines"]
    print_table([("cache", "left"), ("by", "left"), *((h, "right") for h in heads)], rows)


def _evictions(profile: OsProfile, _: str, __: int) -> None:
    """Evictions by the kernel: a row per cache, a column per class of lengths."""
    classes: dict[str, None] = {}
    caches: dict[str, list[str]] = {}
    for x in profile.evictions.to_dicts():
        classes[_class(x)] = None
        caches.setdefault(x["level"], []).append(_count(x["user_lines"] + x["kernel_lines"]))
    heads = [("evictions in invocations of", "left"), *((head, "right") for head in classes)]
    print_table(heads, [[level, *counts] for level, counts in caches.items()])


def _class(row: dict[str, Any]) -> str:
    most = row["at_most_instructions"]
    if most is None:
        return f"over {row['longer_than_instructions']:,}"
    return f"to {most:,}"
