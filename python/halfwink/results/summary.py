"""The short table of results, as terminals and reports show it."""

from __future__ import annotations

import html
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import polars as pl

from halfwink.library import declared
from halfwink.results.relate import IDENTITY, KEYS, ends, half_width
from halfwink.results.results import Results
from halfwink.results.seeds import over_seeds
from halfwink.results.sources import is_assumed, source_of
from halfwink.results.store import HOST

Row = dict[str, Any]


@dataclass(frozen=True)
class Line:
    """One run, or the mean of several seeds.

    Attributes:
        whose: workload, machine with what was set, technique.
        cells: a text for each heading.
        sources: the origin of each cell's number, empty where it is none.
        is_baseline: true if others are related to it.
        is_first: true if it is the first of its workload on its machine.
        is_unranked: true if it breaks a limit or knows the future, and stands below the others.
    """

    whose: tuple[str, str, str]
    cells: list[str]
    sources: list[str]
    is_baseline: bool
    is_first: bool
    is_unranked: bool


@dataclass(frozen=True)
class Summary:
    """Headings of the cells, the lines, and what gives way where there is little room.

    Attributes:
        headings: a text above each cell.
        lines: the rows.
        spared: headings that narrow terminals and telephones go without, least wanted first.
    """

    headings: list[str]
    lines: list[Line]
    spared: tuple[str, ...]


def fixed(value: float | None, digits: int = 2) -> str:
    """A number with so many digits after the point, without a negative zero."""
    if value is None:
        return "-"
    return f"{value + 0.0:.{digits}f}" if abs(value) >= 0.5 * 10**-digits else f"{0:.{digits}f}"


def energy(joules: float | None) -> str:
    """Joules with a fitting prefix."""
    if joules is None or joules <= 0 or not math.isfinite(joules):
        return "-"
    for limit, factor, unit in ((1e-6, 1e9, "nJ"), (1e-3, 1e6, "uJ"), (1.0, 1e3, "mJ")):
        if joules < limit:
            return f"{joules * factor:.4g} {unit}"
    return f"{joules:.4g} J" if joules < 1e4 else f"{joules / 1e3:.4g} kJ"


def _number(column: str, digits: int, factor: float = 1.0) -> Callable[[Row], str]:
    """A cell: the value, and half of its interval if that shows in so many digits."""

    def cell(row: Row) -> str:
        value, half = row[column], half_width(row, column)
        text = fixed(None if value is None else factor * value, digits)
        if half is not None and factor * half >= 0.5 * 10**-digits:
            text += f" ±{fixed(factor * half, digits)}"
        return text

    return cell


def _energy(row: Row) -> str:
    if is_assumed(row):
        return "-"
    # How much requests differ tells nothing of how well a difference is known.
    return f"{energy(row['energy_j_per_unit'])}/{row['unit_of_work']}"


def has_assumed(runs: pl.DataFrame) -> bool:
    """Returns whether the watts of a machine are assumed."""
    return _assumed(runs).any()


def _is_all_assumed(runs: pl.DataFrame) -> bool:
    """Returns whether the watts of every machine are assumed."""
    return _assumed(runs).all()


def _assumed(runs: pl.DataFrame) -> pl.Series:
    if "power_basis" not in runs.columns:
        return pl.repeat(False, runs.height, dtype=pl.Boolean, eager=True)
    return runs["power_basis"].eq_missing("assumed")


def of_baseline(row: Row, digits: int = 2) -> str:
    """Energy for a unit of work, in per cent of the baseline's."""
    saved = row["energy_saving_pct"]
    return fixed(None if saved is None else 100 - saved, digits)


def _power(row: Row) -> str:
    return "-" if is_assumed(row) else _number("power_w", 2)(row)


def _relative(row: Row) -> str:
    return of_baseline(row) if is_assumed(row) else "-"


def _saving(column: str) -> Callable[[Row], str]:
    """A cell: the saving with both ends of its interval, if they show in two digits."""

    def cell(row: Row) -> str:
        value, (low, high) = row[column], (row.get(end) for end in ends(column))
        text = fixed(value)
        if value is None or low is None or high is None or fixed(low) == fixed(high):
            return text
        return f"{text} ({fixed(low)} to {fixed(high)})"

    return cell


def _text(column: str) -> Callable[[Row], str]:
    return lambda row: str(row[column] or "-")


def _rate(row: Row) -> str:
    rate = row["rate"]
    if rate is None:
        return "-"
    for factor, prefix in ((1e6, " M"), (1e3, " k")):
        if rate >= factor:
            return f"{rate / factor:.1f}{prefix}"
    return f"{rate:.3g}"


