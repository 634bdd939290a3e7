"""Verdict of a comparison in sentences: the winner, its cost, and its gain over idle states.

results = hw.compare("nginx", techniques=["idle-menu", "tap"])
print(results.verdict())
"""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from halfwink import wording
from halfwink.relate import IDLE_STATES, KEYS, ends, family_of, sleeps, with_beyond_idle
from halfwink.summary import energy, fixed

if TYPE_CHECKING:
    from halfwink.results import Results

Row = dict[str, Any]

#: Slower than this against the baseline, in per cent, no technique is said to win, unless Linux'
#: own idle states are slower still: then as slow as those.
TOLERATED_PCT = 5.0
#: Less than this, in per cent, is no saving.
LEAST_PCT = 0.005
#: Less than this beyond idle states, in per cent, is called next to nothing.
LITTLE_PCT = 0.1
#: A technique is said to be faster than the winner if it takes at most so much of its time.
FASTER = 0.9
#: What takes so many times as long is no price, but work that is not done.
DEAREST = 100.0
#: As :data:`TOLERATED_PCT`, of what was lost, in per cent of all work.
LOST_PCT = 0.1
#: Techniques that know the future: a bound, and no choice.
BOUNDS = ("oracle", "dvfs-oracle", "shortest")
#: Workloads that a sentence names.
NAMED = 6
#: What one of a world's machines is.
ONE = {
    "chip": "chip",
    "router": "router",
    "server": "pair of servers",
    "node": "server",
    "racks": "network",
}
HOURS_A_YEAR = 24 * 365.25
FLEET = 1000


@dataclass(frozen=True)
class Verdict:
    """Verdict of a comparison. Every figure is modelled.

    Attributes:
        sentences: sentences to read, the answer first; without techniques to compare, what is
            missing.
        winners: one row for each workload, machine and values set: the ``technique`` that takes
            least energy of those that slow down by at most 5 % and lose nothing more, the baseline
            if none saves any;
            ``energy_saving_pct`` and ``slowdown_pct`` against the baseline; ``beyond_idle_pct``
            (of the energy that remains with Linux' idle states; null where those were not run or
            are no rival); ``saved_w``, and ``saved_kwh_a_year`` of one machine that always runs so.
    """

    sentences: tuple[str, ...]
    winners: pl.DataFrame

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    def _repr_html_(self) -> str:
        return self.as_html()

    def as_html(self) -> str:
        """A paragraph for each sentence, the first one bold."""
        first, *others = (html.escape(sentence) for sentence in self.sentences)
        return f"<p><b>{first}</b></p>" + "".join(f"<p>{sentence}</p>" for sentence in others)


def verdict(results: Results) -> Verdict:
    """Returns the verdict on these results."""
    from halfwink.results import over_seeds

    runs = over_seeds(results.runs)
    if "beyond_idle_pct" not in runs.columns:
        runs = with_beyond_idle(runs, results.world)
    groups = runs.partition_by(KEYS, maintain_order=True)
    found = [_judge(results, group) for group in groups]
    winners = pl.DataFrame([j.row() for j in found if j is not None], schema=_SCHEMA)
    judged = [j for j in found if j is not None]
    if not judged:
        line = f"Nothing was compared with {results.baseline}: name a technique beside it."
        return Verdict((line,), winners)
    lines = judged[0].sentences() if len(judged) == 1 else _of_many(results, judged, runs)
    return Verdict((*lines, _rests_on(results, runs)), winners)


_SCHEMA = {
    **dict.fromkeys((*KEYS, "technique"), pl.String),
    **dict.fromkeys(
        (
            "energy_saving_pct",
            "slowdown_pct",
            "beyond_idle_pct",
            "saved_w",
            "saved_kwh_a_year",
        ),
        pl.Float64,
    ),
}


