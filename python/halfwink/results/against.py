"""Changes between two runs: the same techniques on the same workloads, side by side.

changes = halfwink.open("today").against(halfwink.open("yesterday"))
print(changes)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from halfwink.errors import HalfwinkError
from halfwink.results.judgement import AS_GOOD_PCT, pieces_of
from halfwink.results.paired import Saving, Side, Taken, over, saving_of, taken_by_work
from halfwink.results.relate import IDENTITY, KEYS
from halfwink.results.seeds import over_seeds, seedless
from halfwink.results.sources import source_of
from halfwink.results.summary import energy, fixed, has_assumed
from halfwink.results.wording import percent

if TYPE_CHECKING:
    from halfwink.results.results import Results

Row = dict[str, Any]
Key = tuple[str, ...]

#: Names in a sentence, at most.
NAMED = 6
#: A change below this share, in per cent, is one of rounding.
LEAST_PCT = 1e-6
#: Values that stand side by side, and what they are called.
SIDES = {
    "energy_j_per_unit": "energy of a unit of work",
    "saved_pct": "energy saved",
    "slowdown_pct": "slowdown",
    "latency_p99_us": "99th percentile of latency",
}
#: Changes that stand beside values that have one.
CHANGES = {"energy_j_per_unit": "energy_change_pct", "latency_p99_us": "p99_change_pct"}
#: Columns of :attr:`Changes.table`.
SCHEMA = (
    dict.fromkeys((*IDENTITY, "unit_of_work"), pl.String)
    | {f"{name}{end}": pl.Float64 for name in SIDES for end in ("", "_before")}
    | dict.fromkeys(
        (
            *("energy_change_pct", "energy_change_low_pct", "energy_change_high_pct"),
            *("p99_change_pct", "slowdown_change_pct"),
        ),
        pl.Float64,
    )
    | dict.fromkeys(("is_winner", "was_winner"), pl.Boolean)
)


@dataclass(frozen=True)
class Changes:
    """Changes of a run against an earlier one. Every figure is modelled.

    Attributes:
        sentences: the answer first, then how sure it is and what differs.
        table: a row for each workload and technique of both runs. Values of the earlier run end in
            ``_before``; ``energy_change_pct`` and ``p99_change_pct`` are changes in per cent of
            those, the first with the ends of its 95 % interval where both runs kept their parts;
            ``slowdown_change_pct`` is the difference of the slowdowns.
        only_here: workload and technique of runs that the earlier one lacks.
        only_before: workload and technique of runs that only the earlier one has.
        verdict: sentences of the verdict of this run.
        verdict_before: sentences of the verdict of the earlier one.
        is_assumed: true if watts of a machine are assumed: only per cent then mean something.
        sources: the origin of the numbers of each row of the table, by column.
    """

    sentences: tuple[str, ...]
    table: pl.DataFrame
    only_here: tuple[str, ...]
    only_before: tuple[str, ...]
    verdict: tuple[str, ...]
    verdict_before: tuple[str, ...]
    is_assumed: bool
    sources: tuple[dict[str, str], ...] = ()

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    def lines(self) -> tuple[list[str], list[list[str]]]:
        """Returns headings and rows of the table as people read it."""
        shown = self._shown()
        headings = {
            "energy_j_per_unit": ("energy/unit", "before"),
            "saved_pct": ("saved %", "before"),
            "slowdown_pct": ("slowdown %", "before"),
            "latency_p99_us": ("p99 us", "before"),
        }
        heads = ["workload", "technique"]
        for name in shown:
            heads += headings[name]
            heads += ["change %"] if name in CHANGES else []
        rows: list[list[str]] = []
        for row in self.table.iter_rows(named=True):
            cells = [" ".join(row[k] for k in KEYS if row[k]), row["technique"] + _mark(row)]
            for name in shown:
                cells += [_cell(name, row[f"{name}{end}"], row) for end in ("", "_before")]
                cells += [_energy_change(row)] if name == "energy_j_per_unit" else []
                cells += [_signed(row["p99_change_pct"])] if name == "latency_p99_us" else []
            rows.append(cells)
        return heads, rows

    def line_sources(self) -> list[list[str]]:
        """Returns the origin of each cell of `lines`: measured, modelled or assumed; empty for
        words and for numbers that are missing."""
        columns = ["", ""]
        for name in self._shown():
            columns += [name, f"{name}_before"]
            columns += [CHANGES[name]] if name in CHANGES else []
        return [[row.get(column, "") for column in columns] for row in self.sources]

    def _shown(self) -> list[str]:
        """Returns the values that the table for people has."""
        shown = [name for name in SIDES if self.table[name].count() > 0]
        return [n for n in shown if not (self.is_assumed and n == "energy_j_per_unit")]


def _mark(row: Row) -> str:
    if row["is_winner"]:
        return " (winner)" if row["was_winner"] else " (new winner)"
    return " (winner before)" if row["was_winner"] else ""


def _cell(name: str, value: float | None, row: Row) -> str:
    if name == "energy_j_per_unit":
        return "-" if value is None else f"{energy(value)}/{row['unit_of_work']}"
    return fixed(value, 1 if name == "latency_p99_us" else 2)


def _signed(value: float | None) -> str:
    text = fixed(value)
    return f"+{text}" if value is not None and float(text) > 0 else text


def _energy_change(row: Row) -> str:
    low, high = row["energy_change_low_pct"], row["energy_change_high_pct"]
    text = _signed(row["energy_change_pct"])
    if low is None or fixed(low) == fixed(high):
        return text
    return f"{text} ({_signed(low)} to {_signed(high)})"


def against(ours: Results, before: Results) -> Changes:
    """Compares a run with an earlier one.

    Runs are held side by side where workload and technique are the same, and, if either run has
    several of them, machine and values that were set.

    Raises:
        HalfwinkError: the runs are of different worlds, or share nothing; one line.
    """
    if ours.world != before.world:
        line = f"these are runs of the worlds {ours.world} and {before.world}"
        raise HalfwinkError(f"{line}: expected two of one world")
    keys = _keys(ours, before)
    mine, theirs = _Run(ours, keys), _Run(before, keys)
    shared = [key for key in mine.rows if key in theirs.rows]
    if not shared:
        have = " and ".join(_listed(_names(run.rows)) for run in (mine, theirs))
        raise HalfwinkError(f"no workload and technique is in both runs; they have {have}")
    rows = [_row(mine, theirs, key) for key in shared]
    table = pl.DataFrame(rows, schema=SCHEMA)
    only = [_names(a.rows.keys() - b.rows.keys()) for a, b in ((mine, theirs), (theirs, mine))]
    sentences = [
        *_winners(mine, theirs, rows),
        *_noise(rows),
        *_settings(ours, before),
        *(
            f"Only in {which} run: {_listed(names)}."
            for which, names in zip(("this", "the earlier"), only, strict=True)
            if names
        ),
    ]
    return Changes(
        tuple(sentences),
        table,
        tuple(only[0]),
        tuple(only[1]),
        mine.verdict.sentences,
        theirs.verdict.sentences,
        has_assumed(ours.runs) or has_assumed(before.runs),
        tuple(
            _sources(row, mine.rows[key], theirs.rows[key])
            for row, key in zip(rows, shared, strict=True)
        ),
    )


class _Run:
    """A run of the two: rows, sides of each seed, and winners, by the columns of the pairs."""

    def __init__(self, results: Results, keys: Sequence[str]) -> None:
        self.baseline = results.baseline
        self.rows: dict[Key, Row] = {}
        means = over_seeds(results.runs).with_columns(seedless())
        for row in means.iter_rows(named=True):
            self.rows.setdefault(_key(row, keys), row)
        pieces = pieces_of(results.tables.get("slices"))
        self.sides: dict[Key, dict[str, Side]] = {}
        for row in results.runs.with_columns(seedless().alias("_set")).iter_rows(named=True):
            found = Side.of(row, pieces.get(tuple(row[name] for name in IDENTITY)))
            key = _key(row | {"set": row["_set"]}, keys)
            self.sides.setdefault(key, {})[_seed(row["set"])] = found
        self.verdict = results.verdict()
        won = self.verdict.winners.with_columns(seedless())
        self.winners = {_key(row, keys)[:-1]: row["technique"] for row in won.to_dicts()}


def _keys(ours: Results, before: Results) -> list[str]:
    """Returns the columns by which runs are paired, beside their technique."""
    frames = [run.runs.with_columns(seedless()) for run in (ours, before)]
    several = [k for k in KEYS[1:] if any(frame[k].n_unique() > 1 for frame in frames)]
    return ["workload", *several]


def _key(row: Row, keys: Sequence[str]) -> Key:
    return tuple(str(row[name]) for name in (*keys, "technique"))


def _row(mine: _Run, theirs: _Run, key: Key) -> Row:
    ours, base = mine.rows[key], theirs.rows[key]
    cells: Row = {name: ours[name] for name in (*IDENTITY, "unit_of_work")}
    for end, row in (("", ours), ("_before", base)):
        saved = row.get("equal_rate_saving_pct")
        saved = row["energy_saving_pct"] if saved is None else saved
        values = row | {"saved_pct": saved}
        cells |= {f"{name}{end}": values[name] for name in SIDES}
    found = _energy_taken(mine.sides[key], theirs.sides[key])
    if found is not None:
        cells |= {"energy_change_pct": found.value}
        cells |= {"energy_change_low_pct": found.low, "energy_change_high_pct": found.high}
    now, then = ours["latency_p99_us"], base["latency_p99_us"]
    cells["p99_change_pct"] = 100 * (now / then - 1) if now and then else None
    now, then = ours["slowdown_pct"], base["slowdown_pct"]
    cells["slowdown_change_pct"] = None if now is None or then is None else now - then
    for name, run in (("is_winner", mine), ("was_winner", theirs)):
        cells[name] = run.winners.get(key[:-1]) == key[-1]
    return cells


def _sources(cells: Row, ours: Row, base: Row) -> dict[str, str]:
    """Returns the origin of each number of a row of the table, by column."""
    found: dict[str, str] = {}
    for name in SIDES:
        column = "energy_saving_pct" if name == "saved_pct" else name
        for end, row in (("", ours), ("_before", base)):
            if cells[f"{name}{end}"] is not None:
                found[f"{name}{end}"] = source_of(column, row)
    for name, change in CHANGES.items():
        if cells[change] is not None:
            own = (found.get(name, ""), found.get(f"{name}_before", ""))
            kind = "assumed" if any(one.startswith("assumed") for one in own) else "modelled"
            found[change] = f"{kind}: computed from this run's value and the other's"
    return found


def _energy_taken(ours: dict[str, Side], before: dict[str, Side]) -> Saving | None:
    """Returns the rise in energy of a unit of work: seed by seed where both runs have the same
    seeds, else in their order. One run of another seed has other work: how much its parts vary
    does not tell how much it would vary with its seed, so that no interval is known."""
    seeds = [seed for seed in ours if seed in before]
    pairs = [(ours[seed], before[seed]) for seed in seeds]
    is_paired = bool(pairs)
    if not is_paired:
        pairs = list(zip(ours.values(), before.values(), strict=False))
    found = [_taken(a, b) for a, b in pairs]
    savings = [saving_of(one) for one in found]
    known = [one for one in savings if one is not None]
    if not known or len(known) < len(savings):
        return None
    rise = over(known).opposite
    return rise if is_paired or len(known) > 1 else replace(rise, low=None, high=None)


def _taken(ours: Side, base: Side) -> Taken | None:
    found = taken_by_work(ours, base)
    is_exact = ours.is_constant and base.is_constant
    return found if found is None else replace(found, is_exact=is_exact)


def _winners(mine: _Run, theirs: _Run, rows: list[Row]) -> list[str]:
    """Says which winners changed, and by how much the most changed that did."""
    both = [where for where in mine.winners if where in theirs.winners]
    changed = [where for where in both if mine.winners[where] != theirs.winners[where]]
    lines: list[str] = []
    if len(changed) > NAMED:
        lines.append(f"The winner changed on {len(changed)} of {len(both)} workloads.")
    for where in changed[:NAMED] if len(changed) <= NAMED else []:
        now, then = mine.winners[where], theirs.winners[where]
        line = f"The winner on {' '.join(filter(None, where))} changed from {then} to {now}"
        missing = [
            f"; {which} run did not play {name}"
            for which, run, name in (("this", mine, then), ("the earlier", theirs, now))
            if (*where, name) not in run.rows
        ]
        lines.append(f"{line}{''.join(missing)}.")
    return [*lines, _most(rows, bool(both) and not changed)]


def _most(rows: list[Row], is_won_again: bool) -> str:
    """Says how much energy, latency and slowdown of what both runs played changed, at most."""
    told: list[tuple[float, str]] = []
    for column, what in (
        ("energy_change_pct", "energy of a unit of work"),
        ("p99_change_pct", "99th percentile of latency"),
        ("slowdown_change_pct", "slowdown"),
    ):
        known = [row for row in rows if row[column] is not None]
        most = max(known, key=lambda row: abs(row[column]), default=None)
        if most is not None:
            whose = f"{most['technique']} on {most['workload']}"
            more = "more" if most[column] > 0 else "less"
            share = percent(abs(most[column]))
            share = share.replace("%", "points") if column == "slowdown_change_pct" else share
            told.append((abs(most[column]), f"{what} by up to {share} ({whose}: {more})"))
    again = "The winner is the same everywhere. " if is_won_again else ""
    if not told:
        return f"{again}Neither energy nor latency of the two runs can be compared."
    most_pct = max(size for size, _ in told)
    text = ", ".join(text for size, text in told if size >= LEAST_PCT)
    if most_pct < LEAST_PCT:
        return f"{again}Nothing changed: energies and times are equal."
    if most_pct <= AS_GOOD_PCT:
        return f"{again}Nothing changed beyond {percent(most_pct)}: {text}."
    return f"{again}Changes: {text}."


def _noise(rows: list[Row]) -> list[str]:
    """Says what of the changes of energy may be chance."""
    changed = [row for row in rows if abs(row["energy_change_pct"] or 0.0) >= LEAST_PCT]
    if not changed:
        return []
    known = [row for row in changed if row["energy_change_low_pct"] is not None]
    lines: list[str] = []
    if len(known) < len(changed):
        few = "" if not known else f" for {len(changed) - len(known)} of them"
        lines.append(
            f"No interval of the difference in energy is known{few}: a change cannot be told from "
            "noise. Play the same seeds in both runs, and longer ones."
        )
    if known:
        sure = [row for row in known if _is_sure(row)]
        is_one = len(known) == 1
        line = f"{len(sure)} of {len(known)} {'change' if is_one else 'changes'} of energy"
        are = "is" if len(sure) == 1 else "are"
        lines.append(f"{line} with a 95 % interval {are} beyond chance.")
    return lines


def _is_sure(row: Row) -> bool:
    return not row["energy_change_low_pct"] <= 0 <= row["energy_change_high_pct"]


def _settings(ours: Results, before: Results) -> list[str]:
    """Says in what the two runs differ, apart from what they played."""
    lines: list[str] = []
    for name, word in (("machine", "machine"), ("set", "values set")):
        now, then = (
            sorted(run.runs.with_columns(seedless())[name].unique()) for run in (ours, before)
        )
        if now != then:
            here, there = (_listed([n or "none" for n in names]) for names in (now, then))
            lines.append(f"Another {word}: {here}, before {there}.")
    now, then = (_seeds(run) for run in (ours, before))
    if now != then:
        lines.append("The seeds differ.")
    if ours.baseline != before.baseline:
        lines.append(
            f"Savings and slowdowns are relative to {ours.baseline}, before to {before.baseline}: "
            "compare energies alone."
        )
    return lines


def _seeds(run: Results) -> set[str]:
    """The seeds of a run."""
    return set(map(_seed, run.runs["set"]))


def _seed(values: str) -> str:
    """The seed among the values that were set; empty where the default was taken."""
    found = re.search(r"(?:^| )seed=(\S+)", values)
    return "" if found is None else found[1]


def _names(keys: Any) -> list[str]:
    return sorted(f"{key[-1]} on {' '.join(filter(None, key[:-1]))}" for key in keys)


def _listed(names: Sequence[str]) -> str:
    rest = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + rest
