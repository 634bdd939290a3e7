"""Sentences of a comparison: what is best today, at what cost, and what would add to it.

results = hw.compare("nginx", techniques=["idle-menu", "tap"])
print(results.verdict())
"""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl

from halfwink.results import saw_tooth, wording
from halfwink.results.assumed_watts import is_uncertain
from halfwink.results.costs import FEW, compared, cost_of, limits, no_less, percents, too_short
from halfwink.results.judgement import (
    AS_GOOD_PCT,
    LEAST_PCT,
    SLOWER_PCT,
    WORTH_PCT,
    Group,
    groups,
    how,
    usual,
)
from halfwink.results.paired import Saving
from halfwink.results.relate import IDENTITY, KEYS
from halfwink.results.summary import energy, fixed, has_assumed

if TYPE_CHECKING:
    from halfwink.results.results import Results

#: Beginning of a load of clients that wait for their answers.
CLIENTS = "clients:"
Row = dict[str, Any]

#: What takes so many times as long is no price, but work that is not done.
DEAREST = 100.0
#: A technique is said to be faster than the answer if it takes at most so much of its time.
FASTER = 0.9
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
#: What stands before a technique that needs more than a machine of today has.
WITH = {
    "kernel": "With a changed kernel or firmware",
    "silicon": "With hardware that is not sold today",
}
HOURS_A_YEAR = 24 * 365.25
#: Requests of a core below which intervals may be too narrow (docs/verdict.md: 24 seeds).
ENOUGH = 9_000


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


_SAVINGS = ("saving", "beyond_today")
_SCHEMA = (
    dict.fromkeys((*KEYS, "technique", "needs", "today"), pl.String)
    | {f"{name}{end}_pct": pl.Float64 for name in _SAVINGS for end in ("", "_low", "_high")}
    | dict.fromkeys(("slowdown_pct", "saved_w", "saved_kwh_a_year"), pl.Float64)
)


def is_judged(group: Group) -> bool:
    """Returns whether a group has its baseline, and anything to compare with it."""
    base = group.rows.get(group.baseline)
    others = (name for name in group.rows if name != group.baseline)
    return base is not None and any(group.saving(name, group.baseline) for name in others)


