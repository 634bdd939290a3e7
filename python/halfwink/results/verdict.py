"""Sentences of a comparison: what is best today, at what cost, and what would add to it.

results = hw.compare("nginx", techniques=["idle-menu", "tap"])
print(results.verdict())
"""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from halfwink.results import saw_tooth, wording
from halfwink.results.assumed_watts import is_uncertain
from halfwink.results.costs import cost_of, less, limits, no_less, percents
from halfwink.results.judged import SAVINGS, WITH, Judged, is_judged
from halfwink.results.judgement import (
    WORTH_PCT,
    groups,
)
from halfwink.results.relate import IDENTITY, KEYS
from halfwink.results.summary import fixed, has_assumed

if TYPE_CHECKING:
    from halfwink.results.results import Results

#: Beginning of a load of clients that wait for their answers.
CLIENTS = "clients:"
Row = dict[str, Any]

#: Workloads that a sentence names.
NAMED = 6
#: Requests of a core below which intervals may be too narrow (docs/verdict.md: 24 seeds).
ENOUGH = 9_000
#: Times that queues should fill and empty in a run, of which intervals are made.
OFTEN = 10.0


@dataclass(frozen=True)
class Verdict:
    """Sentences that a comparison comes to. Every figure is modelled.

    Attributes:
        sentences: the sentences, the answer first; without techniques to compare, what is missing.
        winners: one row for each workload, machine and values set: the ``technique`` with the least
            energy of those that keep the limits, and what it ``needs``; ``saving_pct`` at equal
            work and equal time, ``slowdown_pct`` and ``saved_w`` against the baseline;
            ``saved_kwh_a_year`` of one machine under an open load, null of a closed one; ``today``,
            the best of today, and ``beyond_today_pct`` against that. Savings have the ends of their
            95 % interval where it is known.
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
    """Returns what these results say."""
    slices = results.tables.get("slices")
    whose = (results.world, results.baseline, results.baseline_machine)
    found = groups(results.runs, slices, *whose, results.tables.get("ledger"))
    judged = [Judged(group) for group in found if is_judged(group)]
    winners = pl.DataFrame([one.row() for one in judged if one.keeps_up], schema=_SCHEMA)
    if not judged:
        line = f"Nothing was compared with {results.baseline}: name a technique beside it."
        return Verdict((line, *saw_tooth.sentences(results)), winners)
    lines = judged[0].sentences() if len(judged) == 1 else of_many(judged)
    lines += saw_tooth.sentences(results)
    return Verdict((*lines, _rests_on(results, judged)), winners)


_SCHEMA = (
    dict.fromkeys((*KEYS, "technique", "needs", "today"), pl.String)
    | {f"{name}{end}_pct": pl.Float64 for name in SAVINGS for end in ("", "_low", "_high")}
    | dict.fromkeys(("slowdown_pct", "saved_w", "saved_kwh_a_year"), pl.Float64)
)


def of_load(one: Judged, different: Sequence[str]) -> str:
    """Returns what is best today at one load of a service, and what would add to it. ``different``
    are the keys that tell the groups of the comparison apart."""
    service, _, load = str(one.base["workload"]).partition("@")
    where = f"At {one.base['load_pct']:.3g} % load"
    if load.startswith(CLIENTS):
        count, _, rest = load.removeprefix(CLIENTS).partition(":")
        where = f"With {count} client{'' if count == '1' else 's'} ({rest.replace(':', ', ')})"
    told = {"workload": f" of {service}", "machine": f" on {one.base['machine']}"}
    told["set"] = f" with {one.base['set']}" if one.base["set"] else ""
    where += "".join(told[key] for key in different)
    base, today = one.group.baseline, one.today
    if not one.keeps_up:
        return f"{where} the server cannot keep up: nothing is compared."
    if not one.group.is_of_today:
        line = f"{where} nothing that runs today was compared"
    elif not one.others:
        line = f"{where} only {base} was compared of what runs today"
    elif today == base:
        line = f"{where} nothing that runs today {no_less(one.nearest.values(), ' energy')}"
        line += f" than {base}{one.within}"
    else:
        cost = cost_of(one.group, today, base)
        amount = one.amount(today, base)
        least = f"{one.near}the least energy of what runs today"
        line = f"{where} {today} uses {least}: {amount}{one.at_rate}, {cost}"
    for need, name, best, is_better in one.steps:
        if is_better:
            line += f". {WITH[need]}, {name} uses {percents(one.saved(name, today))} less than"
            line += f" {today}"
        elif best != today:
            line += f". {WITH[need]}, nothing {no_less([one.saved(name, best)])} than {best}"
    if beyond := one.beyond_limits():
        line += f". {beyond}" + ("" if one.within else f"; the limits are {limits(one.group)}")
    return f"{line}."


def of_many(judged: list[Judged]) -> list[str]:
    """Sentences over several workloads: what is best today where, and what adds to it where; of
    one service under several loads, one for each load."""
    if all(one.base.get("load_pct") is not None for one in judged):
        services = {str(one.base["workload"]).partition("@")[0] for one in judged}
        different = ["workload"] if len(services) > 1 else []
        different += [k for k in KEYS[1:] if len({one.base[k] for one in judged}) > 1]
        return [of_load(one, different) for one in judged]
    lines = _steadiest(judged)
    for name, where in _by(judged, lambda one: one.today):
        names = _places(where, judged)
        baseline = where[0].group.baseline
        if not where[0].group.is_of_today:
            lines.append(f"Nothing that runs today was compared on {names}.")
            continue
        if name != baseline:
            near = next((one.near for one in where if one.near), "")
            line = f"{name} uses {near}the least energy of what runs today on {names}: "
            lines.append(
                f"{line}{_spanned(where, name, lambda one: one.group.baseline)} than {baseline}."
            )
            continue
        limited = any(one.greedy for one in where)
        within = f" within the limits ({limits(where[0].group)})" if limited else ""
        found = [saved for one in where for saved in one.nearest.values()]
        line = f"Nothing that runs today {no_less(found, ' energy')} than {baseline} on {names}"
        lines.append(f"{line}{within}.")
    for need in WITH:
        adds = [one for one in judged if need in one.added]
        for name, where in _by(adds, lambda one, need=need: one.added[need]):
            amount = _spanned(where, name, lambda one: one.today)
            line = f"{WITH[need]}, {name} uses {amount} than the best of today"
            lines.append(f"{line} on {_places(where, judged)}.")
    for name, where in _by([one for one in judged if one.greedy], lambda one: str(one.greedy)):
        savings = [one.saved(name, one.group.baseline).value for one in where]
        slower = [one.group.rows[name].get("slowdown_pct") or 0.0 for one in where]
        broken = ", ".join(dict.fromkeys(b for one in where for b in one.group.breaks(name)))
        line = f"{name} would save {wording.span(savings)} on {_places(where, judged)} "
        line += f"and breaks a limit ({broken}): "
        line += wording.span_of(slower, "slower", "faster")
        lines.append(f"{line}; the limits are {limits(where[0].group)}.")
    return lines


def _spanned(where: list[Judged], name: str, beside: Callable[[Judged], str]) -> str:
    """Returns how much less energy a technique uses than another, or more: of one workload with its
    interval, of several from the least to the most."""
    savings = [one.saved(name, beside(one)) for one in where]
    if len(savings) > 1:
        return wording.span_of([saved.value for saved in savings], "less", "more")
    return less(savings[0])


def _by(judged: list[Judged], key: Callable[[Judged], str]) -> list[tuple[str, list[Judged]]]:
    found: dict[str, list[Judged]] = {}
    for one in judged:
        found.setdefault(key(one), []).append(one)
    return sorted(found.items(), key=lambda item: -len(item[1]))


def _steadiest(judged: list[Judged]) -> list[str]:
    """The technique of today with the greatest mean saving of those that keep the limits
    everywhere, and what needs more than a machine of today and saves more."""
    first = judged[0].group
    base = first.baseline
    kept = [n for n in first.kept if all(n in one.group.kept for one in judged)]
    means = {
        name: sum(one.saved(name, base).value for one in judged) / len(judged)
        for name in kept
        if name != base and any(one.group.beats(name, base) for one in judged)
    }
    whole = f"Over all {len(judged)}"
    lines: list[str] = []
    most = 0.0
    for need in ("today", *WITH):
        here = [name for name in means if first.needs(name) == need]
        best = max(here, key=lambda name: means[name], default=None)
        if best is None or means[best] < most + WORTH_PCT:
            continue
        most = means[best]
        line = f"{best} saves most of what runs today" if need == "today" else f"{best} saves most"
        line = line if need == "today" else f"{WITH[need][0].lower()}{WITH[need][1:]}, {line}"
        slower = (one.group.rows[best].get("slowdown_pct") for one in judged)
        slowest = max((pct for pct in slower if pct is not None), default=None)
        line = f"{whole}, {line}: {wording.percent(most)} in the mean"
        if slowest is not None:
            way = "faster" if slowest < 0 else "slower"
            line += f"; at {'least' if slowest < 0 else 'most'} {fixed(abs(slowest))} % {way}"
        lines.append(f"{line}.")
    return lines


def _places(where: list[Judged], judged: list[Judged]) -> str:
    """Returns what tells these groups from the others."""
    different = [k for k in KEYS if len({other.base[k] for other in judged}) > 1]
    names = [" ".join(str(one.base[k]) for k in different if one.base[k]) for one in where]
    rest = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + rest


def _rests_on(results: Results, judged: list[Judged]) -> str:
    runs = results.runs
    counted = "instructions" if "instructions" in runs.columns else "units"
    unit = "instruction" if counted == "instructions" else str(runs["unit_of_work"][0])
    counts: list[float] = runs[counted].drop_nulls().cast(pl.Float64).to_list()
    line = f"All of it is modelled, from {wording.count(max(counts, default=0))} {unit}s a run"
    machines = runs["machine"].unique(maintain_order=True).to_list()
    line += f" on {machines[0]}" if len(machines) == 1 else ""
    line += _assumed(runs)
    several = any(len(found) > 1 for one in judged for found in one.group.runs.values())
    savings = [
        saved
        for one in judged
        for name in one.group.rows
        if name != one.group.baseline and (saved := one.group.saving(name, one.group.baseline))
    ]
    if several:
        return f"{line}; in brackets: 95 % intervals over seeds."
    if savings and all(saved.is_exact for saved in savings):
        return f"{line}; power is the same whatever is carried, so that no difference is by chance."
    if any(saved.is_known for saved in savings):
        line += "; in brackets: 95 % intervals of the difference, part by part of the same work"
        return f"{line}{_too_few(results)}."
    return f"{line}; one run each, so no interval of the difference is known."


def _too_few(results: Results) -> str:
    """Says that intervals of a short run on a server may be too narrow: a governor that learns has
    episodes that most short runs do not meet."""
    ledger = results.tables.get("ledger")
    if results.world != "node" or ledger is None:
        return ""
    cores = ledger.filter(pl.col("component").str.contains(r"^core\d+$"))
    counts = cores.group_by(IDENTITY).agg(pl.col("component").n_unique().alias("cores"))
    # What does not keep up finishes fewer requests, however long the run, and is not ranked.
    runs = results.runs.filter(pl.col("keeps_up") != "no")
    of_core = pl.col("units") / pl.col("cores")
    # Queues near saturation fill and empty in so many times of service.
    load = pl.col("load_pct") if "load_pct" in runs.columns else pl.lit(None)
    idle = 1 - load.cast(pl.Float64).fill_null(0.0).clip(0.0, 99.9) / 100
    found = runs.join(counts, on=IDENTITY).select(of_core=of_core, needed=OFTEN / idle**2)
    if found.is_empty():
        return ""
    least, needed = found.select(pl.col("of_core").min(), pl.col("needed").max()).row(0)
    what = "queues near saturation"
    if needed <= ENOUGH or found.filter(pl.col("of_core") < pl.col("needed")).is_empty():
        what, needed = "a governor that learns", ENOUGH
        if least >= ENOUGH:
            return ""
    return (
        f", which may be too narrow: {wording.count(least)} requests a core are few for {what}; "
        f"play {wording.count(needed)} or more"
    )


def _assumed(runs: pl.DataFrame) -> str:
    """Says what is known of watts that no meter read and no publication has."""
    if "power_basis" not in runs.columns or (found := runs.filter(is_uncertain())).is_empty():
        return ""
    low, high = (found[f"power_{end}"].cast(pl.Float64).to_list() for end in ("low", "high"))
    between = f"between {fixed(min(low), 1)} and {fixed(max(high), 1)} times what its file says"
    word = "assumed" if has_assumed(runs) else "estimated"
    line = f", whose watts are {word} (those of each part lie {between})"
    return f"{line}: only per cent mean something" if has_assumed(runs) else line
