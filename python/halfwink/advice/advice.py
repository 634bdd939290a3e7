"""Advice for a service on a server of today: the composition to set, and what the advice rests on.

advice = hw.advise("nginx", load="30%", p99_us=2000)
print(advice)
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import polars as pl

from halfwink.advice.composition_search import (
    FINALISTS,
    OF_PROGRAMS,
    REPORTED,
    SCREENED,
    USUAL,
    Question,
    Search,
    checked_options,
    is_possible,
    needs_at_most,
)
from halfwink.advice.linux_lines import linux_lines
from halfwink.advice.verification import write_prediction
from halfwink.checked import checked
from halfwink.errors import HalfwinkError
from halfwink.files import Place, place
from halfwink.jobs import Job, Settings, counted, pairs
from halfwink.library import root
from halfwink.results import wording
from halfwink.results.costs import compared, cost_of, percents
from halfwink.results.judged import HOURS_A_YEAR, WITH, Judged
from halfwink.results.judgement import (
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
from halfwink.runs.studies import keep

if TYPE_CHECKING:
    import altair as alt

    from halfwink.policies.finding import Technique

#: Load of a service if none is given.
LOAD = "30%"
#: Assumptions that are told.
TOLD = 10
#: An assumed time or rate lies between these multiples, an assumed watt where its file says.
MULTIPLES = (0.5, 2.0)
#: Servers of a fleet, at most.
MOST_SERVERS = 10_000_000
#: Assumptions whose changes move the saving by less, in points, are not told.
MOVES = 0.05


@dataclass(frozen=True)
class Advice:
    """A recommendation. Every figure is modelled.

    Attributes:
        today: the composition to set, of what can be had today; ``menu`` if nothing is better.
        best: the composition with the least energy of all that keep the goal.
        keeps_goal: true if ``today`` keeps the goal; if nothing does, ``today`` is the nearest.
        results: the runs at full length, with the baseline.
        tried: a row for each composition that was played: ``technique``, ``needs``, energy, latency
            and whether it keeps the goal.
        assumptions: a row for each value of the server's file that is assumed and that moves the
            saving: ``path``, its ``value``, the multiples played and the saving at each.
        linux: lines that set ``today`` on Linux.
        sentences: the answer in words, the most important first.
        goal_us: the goal for the 99th percentile, in microseconds; none if it is relative.
        runner_up: the best of today's other compositions that keep the goal; empty if there is
            none, or nothing to set.
    """

    today: str
    best: str
    keeps_goal: bool
    results: Results
    tried: pl.DataFrame
    assumptions: pl.DataFrame
    linux: tuple[str, ...]
    sentences: tuple[str, ...]

    goal_us: float | None = None
    runner_up: str = ""

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    @checked
    def commit(self, path: Path | str) -> str:
        """Writes what meters of a server should show under ``menu`` and under ``today``, for
        `halfwink.verify`, with the time and a digest, which it returns.

        Raises:
            RunError: the file is there already, or cannot be written.
        """
        return write_prediction(
            path, self.results, baseline=USUAL, advised=self.today, goal_us=self.goal_us
        )

    def chart(self) -> alt.LayerChart:
        """Draws all compositions that were played: power of a server against p99, the composition
        to set, the runner-up, and the goal as a line. Watts that are assumed are drawn in per cent
        of the baseline's."""
        from halfwink.report.advice_charts import compositions

        return compositions(self).properties(title=self._title())

    def _title(self) -> alt.Title:
        """Returns the answer, in lines that a chart has room for."""
        import altair as alt

        return alt.Title(wrap(self.sentences[0], 90), anchor="start", offset=20)


