"""Advice for a fleet along a day of load: what to set, and which servers to let sleep.

advice = hw.advise_day("nginx", day="counts:day.csv", servers=1000, p99_us=200)
print(advice)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from math import ceil
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import polars as pl

from halfwink.advice.advice import (
    MOST_SERVERS,
    checked_goal,
    service_of,
)
from halfwink.advice.composition_search import (
    USUAL,
    Question,
    Search,
    checked_options,
    needs_at_most,
)
from halfwink.advice.fleet_day import SLEEP_W, WAKE_S, Curve, Day, Fleet, Plan, on_line
from halfwink.advice.linux_lines import linux_lines
from halfwink.errors import HalfwinkError
from halfwink.files import Place, place
from halfwink.jobs import Job, Settings, counted, pairs
from halfwink.models.circuits import fabric
from halfwink.results import wording
from halfwink.results.judged import HOURS_A_YEAR, WITH
from halfwink.results.judgement import (
    AS_GOOD_PCT,
    NEEDS,
    P99_PCT,
    SLOWER_PCT,
    WORTH_PCT,
    Group,
    groups,
    how,
    needs,
)
from halfwink.results.results import Results
from halfwink.results.store import RunStore, temporary_store
from halfwink.runs.comparison import NODE, check_services, default_machine
from halfwink.runs.executors import Executor, Submits
from halfwink.runs.studies import keep, run_all

if TYPE_CHECKING:
    import altair as alt

    from halfwink.policies.finding import Technique

#: Loads that are played, in per cent of what a server carries.
LOADS = (0.1, 1, 2, 5, 10, 15, 20, 30, 40, 50, 60, 70, 80)
#: Requests of each run of these.
REQUESTS = 200_000
#: What is assumed is also tried at these multiples.
MULTIPLES = (0.5, 2.0)
#: A file that spans less, in hours, is no day: nothing is told of a year.
LEAST_HOURS = 20.0
#: Compositions of each need that are played at all loads.
FINALISTS = 3


@dataclass(frozen=True)
class DayAdvice:
    """A recommendation for a day of a fleet. Every figure is modelled.

    Attributes:
        today: the composition to set on all servers, of what can be had today.
        keeps_goal: true if it keeps the goal in each step.
        plans: a row for each composition, with all servers awake and with some asleep: what it
            needs, mean watts of the fleet, saving against ``menu`` on all servers, longest 99th
            percentile, share of steps that break the goal, servers awake.
        steps: a row for each step: load, and watts and 99th percentile of ``menu``, of ``today``,
            and of ``asleep`` (``today`` if that is empty) with servers that sleep.
        results: the runs at steady loads.
        linux: lines that set ``today`` on Linux.
        asleep: the composition for the servers that stay awake where others sleep; empty if that
            saves nothing.
        linux_asleep: lines that set it.
        scaled_by: factor by which the counts of the day were multiplied.
        sentences: the answer in words, the most important first.
        goal_us: the goal for the 99th percentile, in microseconds; none if it is relative.
    """

    today: str
    keeps_goal: bool
    plans: pl.DataFrame
    steps: pl.DataFrame
    results: Results
    linux: tuple[str, ...]
    sentences: tuple[str, ...]
    goal_us: float | None = None
    asleep: str = ""
    linux_asleep: tuple[str, ...] = ()
    scaled_by: float = 1.0

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    def chart(self) -> alt.VConcatChart:
        """Draws the day: load, watts of the fleet, 99th percentile."""
        import altair as alt

        from halfwink.report.advice_charts import along_day

        title = alt.Title(wrap(self.sentences[0], 90), anchor="start")
        return along_day(self).properties(title=title)


def advise_day(
    workload: str,
    *,
    day: str,
    servers: int,
    load: float | None = None,
    p99_us: float | None = None,
    machine: str | None = None,
    today: bool = False,
    techniques: Technique | Sequence[Technique] | None = None,
    set: Settings | None = None,
    sleep_w: float = SLEEP_W,
    wake_s: float = WAKE_S,
    reply_kb: float | None = None,
    requests: int | None = None,
    out: Place | str | None = None,
    executor: Executor | Submits | None = None,
    progress: Callable[[str], None] | None = None,
) -> DayAdvice:
    """Searches what to set on all servers of a fleet for a day of load.

    Args:
        workload: service with a profile (``nginx``), or the file of one.
        day: requests of the whole fleet: ``counts:FILE`` (lines ``period,count``; a name alone is
            that), or ``log:FILE``.
        servers: servers of the fleet.
        load: scales the day so that its fullest step is so many per cent of what all servers carry.
        p99_us: longest 99th percentile of latency in any step, in microseconds. If none is given,
            10 % longer than with Linux' defaults on all servers, and 5 % in the mean.
        machine: server of today, or a file.
        today: search only what can be had today.
        techniques: policies of your own (`halfwink.policies`) and techniques with other parameters
            (``coalesce:hold_us=20``), as options beside the usual ones of their slots.
        set: values of the server to change, by path.
        sleep_w: watts of a server that sleeps.
        wake_s: seconds from there to its first request.
        reply_kb: kilobytes that a request and its reply move; then the network is told, too.
        requests: length of each run at a steady load; 200,000 if none is given.
        out: folder or URL in which runs are kept, and reused, and to which tables are written.
        executor: runs jobs elsewhere.
        progress: is called with a line for each round of the search.

    Raises:
        HalfwinkError: a name or value that cannot be, in one line; a load that the fleet does not
            carry.
        RunError: a run failed.
    """
    goal = checked_goal(p99_us)
    if not 1 <= servers <= MOST_SERVERS:
        raise HalfwinkError(f"servers: {servers}, expected 1 to {MOST_SERVERS}")
    if load is not None and not 0 < load < 100:
        raise HalfwinkError(f"load: {load} %, expected above 0, below 100")
    for name, value, most in (("sleep_w", sleep_w, 1e4), ("wake_s", wake_s, 86_400.0)):
        if not 0 <= value <= most:
            raise HalfwinkError(f"{name}: {value}, expected 0 to {most:g}")
    if reply_kb is not None and not 0 < reply_kb <= 1e6:
        raise HalfwinkError(f"reply_kb: {reply_kb}, expected above 0, at most 1000000")
    if "@" in workload:
        raise HalfwinkError(f"`{workload}` has a load: that of the day is in its file")
    check_services([workload])
    more = checked_options(techniques, only_today=today)
    read = Day.read(day)
    on = machine or default_machine(NODE)
    job = Job(NODE, f"{workload}@50", on, USUAL, pairs(set))
    counted(set, requests=requests)
    requests = REQUESTS if requests is None else requests
    replace(job, options=(("requests", str(requests)),)).prepare()
    folder = place(out) if out is not None else None
    kept = temporary_store() if folder is None else nullcontext(RunStore(folder / "runs"))
    tell = progress or _ignore
    with kept as store:
        (probe,) = Question(job, goal, store).play([], 20_000).runs.to_dicts()
        capacity = 100 * probe["offered_per_s"] / probe["load_pct"]
        if load is not None:
            by = load / 100 * servers * capacity / max(read.per_s)
            rates = tuple(by * rate for rate in read.per_s)
            read = replace(read, per_s=rates, scaled_by=by)
        fleet = Fleet(read, servers, capacity, goal, sleep_w, wake_s)
        question = Question(job, goal, store, executor, tell, more)
        found = _Found(fleet, job, question, today)
        found.play(requests)
        advice = found.advice(reply_kb)
    if folder is not None:
        keep(folder, advice.results, f"# advice for {workload} along {read.name} on {on}\n")
    return advice


class _Found:
    """Compositions found at two loads of a day, played at all."""

    def __init__(self, fleet: Fleet, job: Job, question: Question, only_today: bool) -> None:
        self.fleet, self.job, self.question = fleet, job, question
        self.needs = NEEDS[:1] if only_today else NEEDS[:3]
        self.service = service_of(job)
        self.peak = fleet.load(max(fleet.day.per_s), fleet.servers)
        self.mean = fleet.load(fleet.day.mean, fleet.servers)
        if self.peak >= 100:
            least = ceil(max(fleet.day.per_s) / fleet.capacity / 0.8)
            raise HalfwinkError(
                f"{fleet.day.file}: the fullest step is {self.peak:.4g} % of what "
                f"{_servers(fleet.servers)} can carry; expected {_servers(least)} or more, or "
                "--load to scale the day"
            )

    def play(self, requests: int) -> None:
        """Searches at the mean and at the greatest load, and plays what is found at all loads."""
        tell = self.question.tell or _ignore
        names: dict[str, None] = {}
        for load in sorted({float(f"{max(at, 0.1):.3g}") for at in (self.mean, self.peak)}):
            tell(f"search at {load:g} % load")
            search = Search.of(replace(self.question, job=self._job(load)))
            search.run(self.needs[-1])
            for need in self.needs:
                names |= dict.fromkeys(search.finalists(need)[:FINALISTS])
            names |= dict.fromkeys(map(search.with_option, self.question.more))
        loads = sorted({*LOADS, float(f"{self.peak:.4g}")})
        tell(f"{1 + len(names)} compositions at {len(loads)} loads")
        jobs = [
            replace(job, technique=name, options=(*job.options, ("requests", str(requests))))
            for job in map(self._job, loads)
            for name in (USUAL, *names)
        ]
        where = self.question
        self.results = run_all(jobs, baseline=USUAL, store=where.store, executor=where.executor)
        rows = self.results.runs.to_dicts()
        self.curves = {
            name: Curve.of([row for row in rows if row["technique"] == name])
            for name in (USUAL, *names)
        }
        self.groups = _by_load(self.results)
        self.plans = {(n, sleeps): self._plan(n, sleeps) for n in self.curves for sleeps in (0, 1)}

    def _job(self, load: float) -> Job:
        return replace(self.job, workload=f"{self.job.workload.partition('@')[0]}@{load:g}")

    def _plan(self, name: str, sleeps: int, fleet: Fleet | None = None) -> Plan:
        by = fleet or self.fleet
        return by.plan(name, self.curves[name], self.curves[USUAL], sleeps=bool(sleeps))

    def advice(self, reply_kb: float | None) -> DayAdvice:
        name = self._best("today", 0)
        plan = self.plans[name, 0]
        is_kept = not plan.over_pct
        asleep = self._sleeping(plan)
        saves = self.fleet.servers > 1 and self._is_worth_it(plan, asleep)
        sentences = [*self._set(plan), *self._energy(plan), *self._asleep(plan, asleep)]
        sentences += [*self._beyond(plan), *self._by_step(plan), *self._network(reply_kb)]
        sentences += [self._rests_on(), *self._file()]
        return DayAdvice(
            today=name,
            keeps_goal=is_kept,
            plans=self._frame(),
            steps=self._steps(plan, asleep if saves else self.plans[name, 1]),
            results=self.results,
            linux=linux_lines(name, self.job) if name != USUAL and is_kept else (),
            sentences=tuple(sentences),
            goal_us=self.fleet.goal_us,
            asleep=asleep.technique if saves else "",
            linux_asleep=linux_lines(asleep.technique, self.job) if saves else (),
            scaled_by=self.fleet.day.scaled_by,
        )

    def _sleeping(self, plan: Plan) -> Plan:
        """The plan of today with servers that sleep: of those that take about as much, that of the
        composition which is set anyway."""
        best = self.plans[self._best("today", 1), 1]
        same = self.plans[plan.technique, 1]
        most = (1 + AS_GOOD_PCT / 100) * best.watts
        return same if same.over_pct <= best.over_pct and same.watts <= most else best

    def _is_worth_it(self, plan: Plan, asleep: Plan) -> bool:
        return asleep.over_pct <= plan.over_pct and self._saved_pct(asleep, plan) >= WORTH_PCT

    def _best(self, need: str, sleeps: int) -> str:
        """The composition that breaks the goal in the fewest steps, and of these takes least; the
        usual one if that is as good."""
        names = [name for name in self.curves if needs_at_most(name, need)]
        usual = self.plans[USUAL, sleeps]

        def cost(name: str) -> tuple[float, float]:
            plan = self.plans[name, sleeps]
            return plan.over_pct, plan.watts

        best = min(names, key=cost)
        plan = self.plans[best, sleeps]
        is_as_good = usual.over_pct <= plan.over_pct
        is_little = plan.watts > (1 - WORTH_PCT / 100) * usual.watts
        return USUAL if is_as_good and is_little else best

    def _saved_pct(self, plan: Plan, beside: Plan | None = None) -> float:
        base = (beside or self.plans[USUAL, 0]).watts
        return 100 * (1 - plan.watts / base)

    def _set(self, plan: Plan) -> list[str]:
        fleet, name = self.fleet, plan.technique
        loads = [step.load_pct for step in plan.steps]
        where = f"{self.service} along {fleet.day.file} ({wording.time_of(fleet.day.hours)}; "
        where += f"{_servers(fleet.servers)} at {min(loads):.2g} to {max(loads):.3g} % load, "
        where += f"{self.mean:.3g} in the mean)"
        if plan.over_pct:
            line = f"Nothing of today that was searched keeps the goal in each step of {where}"
            return [f"{line}: the nearest, {name}, breaks it in {plan.over_pct:.3g} % of them."]
        worst = f"the longest p99 is {self._p99(plan)}"
        if name == USUAL:
            line = f"Keep {USUAL}, Linux' default, for {where}: no composition of today saves"
            return [f"{line} {WORTH_PCT:g} % of the day; {worst}."]
        usual = self.plans[USUAL, 0]
        line = f"Set {name} for {where}: it {self._compared(name)}; {worst}"
        if usual.over_pct:
            line += f"; {USUAL} breaks the goal in {usual.over_pct:.3g} % of the steps"
        if fleet.goal_us is None:
            line += f". The goal is {SLOWER_PCT:g} % more latency and {P99_PCT:g} % more p99 than "
            line += f"with {USUAL} on all servers"
        return [f"{line}."]

    def _p99(self, plan: Plan) -> str:
        step = plan.steps[plan.worst]
        us = wording.duration(step.p99_us)
        when = wording.time_of(plan.worst * self.fleet.day.step_s / 3600)
        return f"{us} (at {step.load_pct:.3g} % load, {when} into the day)"

    def _compared(self, name: str) -> str:
        """Says what a day with all servers awake saves, with its ranges: those of the loads that
        were played, by the watts of each step. A range that some load of the day lacks is none."""
        saved_pct = self._saved_pct(self.plans[name, 0])
        found = {load: group.saving(name, USUAL) for load, group in self.groups.items()}
        known = {load: one for load, one in found.items() if one is not None and self._has(load)}
        missing = len(known) < sum(map(self._has, found))
        sampled: list[tuple[float, float]] = []
        watts: list[tuple[float, float]] = []
        for one in known.values():
            if one.low is not None and one.high is not None:
                sampled.append((one.low - one.value, one.high - one.value))
            if one.over_watts is not None:
                watts.append((one.over_watts[0] - one.value, one.over_watts[1] - one.value))
        ranges: list[str] = []
        for ends, digits, of in ((sampled, 2, ""), (watts, 1, " over the watts assumed")):
            if missing or not known or len(ends) < len(known):
                continue
            both = [self._along_day(list(known), [one[n] for one in ends]) for n in (0, 1)]
            low, high = sorted(
                abs(saved_pct + by) if saved_pct < 0 else saved_pct + by for by in both
            )
            ranges.append(f"{low:.{digits}f} to {high:.{digits}f}{of}")
        told = f" ({'; '.join(ranges)})" if ranges else ""
        if saved_pct >= 0:
            return f"saves {wording.percent(saved_pct)}{told} against {USUAL}"
        return f"takes {wording.percent(-saved_pct)}{told} more than {USUAL}"

    def _has(self, load: float) -> bool:
        """Returns whether steps of the day lie at a played load, or between it and the next."""
        loads = [step.load_pct for step in self.plans[USUAL, 0].steps]
        played = list(self.groups)
        first = max((one for one in played if one <= min(loads)), default=played[0])
        last = min((one for one in played if one >= max(loads)), default=played[-1])
        return first <= load <= last

    def _along_day(self, loads: Sequence[float], values: Sequence[float]) -> float:
        """The mean of per cent over the steps, weighted by the watts of the usual policy."""
        steps = self.plans[USUAL, 0].steps
        whole = sum(step.fleet_w for step in steps)
        return sum(on_line(loads, values, s.load_pct) * s.fleet_w for s in steps) / whole

    @property
    def _is_assumed(self) -> bool:
        return self.results.runs["power_basis"][0] == "assumed"

    def _energy(self, plan: Plan) -> list[str]:
        if self._is_assumed:
            machine = self.results.runs["machine"][0]
            return [f"Watts of {machine} are assumed: no kWh are told."]
        usual = self.plans[USUAL, 0]
        saved = usual.watts - plan.watts
        about = "about " if self.results.runs["power_basis"][0] == "estimated" else ""
        who = "The fleet" if self.fleet.servers > 1 else "The server"
        if plan.technique == USUAL or abs(saved) < 0.5e-4 * usual.watts:
            return [f"{who} takes {about}{self._taken(usual.watts)}."]
        line = f"{who} takes {about}{self._taken(plan.watts)}; with {USUAL} "
        return [f"{line}{self._taken(usual.watts)}."]

    def _taken(self, watts: float) -> str:
        hours = self.fleet.day.hours
        energy = f"{wording.energy(watts / 1000 * hours)} in {wording.time_of(hours)}"
        if hours < LEAST_HOURS:
            return energy
        return f"{energy}, {wording.energy(watts / 1000 * HOURS_A_YEAR)} in a year of such days"

    def _asleep(self, plan: Plan, asleep: Plan) -> list[str]:
        """Returns what it saves to let servers sleep that the load does not need."""
        if self.fleet.servers == 1:
            return []
        saved = self._saved_pct(asleep, plan)
        if not self._is_worth_it(plan, asleep):
            line = f"Letting servers sleep, at {self.fleet.sleep_w:g} W each, would not save "
            return [f"{line}{WORTH_PCT:g} % more within the goal."]
        least, mean, most = asleep.awake
        days = max(self.fleet.day.hours / 24, 1.0)
        wakes = asleep.wakes / self.fleet.servers / days
        line = f"With servers asleep that the load does not need, {asleep.technique} takes "
        line += (
            f"{wording.percent(saved)} less than that ({wording.percent(self._saved_pct(asleep))} "
        )
        line += f"less than {USUAL} on all): {wording.figure(mean)} awake in the mean, {least} to "
        line += f"{most}, p99 at most "
        line += f"{wording.duration(asleep.steps[asleep.worst].p99_us)}; a server is woken "
        line += f"{wakes:.2g} times a day in the mean"
        tried = [
            self._saved_pct(self._plan(asleep.technique, 1, replace(self.fleet, **change)), plan)
            for by in MULTIPLES
            for change in (
                {"sleep_w": by * self.fleet.sleep_w},
                {"wake_s": by * self.fleet.wake_s},
            )
        ]
        ends = f"{min(tried):.1f} to {max(tried):.1f} %"
        wake = wording.time_of(self.fleet.wake_s / 3600)
        sleep = f"{self.fleet.sleep_w:g} W asleep and {wake} to wake up"
        rests = f"That rests on {sleep}, which are assumptions (half and twice of each: {ends}), "
        ahead = wording.time_of(max(self.fleet.wake_s, self.fleet.day.step_s) / 3600)
        rests += f"on a day that is known {ahead} ahead, and on no server kept for failures"
        return [f"{line}.", f"{rests}."]

    def _file(self) -> list[str]:
        """Says what was made of the file of the day."""
        day = self.fleet.day
        lines: list[str] = []
        if day.scaled_by != 1.0:
            by = f"{day.scaled_by:.3g}" if day.scaled_by < 1000 else wording.count(day.scaled_by)
            lines.append(
                f"The counts are multiplied by {by}, so that the fullest step is at --load."
            )
        if day.hours < LEAST_HOURS:
            steps = f"{len(day.per_s)} steps of {wording.time_of(day.step_s / 3600)}"
            line = (
                f"The file has {steps}, {wording.time_of(day.hours)} in all: a period is a number"
            )
            lines.append(f"{line} of seconds, a date and time, or a time of day.")
        if day.read_as:
            lines.append(f"The file was {day.read_as}.")
        return lines

    def _beyond(self, plan: Plan) -> list[str]:
        """Returns what a changed kernel and new hardware would add, with all servers awake."""
        lines: list[str] = []
        for need in self.needs[1:]:
            name = self._best(need, 0)
            other = self.plans[name, 0]
            saved = self._saved_pct(other, plan)
            if not needs_at_most(name, "today") and saved >= WORTH_PCT and not other.over_pct:
                line = f"{WITH[need]}, {name} would use {wording.percent(saved)} less than "
                lines.append(f"{line}{plan.technique}; it needs {how(name, NODE)}.")
                plan = other
        return lines

    def _network(self, reply_kb: float | None) -> list[str]:
        """Returns what the network takes that carries the requests."""
        if reply_kb is None:
            return []
        day, servers = self.fleet.day, self.fleet.servers
        mean, peak = (rate / servers * reply_kb * 8e-6 for rate in (day.mean, max(day.per_s)))
        packets, circuits = network_w_per_gbps()
        energies = [
            wording.energy(by * mean * servers / 1000 * day.hours) for by in (packets, circuits)
        ]
        line = f"The network beside it: at {reply_kb:g} kB a request a server moves {mean:.3g} Gb/s"
        line += f" in the mean and {peak:.3g} at most; a core of packet switches takes about "
        line += f"{packets:.2g} W for each Gb/s ({energies[0]} in {wording.time_of(day.hours)}), "
        line += f"one of circuits {circuits:.2g} W ({energies[1]}): closed forms of Strong 2013, "
        return [f"{line}Sec 4.2, with the port watts of then."]

    def _by_step(self, plan: Plan) -> list[str]:
        """Returns what it would save to change the composition with the load."""
        names = [name for name in self.curves if needs_at_most(name, "today")]
        columns = zip(*(self.plans[name, 0].steps for name in names), strict=True)
        least = [
            min((s.fleet_w for s in steps if s.keeps_goal), default=mine.fleet_w)
            for steps, mine in zip(columns, plan.steps, strict=True)
        ]
        saved = 100 * (1 - sum(least) / len(least) / plan.watts)
        if saved < 0.1:
            return ["Changing the composition with the load would save less than 0.1 % more."]
        line = "Changing the composition with the load, each step the cheapest that keeps the goal,"
        return [f"{line} would save {wording.percent(saved)} more."]

    def _rests_on(self) -> str:
        fleet = self.fleet
        units = wording.count(max(self.results.runs["units"].to_list()))
        loads = len(self.groups)
        line = f"All of it is modelled: from runs of up to {units} requests at {loads} steady loads"
        line += f", the load steady within each step of {fleet.day.step_s:g} s"
        spread = ", and spread evenly over the servers that are awake"
        return f"{line}{spread if fleet.servers > 1 else ''}."

    def _frame(self) -> pl.DataFrame:
        rows = [
            {
                "technique": name,
                "needs": needs(name, NODE),
                "asleep": "some" if sleeps else "none",
                "fleet_kw": plan.watts / 1000,
                "energy_kwh": plan.watts / 1000 * self.fleet.day.hours,
                "saving_pct": self._saved_pct(plan),
                "p99_us": plan.steps[plan.worst].p99_us,
                "over_goal_pct": plan.over_pct,
                "awake_min": plan.awake[0],
                "awake_mean": plan.awake[1],
                "awake_max": plan.awake[2],
                "wakes": plan.wakes,
            }
            for (name, sleeps), plan in self.plans.items()
        ]
        return pl.DataFrame(rows).sort("over_goal_pct", "fleet_kw")

    def _steps(self, plan: Plan, asleep: Plan) -> pl.DataFrame:
        hours = [n * self.fleet.day.step_s / 3600 for n in range(len(plan.steps))]
        columns: dict[str, Any] = {"hours": hours, "per_s": self.fleet.day.per_s}
        for key, one in ((USUAL, self.plans[USUAL, 0]), ("today", plan), ("asleep", asleep)):
            columns[f"{key}_load_pct"] = [step.load_pct for step in one.steps]
            columns[f"{key}_fleet_kw"] = [step.fleet_w / 1000 for step in one.steps]
            columns[f"{key}_p99_us"] = [step.p99_us for step in one.steps]
            columns[f"{key}_awake"] = [step.awake for step in one.steps]
        return pl.DataFrame(columns)


def network_w_per_gbps() -> tuple[float, float]:
    """Watts of a data centre's network for each Gb/s of a server, with packet switches and with
    circuits: by how much power rises with demand in ``halfwink circuits model --savings``."""
    table = fabric().savings.filter(utilisation_pct=0).sort("demand_gbps")
    low, high = table.row(0, named=True), table.row(-1, named=True)
    more = high["demand_gbps"] - low["demand_gbps"]
    packets, circuits = ((high[name] - low[name]) / more for name in ("packets_w", "circuits_w"))
    return packets, circuits


def _servers(count: int) -> str:
    return "1 server" if count == 1 else f"{wording.count(count)} servers"


def _ignore(line: str) -> None:
    """Drops a line of progress."""


def _by_load(results: Results) -> dict[float, Group]:
    """The groups of runs by load, rising."""
    slices = results.tables.get("slices")
    whose = (results.world, results.baseline, results.baseline_machine)
    found = groups(results.runs, slices, *whose, results.tables.get("ledger"))
    loads = {group.rows[USUAL]["load_pct"]: group for group in found if USUAL in group.rows}
    return dict(sorted(loads.items()))
