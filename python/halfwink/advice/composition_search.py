"""Search for compositions of techniques that take little energy on a server of today.

A composition has one technique for each slot. The search is a beam search: from the best few
compositions it plays each neighbour, which differs in one slot, until no neighbour is better. It
runs for what can be had today, then with a changed kernel, then with hardware that is not sold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from halfwink import _core
from halfwink.errors import HalfwinkError
from halfwink.jobs import Job, Pairs, is_own, technique_list
from halfwink.results.judgement import AS_GOOD_PCT, NEEDS, needs
from halfwink.results.results import Results
from halfwink.results.store import RunStore
from halfwink.runs.comparison import NODE
from halfwink.runs.executors import Executor, Submits
from halfwink.runs.studies import run_all

if TYPE_CHECKING:
    from halfwink.policies.finding import Technique

#: The baseline, which has no technique in any other slot.
USUAL = "menu"
#: Requests of a run that chooses, and of one that is reported.
SCREENED, REPORTED = 50_000, 1_000_000
#: Compositions from which each round goes on.
BEAM = 3
#: Compositions of each need, by energy and by latency, that are played at full length.
FINALISTS = 2
#: A neighbour is better from this share of energy on.
BETTER = 5e-4
#: Values of parameters that are searched; others stay at their defaults.
HOLD_US, LIMITS = (10, 50), (1, 2, 4, 8, 16)
#: Values that Linux recommends for busy polling of few and of many sockets, and those of the
#: benchmark of IRQ suspension.
POLL_US, FLUSH_NS = (50, 100), (20_000, 200_000)
#: Shares of a goal for the 99th percentile for which interrupts may be held back.
OF_GOAL = (0.25, 0.5, 0.8)
#: Linux refuses longer ones in most drivers.
MOST_HOLD_US = 8000
#: Orders that the program of a service gives its workers: no setting of a server changes them.
OF_PROGRAMS = ("lifo", "fifo")
#: Families that fill one slot. Each family of gating, frequency and cache is one.
FAMILIES = (
    "idle",
    "package",
    "dispatch",
    "input",
    "preheat",
    "gating",
    "dvfs",
    "offload",
    "segregation",
)

#: The option of each slot, in the order of `FAMILIES`; empty where the slot stays as it is.
Point = tuple[str, ...]


@dataclass
class Question:
    """A service, a server and a load, and the limit on the 99th percentile.

    Attributes:
        job: the baseline's job.
        goal_us: the 99th percentile must not be longer, in microseconds. If none is given, not
            longer than the limits of a comparison allow over the baseline's.
        more: options of slots beside the usual ones: policies of users, other parameters.
    """

    job: Job
    goal_us: float | None
    store: RunStore
    executor: Executor | Submits | None = None
    tell: Callable[[str], None] | None = None
    more: Sequence[str] = ()

    def play(
        self, techniques: Sequence[str], requests: int, changed: Sequence[Pairs] = ((),)
    ) -> Results:
        """Plays the baseline and techniques with so many requests, and relates them; under each of
        these changes of the server's values."""
        options = (*self.job.options, ("requests", str(requests)))
        jobs = [
            replace(self.job, technique=name, set=(*self.job.set, *more), options=options)
            for more in changed
            for name in dict.fromkeys((USUAL, *techniques))
        ]
        return run_all(jobs, baseline=USUAL, store=self.store, executor=self.executor)

    def keeps(self, row: Mapping[str, Any]) -> bool:
        """Returns whether a run keeps the goal, and does the work that comes."""
        if row["keeps_up"] == "no":
            return False
        if self.goal_us is None:
            return not row["breaks"]
        return row["latency_p99_us"] is not None and row["latency_p99_us"] <= self.goal_us