@dataclass(frozen=True)
class Judged:
    """One workload on one machine."""

    group: Group

    @property
    def base(self) -> Row:
        """Returns the row of the baseline."""
        return self.group.rows[self.group.baseline]

    @property
    def keeps_up(self) -> bool:
        """Returns whether the baseline does the work that comes; without it nothing is compared."""
        return self.base.get("keeps_up") != "no"

    @property
    def one(self) -> str:
        """Returns what the energies are of, in words: one of the world's machines, or a fleet."""
        one, many = ONE.get(self.group.world, "machine"), self.base.get("servers") or 1
        return one if many == 1 else f"{many} {one.replace('pair', 'pairs', 1)}"

    @property
    def today(self) -> str:
        """The best of today."""
        return self.group.today

    @property
    def is_closed(self) -> bool:
        """Returns whether a faster technique does the same work in less time."""
        return self.base.get("load") == "closed"

    @property
    def is_assumed(self) -> bool:
        """Returns whether its machine's watts are assumed: then only per cent mean something."""
        return self.base.get("power_basis") == "assumed"

    @property
    def about(self) -> str:
        """Returns the word before watts that are estimated."""
        return "about " if self.base.get("power_basis") == "estimated" else ""

    @cached_property
    def winner(self) -> str:
        """The technique with the least energy of all that keep the limits."""
        return next(reversed(self.added.values()), self.today)

    @cached_property
    def greedy(self) -> str | None:
        """Saves more than the best, and breaks a limit."""
        dear = [
            name
            for name in self.group.rows
            if self.group.breaks(name) and self.group.needs(name) != "bound"
            if self.group.time(name) <= DEAREST
            if "does not keep up" not in self.group.breaks(name)
        ]
        best = self.group.best(dear, self.winner)
        return best if best is not None and self.group.beats(best, self.winner) else None

    def saved(self, ours: str, base: str) -> Saving:
        """Returns what is saved; nothing by a technique of itself."""
        return Saving(0.0) if ours == base else self.group.saving(ours, base) or Saving(0.0)

    def watts(self, technique: str) -> tuple[float, float] | None:
        """Power of a technique and of the baseline at the same rate of work, means over seeds; none
        where that is not known."""
        known = self.group.evens(technique)
        if known is None:
            return None
        then = sum(one.base_j / one.duration_s for one in known) / len(known)
        return then - sum(one.saved_w for one in known) / len(known), then

    def row(self) -> Row:
        """Returns its row of :attr:`Verdict.winners`."""
        watts = None if self.is_assumed else self.watts(self.winner)
        saved_w = watts[1] - watts[0] if watts else None
        best = self.group.rows[self.winner]
        cells: Row = {key: self.base[key] for key in KEYS}
        cells |= {"technique": self.winner, "needs": self.group.needs(self.winner)}
        cells |= {"today": self.today, "slowdown_pct": best.get("slowdown_pct")}
        against = (self.group.baseline, self.today)
        for name, other in zip(_SAVINGS, against, strict=True):
            saved = self.saved(self.winner, other)
            cells |= {f"{name}_pct": saved.value}
            cells |= {f"{name}_low_pct": saved.low, f"{name}_high_pct": saved.high}
        a_year = None
        if saved_w is not None and not self.is_closed:
            a_year = saved_w * HOURS_A_YEAR / 1000
        return cells | {"saved_w": saved_w, "saved_kwh_a_year": a_year}

    def sentences(self) -> list[str]:
        """Returns what is best today, what it saves, what would add to it, and what the limits
        exclude."""
        one = self.one
        if not self.keeps_up and self.base["units"] < FEW:
            few = f"Only {self.base['units']} {self.base['unit_of_work']}s were counted"
            return [f"{few}: too few to compare anything."]
        if not self.keeps_up:
            return [f"The {one} cannot keep up with this load: nothing is compared."]
        lines = [*self._best_of_today(), *self._power(), *self._beyond()]
        return [*lines, *self._fastest(), *self._greedy(), *self._leanest(), *self._bound()]

    def _best_of_today(self) -> list[str]:
        base, today = self.group.baseline, self.today
        if today != base:
            unit = self.base["unit_of_work"]
            now, then = (self.group.rows[n]["energy_j_per_unit"] for n in (today, base))
            amount = self.amount(today, base)
            line = f"{today} uses {self.near}the least energy of what runs today"
            cost = cost_of(self.group, today, base) + self._usually(today)
            if not self.is_closed or self.group.is_same_rate(today):
                each = f" ({self.about}{energy(now)} instead of {energy(then)} per {unit})"
                is_told = now is not None and then is not None and not self.is_assumed
                line += f": {amount}{each if is_told else ''}, {cost}."
                return [line, *self._other_rate(today)]
            if self.watts(today) is not None:
                rate = self._rate(self.base)
                return [f"At {base}'s rate, {rate}, {line}: {amount}; at full speed it is {cost}."]
            return [
                f"At full speed {line}: {amount} for each {unit}, {cost}.",
                f"{self._at_full_speed(today)} Power at one rate is not known: state a rate.",
            ]
        default = usual(self.group.world)
        if not self.group.is_of_today:
            add = "" if default is None or default in self.group.rows else f": add {default}"
            return [f"Nothing that runs today was compared{add}."]
        if not self.others and default is not None and default not in self.group.rows:
            return [f"Of what runs today only {base} was compared: add {default}."]
        return [self._nothing()] if self.others else []

    def amount(self, name: str, beside: str) -> str:
        """Returns how much less energy than another a technique uses, or more."""
        saved = self.saved(name, beside)
        if saved.value < 0:
            return f"{percents(saved.opposite)} more than {beside}"
        return f"{percents(saved)} less than {beside}"

    def _other_rate(self, name: str) -> list[str]:
        """Returns what both do at an open load that one of them does not carry in full."""
        ours, base = (
            row["units"] / row["duration_s"] for row in (self.group.rows[name], self.base)
        )
        is_other = not self.is_closed and abs(ours - base) > WORTH_PCT / 100 * base > 0
        return [self._at_full_speed(name)] if is_other else []

    def _usually(self, name: str) -> str:
        """Returns why a technique may be slower than others: it is what usually runs, or no slower
        than that."""
        default = usual(self.group.world)
        if self.group.time(name) <= 1 + SLOWER_PCT / 100 or default is None:
            return ""
        return f" ({'' if name == default else f'as slow as {default}, '}the usual)"

    @cached_property
    def others(self) -> list[str]:
        """Returns what runs today beside the baseline."""
        group = self.group
        return [n for n in group.rows if n != group.baseline and group.needs(n) == "today"]

    @property
    def near(self) -> str:
        """Returns how near the best of today is to the least energy, if another one uses less and
        answers later."""
        return f"within {AS_GOOD_PCT:g} % of " if self.group.has_leaner else ""

    @cached_property
    def steps(self) -> list[tuple[str, str, str, bool]]:
        """Returns for each need the best technique that has it, the best of what needs less, and
        whether the first uses less."""
        found: list[tuple[str, str, str, bool]] = []
        best = self.today
        for need in WITH:
            names = [n for n in self.group.kept if self.group.needs(n) == need]
            name = self.group.best(names, best)
            if name is not None:
                is_better = self.group.beats(name, best)
                found.append((need, name, best, is_better))
                best = name if is_better else best
        return found

    @cached_property
    def added(self) -> dict[str, str]:
        """Returns for each need the technique that uses less than all that need less."""
        return {need: name for need, name, _, is_better in self.steps if is_better}

    def _nothing(self) -> str:
        base, nearest = self.group.baseline, self.nearest
        line = f"Nothing that runs today {no_less(nearest.values(), ' energy')} than {base} here"
        line += self.within
        for name, saved in nearest.items():
            line += f": {name}, the nearest, {compared(saved)}{too_short(saved, self.base)}"
        return f"{line}."

    @property
    def nearest(self) -> dict[str, Saving]:
        """Returns what runs today, keeps the limits and saves most of what the baseline takes,
        however little, with its saving; nothing if only the baseline does."""
        base = self.group.baseline
        kept = [name for name in self.others if not self.group.breaks(name)]
        name = self.group.best(kept, base)
        return {} if name is None else {name: self.saved(name, base)}

    @property
    def within(self) -> str:
        """Returns the limits in words, if something of today would use less without them."""
        broken = (n for n in self.others if self.group.breaks(n))
        base = self.group.baseline
        is_limited = any(self.group.beats(name, base, LEAST_PCT) for name in broken)
        return f" within the limits ({limits(self.group)})" if is_limited else ""

    def _power(self) -> list[str]:
        """Returns what the best of today, or else the winner, saves in watts."""
        best, base = self.today, self.group.baseline
        if self.is_assumed or best == base or (watts := self.watts(best)) is None:
            return []
        now, then = watts
        if now > then:
            # The baseline needs more than a machine of today has.
            return []
        one, many = self.one, self.base.get("servers") or 1
        if self.is_closed:
            saved, whole = wording.si(then - now), wording.si(then)
            line = f"saves {self.about}{saved}W of the {wording.possessive(one)} {whole}W"
            if self.group.is_same_rate(best):
                return [f"At this rate, {self._rate(self.base)}, that {line}."]
            return [f"At that rate it {line}, with its idle floor for the time left."]
        kwh = wording.figure((then - now) * HOURS_A_YEAR / 1000)
        saved, whole = f"{self.about}{wording.si(then - now)}W", f"{wording.si(then)}W"
        line = f"At this load that saves {saved} of the {wording.possessive(one)} {whole}"
        return [f"{line}: {kwh} kWh {'a' if many > 1 else f'per {one} and'} year."]

    def _beyond(self) -> list[str]:
        """Returns what a changed kernel and new hardware add to the best of today, and to each
        other."""
        lines: list[str] = []
        for need, name, best, is_better in self.steps:
            saved = self.saved(name, self.today if is_better else best)
            if not is_better:
                why = f"{name}, the nearest, {compared(saved)}{too_short(saved, self.base)}"
                lines.append(f"{WITH[need]}, nothing {no_less([saved])} than {best}: {why}.")
                continue
            cost = cost_of(self.group, name, self.today)
            line = f"{WITH[need]}, {name} uses {percents(saved)} less than {self.today}"
            line += self._beyond_watts(name)
            by = how(name, self.group.world)
            lines.append(f"{line}, {cost}" + (f"; it needs {by}." if by else "."))
        return lines

    def _beyond_watts(self, name: str) -> str:
        now, then = self.watts(name), self.watts(self.today)
        if self.is_assumed or now is None or then is None:
            return ""
        return f" ({self.about}{wording.si(then[0] - now[0])}W of {wording.si(then[0])}W)"

    def _fastest(self) -> list[str]:
        kept = [n for n in self.group.kept if n != self.winner]
        fastest = min(kept, key=lambda name: self.group.time(name), default=None)
        if fastest is None:
            return []
        if self.group.time(fastest) > FASTER * min(self.group.time(self.winner), 1):
            return []
        saved = compared(self.saved(fastest, self.group.baseline))
        cost = cost_of(self.group, fastest, self.group.baseline)
        return [f"{fastest} is fastest: {cost}; it {saved}."]

    def _greedy(self) -> list[str]:
        found = self.beyond_limits()
        return [f"{found}; the limits are {limits(self.group)}."] if found else []

    def beyond_limits(self) -> str | None:
        """Returns what would save more than the best, and which limit it breaks."""
        if (name := self.greedy) is None:
            return None
        saved = self.saved(name, self.group.baseline)
        broken = ", ".join(self.group.breaks(name))
        cost = cost_of(self.group, name, self.group.baseline)
        return f"{name} would save {percents(saved)} and breaks a limit ({broken}): {cost}"

    def _leanest(self) -> list[str]:
        """Names the technique of a closed loop with the least energy for each unit, at full
        speed."""
        if not self.is_closed:
            return []
        rows = {n: self.group.rows[n] for n in self.group.kept}
        rows = {n: row for n, row in rows.items() if row["energy_j_per_unit"]}
        name = min(rows, key=lambda n: rows[n]["energy_j_per_unit"], default=self.group.baseline)
        row, base = rows.get(name, self.base), self.base
        known = self.watts(name) is not None and not self.group.is_same_rate(name)
        if name == self.group.baseline or not known:
            return []
        unit = base["unit_of_work"]
        now, then = (r["energy_j_per_unit"] for r in (row, base))
        less_pct = 100 * (1 - now / then)
        if less_pct < WORTH_PCT:
            return []
        amount = f"{self.about}{energy(now)} instead of {energy(then)}"
        if self.is_assumed:
            amount = f"{fixed(less_pct)} % less"
        line = f"At full speed {name} uses the least energy per {unit}: {amount}."
        return [f"{line} {self._at_full_speed(name)}"]

    def _at_full_speed(self, name: str) -> str:
        does: list[str] = []
        for who, row in ((name, self.group.rows[name]), (self.group.baseline, self.base)):
            watts = f" at {self.about}{wording.si(row['energy_j'] / row['duration_s'])}W"
            does.append(f"{who} does {self._rate(row)}{'' if self.is_assumed else watts}")
        return f"{does[0]}, {does[1]}."

    @property
    def at_rate(self) -> str:
        """Returns at which rate a closed loop's energies are compared, if the best of today does
        not come to it by itself."""
        if not self.is_closed or self.group.is_same_rate(self.today):
            return ""
        return f" at {self.group.baseline}'s rate ({self._rate(self.base)})"

    def _rate(self, row: Row) -> str:
        return f"{wording.count(row['units'] / row['duration_s'])} {row['unit_of_work']}s a second"

    def _bound(self) -> list[str]:
        names = [n for n in self.group.rows if self.group.needs(n) == "bound"]
        best = self.group.best(names, self.today)
        if best is None or not self.group.beats(best, self.today):
            return []
        saved = percents(self.saved(best, self.today))
        line = f"{best}, which knows the future, uses {saved} less than {self.today}"
        # What knows the future chooses as well as it can, but perhaps among fewer states.
        is_beaten = any(self.group.beats(name, best, LEAST_PCT) for name in self.group.kept)
        return [f"{line}{'' if is_beaten else ': a bound'}."]


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
        line += f"and breaks a limit ({broken}): {wording.span(slower)} slower"
        lines.append(f"{line}; the limits are {limits(where[0].group)}.")
    return lines


def _spanned(where: list[Judged], name: str, beside: Callable[[Judged], str]) -> str:
    """Returns how much less energy a technique uses than another: of one workload with its
    interval, of several from the least to the most."""
    savings = [one.saved(name, beside(one)) for one in where]
    if len(savings) > 1:
        return f"{wording.span([saved.value for saved in savings])} less"
    (saved,) = savings
    return f"{percents(saved)} less" if saved.value >= 0 else f"{percents(saved.opposite)} more"


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
    found = runs.join(counts, on=IDENTITY).select(pl.col("units") / pl.col("cores"))
    least: Any = found.to_series().min()
    if least is None or least >= ENOUGH:
        return ""
    return (
        f", which may be too narrow: {wording.count(least)} requests a core are few for a governor "
        f"that learns; play {wording.count(ENOUGH)} or more"
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