def advise(
    workload: str,
    *,
    load: str | float = LOAD,
    p99_us: float | None = None,
    machine: str | None = None,
    servers: int | None = None,
    today: bool = False,
    techniques: Technique | Sequence[Technique] | None = None,
    set: Settings | None = None,
    requests: int | None = None,
    out: Place | str | None = None,
    executor: Executor | Submits | None = None,
    progress: Callable[[str], None] | None = None,
) -> Advice:
    """Searches the cheapest composition of techniques that keeps a goal.

    Args:
        workload: service with a profile (``nginx``), or the file of one.
        load: per cent of what the cores carry (``30%``), requests per second (``20000/s``), or the
            gaps of a file at such a rate (``gaps:FILE@30``).
        p99_us: longest 99th percentile of latency, in microseconds. If none is given, 10 % longer
            than with Linux' defaults, and 5 % in the mean.
        machine: server of today, or a file.
        servers: servers of the fleet, for kilowatt hours a year.
        today: search only what can be had today.
        techniques: policies of your own (`halfwink.policies`) and techniques with other parameters
            (``coalesce:hold_us=20``), as options beside the usual ones of their slots.
        set: values of the server to change, by path.
        requests: length of each run that is reported; a million if none is given.
        out: folder or URL in which runs are kept, and reused, and to which tables are written.
        executor: runs jobs elsewhere.
        progress: is called with a line for each round of the search.

    Raises:
        HalfwinkError: a name or value that cannot be, in one line.
        RunError: a run failed.
    """
    checked_goal(p99_us)
    if servers is not None and not 1 <= servers <= MOST_SERVERS:
        raise HalfwinkError(f"servers: {servers}, expected 1 to {MOST_SERVERS}")
    rate = str(load)
    if not re.fullmatch(r"([0-9.e+]+(%|/s)?|(constant|gaps):[^,]+)", rate):
        raise HalfwinkError(
            f"load: `{rate}`, expected one rate: 30%, 20000/s, or gaps:FILE@30 (files of arrivals "
            "are played whole: `halfwink compare` does that)"
        )
    if "@" in workload:
        raise HalfwinkError(f"`{workload}` has a load already: give it as load ({LOAD})")
    check_services([workload])
    more = checked_options(techniques, only_today=today)
    on = machine or default_machine(NODE)
    job = Job(NODE, f"{workload}@{rate.removesuffix('%')}", on, USUAL, pairs(set))
    counted(set, requests=requests)
    requests = REPORTED if requests is None else requests
    replace(job, options=(("requests", str(requests)),)).prepare()
    folder = place(out) if out is not None else None
    kept = temporary_store() if folder is None else nullcontext(RunStore(folder / "runs"))
    with kept as store:
        question = Question(job, p99_us, store, executor, progress, more)
        search = Search.of(question)
        search.run("today" if today else "silicon")
        found = _Found(question, search, today, requests)
        if progress is not None:
            progress("assumptions: each at two other values")
        advice = found.advice(servers)
    if folder is not None:
        keep(folder, advice.results, f"# advice for {job.workload} on {on}\n")
    return advice


def checked_goal(p99_us: Any) -> float | None:
    """Returns a goal for the 99th percentile, in microseconds, if it can be one."""
    if p99_us is not None and not (isinstance(p99_us, int | float) and 0 < p99_us < 1e12):
        raise HalfwinkError(f"p99: {p99_us} us, expected a number above 0")
    return p99_us


def service_of(job: Job) -> str:
    """Returns the name of a job's service, of a file without its folder and its ending."""
    name = job.workload.partition("@")[0]
    file = name.rpartition("/")[2]
    return file.removesuffix(".toml").removesuffix(".profile") if file != name else name