@dataclass
class Search:
    """Compositions that were played, and the options that slots have."""

    question: Question
    options: dict[str, list[str]]
    rows: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])

    @staticmethod
    def of(question: Question) -> Search:
        """Finds what the server, and the profile of the service, can play.

        Raises:
            HalfwinkError: an option that the question adds cannot be played.
        """
        options: dict[str, list[str]] = {family: [] for family in FAMILIES}
        for technique in _core.techniques():
            family, name = technique["family"], technique["name"]
            if NODE not in technique["worlds"] or family not in options or name == USUAL:
                continue
            if technique["available"] == "bound" or name in OF_PROGRAMS:
                continue
            names = _with_parameters(name, question.goal_us)
            options[family] += [n for n in names if is_possible(replace(question.job, technique=n))]
        for name in question.more:
            replace(question.job, technique=name).prepare()
            known = options[slot_of(name)]
            known += [name] if name not in known else []
        return Search(question, options)

    def run(self, most: str) -> None:
        """Plays compositions of each need, up to ``most``, until none is better."""
        beam: list[Point] = [("",) * len(FAMILIES)]
        for need in NEEDS[: NEEDS.index(most) + 1]:
            allowed = {
                family: ["", *(option for option in options if needs_at_most(option, need))]
                for family, options in self.options.items()
            }
            beam = self._climb(beam, allowed)

    def _climb(self, beam: list[Point], allowed: Mapping[str, Sequence[str]]) -> list[Point]:
        """Returns the best compositions that single steps lead to."""
        self._play(beam)
        while True:
            around = {
                (*point[:n], option, *point[n + 1 :])
                for point in beam
                for n, family in enumerate(FAMILIES)
                for option in allowed[family]
            }
            self._play(sorted(around))
            known = [p for p in sorted(around | set(beam)) if name_of(p) in self.rows]
            found = sorted(known, key=lambda point: self._rank(name_of(point)))[:BEAM]
            if not self._is_better(found, beam):
                return found
            beam = found

    def _rank(self, name: str) -> tuple[bool, float, int]:
        """Returns the sort key of a composition: those that keep the goal come first and by energy,
        others by their p99, and of those that agree in four digits the one with the fewest
        techniques."""
        row = self.rows[name]
        keeps = self.question.keeps(row)
        cost = row["energy_j_per_unit"] if keeps else row["latency_p99_us"] or float("inf")
        return not keeps, float(f"{cost:.4g}"), 0 if name == USUAL else 1 + name.count("+")

    def _is_better(self, ours: Sequence[Point], theirs: Sequence[Point]) -> bool:
        """Returns whether the best of some compositions is better than the best of others."""
        ranks = (min(self._rank(name_of(point)) for point in points) for points in (ours, theirs))
        (misses, cost, _), (missed, before, _) = ranks
        return misses < missed or (misses == missed and cost < (1 - BETTER) * before)

    def _play(self, points: Sequence[Point]) -> None:
        new = [n for n in dict.fromkeys(map(name_of, points)) if n not in self.rows]
        new = [n for n in new if is_possible(replace(self.question.job, technique=n))]
        if not new:
            return
        if self.question.tell is not None:
            self.question.tell(f"{len(self.rows)} compositions played, {len(new)} more")
        runs = self.question.play(new, SCREENED).runs
        self.rows |= {row["technique"]: row for row in runs.to_dicts()}

    def frame(self) -> pl.DataFrame:
        """Returns all compositions that were played, by energy."""
        columns = ["technique", "energy_j_per_unit", "latency_mean_us", "latency_p99_us"]
        rows = [
            {name: row[name] for name in columns}
            | {"needs": needs(technique, NODE), "keeps_goal": self.question.keeps(row)}
            for technique, row in self.rows.items()
        ]
        return pl.DataFrame(rows).sort("energy_j_per_unit")

    def finalists(self, need: str) -> list[str]:
        """Returns compositions that need no more than ``need``: those with the least energy, and of
        those that take about as much the ones that answer soonest."""
        by_energy = self._useful(need)
        if not by_energy:
            return []
        misses, least, _ = self._rank(by_energy[0])
        most = (misses, least * (1 + AS_GOOD_PCT / 100))
        near = [name for name in by_energy if self._rank(name)[:2] <= most]
        soonest = sorted(near, key=lambda name: self.rows[name]["latency_mean_us"])
        return list(dict.fromkeys([*by_energy[:FINALISTS], *soonest[:FINALISTS]]))

    def keeping(self, need: str) -> list[str]:
        """Returns compositions that need no more than ``need`` and keep the goal, by energy."""
        return [name for name in self._useful(need) if self.question.keeps(self.rows[name])]

    def with_option(self, option: str) -> str:
        """Returns the best composition that has this option in its slot."""
        return min((n for n in self.rows if option in n.split("+")), key=self._rank)

    def _useful(self, need: str) -> list[str]:
        """Returns compositions that need no more than ``need``, each part of which does something,
        the best first."""
        names = [n for n in self.rows if n != USUAL and needs_at_most(n, need)]
        return sorted((n for n in names if not self._is_idle_part(n)), key=self._rank)

    def _is_idle_part(self, name: str) -> bool:
        """Returns whether a composition has a technique without which it is as good."""
        parts, row = name.split("+"), self.rows[name]
        for part in parts:
            other = self.rows.get("+".join(p for p in parts if p != part) or USUAL)
            if other is not None and all(
                other[column] <= (1 + BETTER) * row[column]
                for column in ("energy_j_per_unit", "latency_mean_us", "latency_p99_us")
            ):
                return True
        return False


