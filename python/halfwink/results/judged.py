"""One workload on one machine: what is best there, at what cost, and what would add to it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from halfwink.results import wording
from halfwink.results.costs import (
    FEW,
    compared,
    cost_of,
    less,
    limits,
    no_less,
    percents,
    too_short,
)
from halfwink.results.judgement import (
    AS_GOOD_PCT,
    LEAST_PCT,
    SLOWER_PCT,
    WORTH_PCT,
    Group,
    how,
    usual,
)
from halfwink.results.paired import Saving
from halfwink.results.relate import KEYS
from halfwink.results.summary import energy, fixed

Row = dict[str, Any]

#: What takes so many times as long is no price, but work that is not done.
DEAREST = 100.0
#: A technique is said to be faster than the answer if it takes at most so much of its time.
FASTER = 0.9
#: What one of a world's machines is.
ONE = {
    "chip": "chip",
    "router": "router",
    "server": "pair of servers",
    "node": "server",
    "racks": "network",
}
#: Ways to state the rate of a closed loop.
STATED = {"storage": " (--set rate_kiops=100)"}
#: What stands before a technique that needs more than a machine of today has.
WITH = {
    "kernel": "With a changed kernel or firmware",
    "silicon": "With hardware that is not sold today",
}
HOURS_A_YEAR = 24 * 365.25
#: Savings of a winner, each with the ends of its interval.
SAVINGS = ("saving", "beyond_today")


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
        for name, other in zip(SAVINGS, against, strict=True):
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
                f"{self._at_full_speed(today)} Power at one rate is not known: state a rate"
                f"{STATED.get(self.group.world, '')}.",
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
        return f"{less(self.saved(name, beside))} than {beside}"

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