@dataclass(frozen=True)
class _Judged:
    """One workload on one machine."""

    results: Results
    base: Row
    best: Row
    #: Saves more than the best, and is slower than is tolerated or loses work; or knows the future.
    greedy: Row | None
    #: Saves less than the best, and is faster.
    fastest: Row | None
    bound: Row | None
    idle: Row | None
    #: Takes least of all that were run beside the baseline and are no bounds.
    nearest: Row | None

    @property
    def wins(self) -> bool:
        return self.best is not self.base

    @property
    def saved_w(self) -> float:
        """Power saved by one machine that does the baseline's work in the baseline's time."""
        base_w = self.base["energy_j"] / self.base["duration_s"]
        return base_w * self.best["energy_saving_pct"] / 100

    def row(self) -> Row:
        saved = self.saved_w
        known = {name: self.best[name] for name in _SCHEMA if name in self.best}
        return known | {"saved_w": saved, "saved_kwh_a_year": saved * HOURS_A_YEAR / 1000}

    def sentences(self) -> list[str]:
        best, base = self.best, self.base
        lines: list[str] = []
        if self.wins:
            unit = base["unit_of_work"]
            now, then = (energy(row["energy_j_per_unit"]) for row in (best, base))
            saving = _with_interval(best, "energy_saving_pct")
            line = f"{best['technique']} takes least: {saving} % less energy than "
            line += f"{base['technique']} ({now} instead of {then} per {unit}), {_cost(best, base)}"
            chance = "; it may be chance" if _may_be_chance(best, "energy_saving_pct") else ""
            lines.append(f"{line}{chance}.")
        else:
            line = f"Nothing saves energy against {base['technique']} here{self.limits()}"
            lines.append(f"{line}{self._nearest()}.")
        lines += self._beyond()
        if self.wins:
            lines.append(self._power())
        lines += self._others()
        return lines

    def limits(self) -> str:
        return f" at less than {TOLERATED_PCT:.0f} % slowdown" if self.greedy is not None else ""

    def _nearest(self) -> str:
        """Describes the cheapest technique, if none saves energy."""
        if self.greedy is not None or self.nearest is None:
            return ""
        name, saving = self.nearest["technique"], _saving(self.nearest)
        if saving > -LEAST_PCT:
            return f": {name}, the nearest, takes as much"
        return f": {name}, the nearest, takes {wording.percent(-saving)} more"

    def _beyond(self) -> list[str]:
        best, idle = self.best, self.idle
        rivals = IDLE_STATES.get(self.results.world)
        if rivals is None or not self.wins or not sleeps(best["technique"], self.results.world):
            return []
        if idle is None:
            # One that every machine of the world has.
            usual = next(n for n in rivals if family_of(n, self.results.world) != "c-states")
            return [f"How much of it idle states save anyway is not known: add {usual}."]
        alone = idle["energy_saving_pct"]
        what = f"take {fixed(-alone)} % more" if alone <= -0.005 else f"save {fixed(alone)} %"
        anyway = f"Idle states alone ({idle['technique']}) {what}"
        if best["technique"] == idle["technique"]:
            return [f"{anyway}: no technique that was run adds to that."]
        beyond = _with_interval(best, "beyond_idle_pct", short=True)
        line = f"{anyway}: beyond them {best['technique']} saves {beyond} %"
        if _may_be_chance(best, "beyond_idle_pct"):
            return [f"{line}, which may be chance."]
        return [f"{line}, next to nothing." if best["beyond_idle_pct"] < LITTLE_PCT else f"{line}."]

    def _power(self) -> str:
        one = ONE.get(self.results.world, "machine")
        base_w = self.base["energy_j"] / self.base["duration_s"]
        kwh = self.saved_w * HOURS_A_YEAR / 1000
        saved, all_of_it = (wording.si(watts) for watts in (self.saved_w, base_w))
        line = f"For the same work that is {saved}W of the {all_of_it}W of a {one}: "
        line += f"{wording.figure(kwh)} kWh a year of one that always runs so, "
        return line + f"{wording.figure(kwh * FLEET)} kWh of {FLEET}."

    def _others(self) -> list[str]:
        lines: list[str] = []
        if (row := self.fastest) is not None:
            saved = row["energy_saving_pct"]
            less = f"{wording.percent(abs(saved))} {'less' if saved > 0 else 'more'}"
            lines.append(f"{row['technique']} is fastest: {less} energy, {_cost(row, self.base)}.")
        if (row := self.greedy) is not None:
            saving, cost = wording.percent(row["energy_saving_pct"]), _cost(row, self.base)
            lines.append(f"{row['technique']} would save {saving}, at a price: {cost}.")
        # A bound that is none, or that everything reaches, says nothing.
        if (row := self.bound) is not None and _saving(row) >= max(_saving(self.best), LEAST_PCT):
            saving = wording.percent(row["energy_saving_pct"])
            lines.append(f"{row['technique']}, which knows the future, saves {saving}.")
        return lines