#: Heading, column, and how a row's cell is written. A world without the column goes without.
Cell = tuple[str, str, Callable[[Row], str]]
FIRST: list[Cell] = [
    ("energy/unit", "energy_j_per_unit", _energy),
    ("energy, % of baseline", "power_basis", _relative),
    ("core saved %", "core_energy_saving_pct", _number("core_energy_saving_pct", 2)),
    ("of it clock %", "core_clock_saving_pct", _number("core_clock_saving_pct", 2)),
    ("all saved %", "energy_saving_pct", _saving("energy_saving_pct")),
    ("at equal rate %", "equal_rate_saving_pct", _saving("equal_rate_saving_pct")),
    ("beyond today %", "beyond_today_pct", _saving("beyond_today_pct")),
    ("slowdown %", "slowdown_pct", _number("slowdown_pct", 2)),
    ("mean us", "latency_mean_us", _number("latency_mean_us", 1)),
    ("p99 us", "latency_p99_us", _number("latency_p99_us", 1)),
    ("p99.9 us", "latency_p999_us", _number("latency_p999_us", 1)),
    ("power W", "power_w", _power),
]
#: Behind the world's own.
LAST: list[Cell] = [
    ("gated %", "gated_share", _number("gated_share", 1, 100)),
    ("L2 MPKI", "l2_mpki", _number("l2_mpki", 2)),
    ("L3 MPKI", "l3_mpki", _number("l3_mpki", 2)),
    ("work/s of host", "rate", _rate),
    ("needs", "available", _text("available")),
    ("breaks", "breaks", _text("breaks")),
]
#: Headings that narrow terminals and telephones go without, least wanted first: before and after
#: the world's own.
SPARED_FIRST = ("work/s of host", "L2 MPKI", "L3 MPKI", "gated %")
SPARED_LAST = (
    "p99.9 us",
    "of it clock %",
    "core saved %",
    "mean us",
    "power W",
    "beyond today %",
    "needs",
    "breaks",
)


def _own(world: str) -> list[Cell]:
    """The columns that a world declares, the most important first."""
    known = declared(world)
    kinds = dict(known["tables"]["run"]) if known else {}
    return [
        (
            short["heading"],
            name := short["column"],
            _text(name) if kinds[name] == "text" else _number(name, short["digits"]),
        )
        for short in known.get("short", ())
    ]


def summarize(results: Results) -> Summary:
    """The short table: means over seeds where those were swept. Of each workload on each machine
    first the baseline, then the others, best first, then what breaks a limit or knows the future.
    """
    runs = results.runs
    if results.has(HOST):
        host = results.tables[HOST].select(*IDENTITY, "rate").unique(IDENTITY)
        # Work that no simulator plays out is not played at a speed.
        host = host.with_columns(pl.when(pl.col("rate") > 0).then("rate"))
        runs = runs.join(host, on=IDENTITY, how="left", nulls_equal=True, maintain_order="left")
    runs = _best_first(over_seeds(runs), results.baseline)
    own = _own(results.world)
    shown = [cell for cell in (*FIRST, *own, *LAST) if is_shown(runs, cell[1])]
    lines: list[Line] = []
    previous = None
    for row in runs.iter_rows(named=True):
        group = (row["workload"], row["machine"], row["set"])
        lines.append(
            Line(
                whose=(row["workload"], f"{row['machine']} {row['set']}".strip(), row["technique"]),
                cells=[write(row) for _, _, write in shown],
                sources=[source_of(column, row) for _, column, _ in shown],
                is_baseline=row["technique"] == results.baseline,
                is_first=group != previous,
                is_unranked=_is_unranked(row),
            )
        )
        previous = group
    spared = (*SPARED_FIRST, *(heading for heading, _, _ in reversed(own)), *SPARED_LAST)
    return Summary([heading for heading, _, _ in shown], lines, spared)


def is_shown(runs: pl.DataFrame, column: str) -> bool:
    """Returns whether a column says anything that others do not."""
    if column not in runs.columns or runs[column].count() == 0:
        return False
    if "power_basis" in runs.columns and column in ("energy_j_per_unit", "power_w", "power_basis"):
        return has_assumed(runs) if column == "power_basis" else not _is_all_assumed(runs)
    if column == "equal_rate_saving_pct":
        # Where every technique runs at the same rate it is what the other column says. One that
        # does not keep up has no rate that others are held against.
        if "keeps_up" in runs.columns:
            runs = runs.filter(pl.col("keeps_up") == "yes")
        differs = (runs[column] - runs["energy_saving_pct"]).abs().fill_null(100)
        return bool((differs > 0.005).any())
    return column != "breaks" or any(runs[column])


def _is_unranked(row: Row) -> bool:
    return bool(row.get("breaks")) or row.get("available") == "bound"


def _best_first(runs: pl.DataFrame, baseline: str) -> pl.DataFrame:
    if "breaks" not in runs.columns:
        return runs
    groups = runs.partition_by(KEYS, maintain_order=True)
    later = pl.col("technique") != baseline
    unranked = (pl.col("breaks") != "") | (pl.col("available") == "bound")
    saved = pl.coalesce("equal_rate_saving_pct", "energy_saving_pct")
    order = [later, later & unranked, -saved]
    return pl.concat(g.sort(order, nulls_last=True, maintain_order=True) for g in groups)


def as_html(results: Results) -> str:
    """The short table as HTML, for notebooks."""
    summary = summarize(results)
    headings = ["workload", "machine", "technique", *summary.headings]
    rows = [[*line.whose, *line.cells] for line in summary.lines]
    head = "".join(f"<th>{html.escape(heading)}</th>" for heading in headings)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