class _Found:
    """The finalists of a search, played at full length."""

    def __init__(self, question: Question, search: Search, only_today: bool, requests: int) -> None:
        self.question, self.search = question, search
        self.needs = NEEDS[:1] if only_today else NEEDS[:3]
        finalists = [name for need in self.needs for name in search.finalists(need)]
        finalists += map(search.with_option, question.more)
        # What just keeps the goal in a short run may break it in a long one: then the next ones.
        more = search.keeping("today")
        while True:
            self.results = question.play(finalists, requests)
            self.group = _group(self.results, question.goal_us)
            self.judged = Judged(self.group)
            self.today = self._best("today")
            more = [name for name in more if name not in self.group.rows]
            if self.keeps(self.today) or not more:
                break
            finalists += more[:FINALISTS]
        self.steps: list[tuple[str, str]] = []
        best = self.today
        for need in self.needs[1:]:
            name = self._best(need)
            if name != best and self.group.beats(name, best):
                self.steps.append((need, name))
                best = name
        self.best = best

    def keeps(self, name: str) -> bool:
        return self.question.keeps(self.group.rows[name])

    def _best(self, need: str) -> str:
        """Returns the one that `Group.best` chooses of those that keep the goal, or else the one
        whose 99th percentile is the shortest."""
        names = [name for name in self.group.rows if needs_at_most(name, need)]
        kept = [name for name in names if self.keeps(name)]
        if not kept:
            return min(names, key=lambda n: self.group.rows[n]["latency_p99_us"] or float("inf"))
        best = self.group.best(kept, USUAL)
        if best is None:
            return USUAL
        return best if self.group.beats(best, USUAL) or USUAL not in kept else USUAL

    def advice(self, servers: int | None) -> Advice:
        is_kept = self.keeps(self.today)
        is_change = is_kept and self.today != USUAL
        assumptions = self._assumptions() if is_change else _no_assumptions()
        sentences = [*self._set(), *(self._fleet(servers) if is_change else ())]
        sentences += [*self._runner_up(), *(self._beyond() if is_kept else self._instead())]
        sentences += self._asked_for()
        sentences += [*self._without_goal(), *self._see()] if is_kept else []
        sentences += self._rests_on(assumptions)
        return Advice(
            today=self.today,
            best=self.best,
            keeps_goal=is_kept,
            results=self.results,
            tried=self.search.frame(),
            assumptions=assumptions,
            linux=linux_lines(self.today, self.question.job) if is_change else (),
            sentences=tuple(sentences),
            goal_us=self.question.goal_us,
            runner_up=self.runner_up or "",
        )

    @property
    def runner_up(self) -> str | None:
        """Returns the best of today's other compositions that keep the goal, if there is one."""
        if self.today == USUAL:
            return None
        others = [name for name in self._kept_today() if name != self.today]
        return self.group.best(others, USUAL)

    @property
    def service(self) -> str:
        """Returns the service's name, of a file without its folder and its ending."""
        return service_of(self.question.job)

    @property
    def goal(self) -> str:
        us = self.question.goal_us
        if us is None:
            return f"within {SLOWER_PCT:g} % more latency and {P99_PCT:g} % more p99 than now"
        return f"within a p99 of {wording.duration(us)}"

    def _set(self) -> list[str]:
        base, row = self.group.rows[USUAL], self.group.rows[self.today]
        rate = wording.count(base["offered_per_s"])
        where = f"{self.service} at {base['load_pct']:.3g} % load ({rate} requests a second)"
        if not self.keeps(self.today):
            line = f"Nothing of today that was searched serves {where} {self.goal}"
            if row["latency_p99_us"] is None or self.question.goal_us is None:
                return [f"{line}."]
            over = 100 * (row["latency_p99_us"] / self.question.goal_us - 1)
            near = f"the nearest, {self.today}, has {self._p99(self.today)}"
            return [f"{line}: {near}, {over:.0f} % more.", *_not_searched(self.question.more)]
        if self.today == USUAL:
            line = f"Keep {USUAL}, Linux' default: for {where} no other composition of today"
            return [f"{line} saves {WORTH_PCT:g} % {self.goal}."]
        line = f"Set {self.today}: for {where} it {compared(self.judged.saved(self.today, USUAL))}"
        line += f" against {USUAL}, {cost_of(self.group, self.today, USUAL)}"
        if not self.keeps(USUAL):
            line += f"; {USUAL} does not keep the goal ({self._p99(USUAL)})"
        return [f"{line}.", *self._leaner()]

    def _leaner(self) -> list[str]:
        """Returns the composition that takes about as much, a little less, and answers later."""
        rows = self.group.rows
        name = min(self._kept_today(), key=lambda n: rows[n]["energy_j_per_unit"])
        saved = self.judged.saved(name, self.today)
        if name == self.today or not saved.beats(0.1):
            return []
        line = f"The least energy has {name}, {saved.value:.2f} % less"
        return [f"{line}, {cost_of(self.group, name, self.today)}: about as good, and later."]

    def _kept_today(self) -> list[str]:
        """Returns finalists of today that keep the goal."""
        return [n for n in self.group.rows if needs_at_most(n, "today") and self.keeps(n)]

    def _p99(self, name: str) -> str:
        return f"p99 {wording.duration(self.group.rows[name]['latency_p99_us'])}"

    def _fleet(self, servers: int | None) -> list[str]:
        base, row = self.group.rows[USUAL], self.group.rows[self.today]
        if self.judged.is_assumed:
            return [f"Watts of {base['machine']} are assumed: no kWh are told."]
        if not self.group.is_same_rate(self.today):
            line = f"{self.today} and {USUAL} did not carry the same requests a second in runs of"
            return [f"{line} this length: no watts and no kWh are told; play more requests."]
        watts = base["power_w"] - row["power_w"]
        kwh = abs(watts) * HOURS_A_YEAR / 1000
        verb = "saves" if watts >= 0 else "costs"
        changed = f"{self.judged.about}{wording.si(abs(watts))}W"
        line = f"At this load that {verb} {changed} of a server's "
        line += f"{wording.si(base['power_w'])}W: {wording.count(kwh)} kWh a year"
        if servers is not None and servers > 1:
            fleet = wording.count(servers * kwh)
            line += f", {fleet} kWh for {wording.count(servers)} servers"
        return [f"{line}."]

    def _runner_up(self) -> list[str]:
        name = self.runner_up
        if name is None:
            return []
        cost = cost_of(self.group, name, self.today)
        beside = f"beside {self.today} it {compared(self.judged.saved(name, self.today))}, {cost}"
        return [f"Runner-up: {name}: {beside}."]

    def _beyond(self) -> list[str]:
        lines: list[str] = []
        for need, name in self.steps:
            saved = percents(self.judged.saved(name, self.today))
            line = f"{WITH[need]}, {name} would use {saved} less than {self.today}, "
            line += f"{cost_of(self.group, name, self.today)}; it needs {how(name, NODE)}."
            lines.append(line)
        return lines

    def _instead(self) -> list[str]:
        """Returns what would keep the goal where nothing of today does."""
        for need in WITH:
            name = self._best(need)
            if need in self.needs and self.keeps(name):
                line = f"{WITH[need]}, {name} would: {self._p99(name)}, it "
                line += f"{compared(self.judged.saved(name, USUAL))} against {USUAL}"
                return [f"{line}; it needs {how(name, NODE)}."]
        if len(self.needs) == 1:
            return []
        return ["Neither would a changed kernel nor hardware that is not sold today."]

    def _asked_for(self) -> list[str]:
        """Returns what the best composition with each option of the user's own gives, where the
        answer does not name the option already."""
        named = "+".join([self.today, *(name for _, name in self.steps)]).split("+")
        lines: list[str] = []
        for option in self.question.more:
            name = self.search.with_option(option)
            if option in named:
                continue
            cost = cost_of(self.group, name, self.today)
            beside = compared(self.judged.saved(name, self.today))
            line = f"With {option}, {name} is the best: beside {self.today} it {beside}, {cost}"
            lines.append(f"{line}." if self.keeps(name) else f"{line}; it does not keep the goal.")
        return lines

    def _without_goal(self) -> list[str]:
        """Returns what the goal costs: the cheapest composition of today that breaks it."""
        rows = self.search.rows
        names = [n for n in rows if needs(n, NODE) == "today" and rows[n]["keeps_up"] != "no"]
        name = min(names, key=lambda n: rows[n]["energy_j_per_unit"])
        mine = rows[self.today]["energy_j_per_unit"]
        less = 100 * (1 - rows[name]["energy_j_per_unit"] / mine)
        if name == self.today or self.question.keeps(rows[name]) or less < WORTH_PCT:
            return []
        p99 = wording.duration(rows[name]["latency_p99_us"])
        costs = f"The goal costs {less:.2g} % or more"
        return [f"{costs}: {name} would use that much less, with p99 {p99}."]

    def _see(self) -> list[str]:
        """Returns what counters of Linux show if the advice is true."""
        states = self.results.tables["idle_states"].filter(technique=self.today)
        shares = [
            f"{row['share_pct']:.0f} % in {row['state']}"
            for row in states.sort("share_pct", descending=True).to_dicts()
            if row["share_pct"] >= 0.5
        ]
        if not shares:
            return []
        row = self.group.rows[self.today]
        awake = sum(row[f"{what}_pct"] for what in ("busy", "cold", "kernel", "waking"))
        line = f"Check it next week: cores should spend {', '.join(shares)} and {awake:.0f} % awake"
        return [f"{line} (/sys/devices/system/cpu/cpu*/cpuidle/state*/time)."]

    def _rests_on(self, assumptions: pl.DataFrame) -> list[str]:
        known = provenance(self.question.job)
        assumed = sum(value.is_assumed for value in known)
        base = self.group.rows[USUAL]
        units = wording.count(base["units"])
        line = (
            f"All of it is modelled, from the profile of {self.service} and {units} requests a run"
        )
        line += f"; {assumed} of the {len(known)} numbers of {base['machine']} are assumptions"
        if assumptions.is_empty():
            return [f"{line}."]
        path, low, high = assumptions.select("path", "low_pct", "high_pct").row(0)
        if assumptions.height < TOLD:
            line += f", of which {assumptions.height} move the saving"
        line += f". Most is moved by {path}, all else as it is: {low:.2f} to {high:.2f} %"
        turned: list[str] = assumptions.filter(~pl.col("still_saves"))["path"].to_list()
        if turned:
            return [f"{line}; {', '.join(turned)} can undo it."]
        return [f"{line}; no assumption undoes it alone."]

    def _assumptions(self) -> pl.DataFrame:
        """Plays the advice and the baseline under each assumed value at two others, and adds by how
        much that moves the saving to the saving of the long run."""
        rows: list[dict[str, Any]] = []
        for value in provenance(self.question.job):
            changes = value.changes() if value.is_assumed else []
            job = self.question.job
            changed = [replace(job, set=(*job.set, change)) for change in changes]
            if not changed or not all(map(is_possible, changed)):
                continue
            played = [(), *((one,) for one in changes)]
            found = self.question.play([self.today], SCREENED, played)
            rows.append(self._row(value, found, changes))
        if not rows:
            return _no_assumptions()
        swing = pl.col("high_pct") - pl.col("low_pct")
        frame = pl.DataFrame(rows, schema=_ASSUMPTIONS)
        return frame.filter(swing >= MOVES).sort(swing, descending=True).head(TOLD)

    def _row(
        self, value: Value, found: Results, changes: Sequence[tuple[str, str]]
    ) -> dict[str, Any]:
        unchanged, *runs = found.runs.filter(technique=self.today).to_dicts()
        # Short runs tell by how much the saving moves, the long one what it is.
        off = self.judged.saved(self.today, USUAL).value - unchanged["energy_saving_pct"]
        savings = [run["energy_saving_pct"] + off for run in runs]
        return {
            "path": value.path,
            "value": value.text,
            "played": " and ".join(written for _, written in changes),
            "why": value.source,
            "low_pct": min(savings),
            "high_pct": max(savings),
            "still_saves": min(savings) > 0,
            "keeps_goal": all(map(self.question.keeps, runs)),
        }