def _judge(results: Results, group: pl.DataFrame) -> _Judged | None:
    rows = group.to_dicts()
    base = next((row for row in rows if row["technique"] == results.baseline), None)
    others = [
        row
        for row in rows
        if row["technique"] != results.baseline and row.get("energy_saving_pct") is not None
    ]
    if base is None or not others or not base["duration_s"]:
        return None
    by_name = {row["technique"]: row for row in others}
    rivals = IDLE_STATES.get(results.world, ())
    idle = next((by_name[name] for name in rivals if name in by_name), None)
    bounds = [row for row in others if row["technique"].split(":")[0] in BOUNDS]
    real = [row for row in others if row not in bounds]
    can = [row for row in real if _is_tolerable(row, base, idle)]
    best = max(can, key=_saving, default=base)
    if _saving(best) < LEAST_PCT:
        # The baseline itself.
        best = base
    if idle in can and round(_saving(best) - _saving(idle), 4) <= 0:
        # As good as what is there anyway: that is the answer.
        best = idle
    dear = [row for row in real if row not in can and _time(row) <= DEAREST]
    greedy = max(dear, key=_saving, default=None)
    if greedy is not None and _saving(greedy) <= max(_saving(best), 0):
        greedy = None
    fastest = min([base, *can], key=_time)
    if _time(fastest) > FASTER * min(_time(best), 1):
        # No faster than the baseline, or hardly than the best.
        fastest = None
    bound = max(bounds, key=_saving, default=None)
    nearest = max(real, key=_saving, default=None)
    return _Judged(results, base, best, greedy, fastest, bound, idle, nearest)


def _saving(row: Row) -> float:
    return float(row["energy_saving_pct"])


def _time(row: Row) -> float:
    """Returns the time relative to the baseline's; 1 if it is unknown."""
    return 1 + (row.get("slowdown_pct") or 0) / 100


def _is_tolerable(row: Row, base: Row, idle: Row | None) -> bool:
    slower = row.get("slowdown_pct")
    limit = 1 + TOLERATED_PCT / 100
    if idle is not None and idle["slowdown_pct"] is not None:
        # One in a hundred is no difference.
        limit = max(limit, 1.01 * _time(idle))
    lost = (row.get("lost_pct") or 0) - (base.get("lost_pct") or 0)
    return (slower is None or _time(row) <= limit) and lost <= LOST_PCT


def _at_load(one: _Judged, several: bool) -> str:
    """The sentence of one load of a service."""
    best, base = one.best, one.base
    service, _, load = str(base["workload"]).rpartition("@")
    shown = f"{base['load_pct']:.3g} % load" if base.get("load_pct") is not None else f"load {load}"
    where = f"At {shown} of {service}" if several else f"At {shown}"
    if (base.get("lost_pct") or 0) > LOST_PCT:
        return f"{where} the server cannot keep up: nothing is compared."
    if not one.wins:
        return f"{where} nothing saves energy against {one.results.baseline}{one.limits()}."
    now, then = (energy(row["energy_j_per_unit"]) for row in (best, base))
    return (
        f"{where} {best['technique']} takes least: {_with_interval(best, 'energy_saving_pct')} % "
        f"less than {one.results.baseline} ({now} instead of {then} per "
        f"{base['unit_of_work']}), {_cost(best, base)}."
    )


def _of_many(results: Results, judged: list[_Judged], runs: pl.DataFrame) -> list[str]:
    """One sentence over all workloads, and who wins where; of loads, one for each."""
    if "load_pct" in runs.columns and results.world == "node":
        services = {str(one.base["workload"]).rpartition("@")[0] for one in judged}
        return [_at_load(one, len(services) > 1) for one in judged]
    count = len(judged)
    wins: dict[str, list[_Judged]] = {}
    for one in judged:
        wins.setdefault(one.best["technique"] if one.wins else "nothing", []).append(one)
    lines: list[str] = []
    steady = _steadiest(results, runs, count)
    if steady is not None:
        lines.append(steady)
    order = sorted(wins.items(), key=lambda item: -len(item[1]))
    for name, where in order:
        names = ", ".join(_place(one, judged) for one in where[:NAMED])
        names += f" and {len(where) - NAMED} more" if len(where) > NAMED else ""
        if name == "nothing":
            lines.append(f"Nothing saves energy on {names}.")
            continue
        most = [one.best["energy_saving_pct"] for one in where]
        span = wording.span(most)
        beyond = [b for one in where if (b := one.best["beyond_idle_pct"]) is not None]
        line = f"{name} takes least on {names}: {span} less than {results.baseline}"
        if beyond and where[0].idle is not None and name != where[0].idle["technique"]:
            line += f"; beyond idle states {wording.span(beyond)}"
        lines.append(line + ".")
    return lines