def checked_options(
    given: Technique | Sequence[Technique] | None, *, only_today: bool
) -> list[str]:
    """Returns options of slots as texts.

    Raises:
        HalfwinkError: one cannot be an option of the search.
    """
    options = technique_list(given) or []
    for name in options:
        slot_of(name)
        if needs(name, NODE) == NEEDS[-1]:
            raise HalfwinkError(f"`{name}` knows what is to come: nothing can be set to it")
        if only_today and needs(name, NODE) != NEEDS[0]:
            raise HalfwinkError(
                f"`{name}` cannot be had today, and the search was to leave out all that cannot"
            )
    return options


def slot_of(technique: str) -> str:
    """Returns the family in `FAMILIES` whose slot a technique with its parameters fills.

    Raises:
        HalfwinkError: the technique fills no slot of the search, or several.
    """
    name = technique.partition(":")[0]
    if is_own(name):
        is_within = _core.techniques([name])[0]["is_within_requests"]
        return "gating" if is_within else "idle"
    families = {t["name"]: t["family"] for t in _core.techniques() if NODE in t["worlds"]}
    if families.get(name) not in FAMILIES:
        raise HalfwinkError(
            f"`{technique}`: expected one technique of a server, also with parameters "
            "(coalesce:hold_us=20), or a policy of your own (./my-gate.wasm)"
        )
    return families[name]


def name_of(point: Point) -> str:
    """Returns the composition's name: what is in its slots, joined."""
    return "+".join(option for option in point if option) or USUAL


def needs_at_most(composition: str, need: str) -> bool:
    """Returns whether a composition needs no more than this: today, a changed kernel, silicon."""
    return NEEDS.index(needs(composition, NODE)) <= NEEDS.index(need)


def holds(goal_us: float | None) -> list[int]:
    """Returns the times for which interrupts are held back in the search, in whole microseconds as
    ethtool takes them."""
    shares = (float(f"{share * goal_us:.2g}") for share in OF_GOAL if goal_us)
    found = {*HOLD_US, *(max(round(hold), 1) for hold in shares)}
    return sorted(hold for hold in found if hold <= MOST_HOLD_US)


def _with_parameters(technique: str, goal_us: float | None) -> list[str]:
    """Returns a technique with each value that is searched."""
    if technique == "packing":
        return [f"packing:limit={limit}" for limit in LIMITS]
    if technique == "coalesce":
        return [f"coalesce:hold_us={hold}" for hold in holds(goal_us)]
    if technique == "busy-poll":
        return [f"busy-poll:usecs={usecs}" for usecs in POLL_US]
    if technique == "irq-suspend":
        return [f"irq-suspend:empty_polls=100,flush_ns={flush}" for flush in FLUSH_NS]
    return [technique]


def is_possible(job: Job) -> bool:
    """Returns whether a job can be prepared: its machine has all that its names need."""
    try:
        job.prepare()
    except HalfwinkError:
        return False
    return True