#: Columns of `Advice.assumptions`.
_ASSUMPTIONS: dict[str, Any] = {
    **dict.fromkeys(("path", "value", "played", "why"), pl.String),
    **dict.fromkeys(("low_pct", "high_pct"), pl.Float64),
    **dict.fromkeys(("still_saves", "keeps_goal"), pl.Boolean),
}


def _no_assumptions() -> pl.DataFrame:
    return pl.DataFrame(schema=_ASSUMPTIONS)


def _group(results: Results, goal_us: float | None) -> Group:
    slices = results.tables.get("slices")
    whose = (results.world, results.baseline, results.baseline_machine)
    (group,) = groups(results.runs, slices, *whose, results.tables.get("ledger"))
    group.goal_us = goal_us
    return group


@dataclass(frozen=True)
class Value:
    """A number of a server's file, with what its comment says of it."""

    path: str
    text: str
    source: str
    factor: tuple[float, float]

    @property
    def is_assumed(self) -> bool:
        """Returns whether the file calls it an assumption."""
        return self.source.startswith("assumption")

    def changes(self) -> list[tuple[str, str]]:
        """Returns the value at two others: a watt at the ends of the file's range, a time or rate
        at half and twice of what it is."""
        value: Any = tomllib.loads(f"value = {self.text}")["value"]
        many: list[float] = value if isinstance(value, list) else [value]
        low, high = self.factor if self.path.endswith("_w") else MULTIPLES
        if low == high:
            return []
        texts = [[f"{number * by:.12g}" for number in many] for by in (low, high)]
        if isinstance(value, list):
            return [(self.path, f"[{', '.join(written)}]") for written in texts]
        return [(self.path, written[0]) for written in texts]