def _steadiest(results: Results, runs: pl.DataFrame, count: int) -> str | None:
    """The technique with the greatest mean saving of those that are tolerable everywhere."""
    worst = runs.filter(
        pl.col("technique") != results.baseline,
        ~pl.col("technique").str.split(":").list.first().is_in(BOUNDS),
        pl.col("energy_saving_pct").is_not_null(),
    )
    means = worst.group_by("technique", maintain_order=True).agg(
        pl.len().alias("n"),
        pl.col("energy_saving_pct").mean().alias("mean"),
        pl.col("slowdown_pct").max().alias("slowest"),
        pl.col("beyond_idle_pct").mean().alias("beyond"),
    )
    slow = pl.col("slowest").fill_null(0) <= TOLERATED_PCT
    best = means.filter(slow, pl.col("n") == count, pl.col("mean") > 0).sort("mean")
    if best.is_empty():
        return None
    row = best.row(-1, named=True)
    mean = wording.percent(row["mean"])
    line = f"Over all {count}, {row['technique']} saves most: {mean} in the mean"
    if row["beyond"] is not None:
        line += f", {wording.percent(row['beyond'])} beyond idle states"
    if row["slowest"] is not None:
        line += f"; at most {fixed(row['slowest'])} % slower"
    return line + "."


def _place(one: _Judged, judged: list[_Judged]) -> str:
    """Returns the keys that distinguish this group from the others."""
    different = [k for k in KEYS if len({other.base[k] for other in judged}) > 1]
    return " ".join(str(one.base[key]) for key in different if one.base[key])


def _rests_on(results: Results, runs: pl.DataFrame) -> str:
    counted = "instructions" if "instructions" in runs.columns else "units"
    unit = "instruction" if counted == "instructions" else str(runs["unit_of_work"][0])
    counts: list[float] = runs[counted].drop_nulls().cast(pl.Float64).to_list()
    line = f"All of it is modelled, from {wording.count(max(counts, default=0))} {unit}s a run"
    machines = runs["machine"].unique(maintain_order=True).to_list()
    line += f" on {machines[0]}" if len(machines) == 1 else ""
    low, _ = ends("energy_saving_pct")
    if low in runs.columns and runs[low].count() > 0:
        return line + "; ±: half of the 95 % interval over seeds."
    return line + "; one run each, so no interval of the difference is known."


def _cost(row: Row, base: Row) -> str:
    slower = row.get("slowdown_pct")
    parts: list[str] = []
    if slower is not None:
        parts.append(_slower(row, slower))
    ours, theirs = row.get("latency_p99_us"), base.get("latency_p99_us")
    if ours is not None and theirs is not None:
        before, now = wording.duration(theirs), wording.duration(ours)
        parts.append(f"p99 {now}" if before == now else f"p99 {before} -> {now}")
    lost = row.get("lost_pct")
    if lost is not None and lost > 0.0005:
        parts.append(f"{fixed(lost, 3)} % lost")
    return ", ".join(parts) or "at a cost that is not known"


def _slower(row: Row, slower: float) -> str:
    if fixed(slower) == fixed(0.0):
        return "as fast"
    if slower >= 100:
        times = 1 + slower / 100
        return (
            f"{times:.1f} times as slow"
            if times < 100
            else f"{wording.figure(times)} times as slow"
        )
    by = _with_interval(row, "slowdown_pct").removeprefix("-")
    return f"{by} % {'slower' if slower > 0 else 'faster'}"


def _half(row: Row, column: str) -> float | None:
    low, high = (row.get(end) for end in ends(column))
    return None if low is None or high is None else (high - low) / 2


def _with_interval(row: Row, column: str, *, short: bool = False) -> str:
    value, half = row[column], _half(row, column)
    text = wording.percent(value).removesuffix(" %") if short else fixed(value)
    return text if half is None else f"{text} ±{fixed(half)}"


def _may_be_chance(row: Row, column: str) -> bool:
    """Returns whether its 95 % interval over seeds includes no saving."""
    half = _half(row, column)
    return half is not None and row[column] - half <= 0