_LINE = re.compile(r"^(?P<key>[a-z_0-9]+) *= *(?P<value>[-+.\d\[][^#\"]*?) *(# *(?P<why>.*))?$")
_TABLE = re.compile(r"^\[\[?(?P<name>[a-z_0-9.]+)\]\]?")
_NAME = re.compile(r"^name *= *\"(?P<name>[^\"]+)\"")


def provenance(job: Job) -> list[Value]:
    """Returns the numbers of a server's file with their comments."""
    path = Path(job.machine)
    if path.suffix != ".toml":
        path = root() / f"machines/{NODE}/{job.machine}.toml"
    text = path.read_text()
    low, high = tomllib.loads(text)["power"].get("factor", [1.0, 1.0])
    values: list[Value] = []
    table = ""
    for line in text.splitlines():
        if found := _TABLE.match(line):
            table = found["name"]
        elif found := _NAME.match(line):
            # One of several is named behind the table's name.
            table = f"{table.split('.')[0]}.{found['name']}"
        elif found := _LINE.match(line):
            key = f"{table}.{found['key']}" if table else found["key"]
            if found["key"] not in ("schema", "factor"):
                values.append(Value(key, found["value"], found["why"] or "", (low, high)))
    return values


def _not_searched(more: Sequence[str]) -> list[str]:
    """Returns what was left out of the search and may keep a goal that nothing else keeps."""
    left_out = [name for name in OF_PROGRAMS if name not in more]
    if not left_out:
        return []
    orders = "The order in which a service's own program takes requests was not searched"
    return [f"{orders}: -t {','.join(left_out)} searches it, too."]
