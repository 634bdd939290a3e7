"""``halfwink advise``: what to set for a service, and what the advice rests on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from halfwink.advice import advice, day_advice
from halfwink.advice.advice import Advice
from halfwink.advice.day_advice import DayAdvice
from halfwink.advice.fleet_day import SLEEP_W, WAKE_S
from halfwink.cli.commands import OUT, Json, OutFolder, Quiet, slug
from halfwink.cli.console import out as stdout
from halfwink.cli.console import print_sentences, print_table, print_tables, say
from halfwink.cli.results import NO_FIGURE, FigureOptions, save
from halfwink.cli.settings import Setting, settings, split_techniques
from halfwink.errors import HalfwinkError
from halfwink.files import place
from halfwink.models.response_times import time_us
from halfwink.results.summary import fixed
from halfwink.runs.executors import executor_named

if TYPE_CHECKING:
    from halfwink.report.figures import Figure

#: Compositions in the table.
SHOWN = 12


@Parameter(name="*")
@dataclass(frozen=True)
class DayOptions:
    """A day of a fleet.

    Attributes
    ----------
    day
        Requests of the whole fleet over a day: counts:FILE (lines PERIOD,COUNT, the period in
        seconds, a date and time or a time of day; a name alone is that), or log:FILE. --load then
        scales the counts: 60% in the fullest step.
    sleep_w
        With --day: watts of a server that sleeps (default: 12).
    wake_s
        With --day: seconds from sleep to the first request (default: 120).
    reply_kb
        With --day: kilobytes that a request and its reply move, to tell of the network, too.
    """

    day: str | None = None
    sleep_w: Annotated[float | None, Parameter(name="--sleep-w")] = None
    wake_s: Annotated[float | None, Parameter(name="--wake-s")] = None
    reply_kb: Annotated[float | None, Parameter(name="--reply-kb")] = None


def advise(
    workload: str,
    *,
    load: str | None = None,
    p99: str | None = None,
    machine: Annotated[str | None, Parameter(name=["-m", "--machine"])] = None,
    servers: int | None = None,
    day: DayOptions = DayOptions(),
    today: Annotated[bool, Parameter(negative="")] = False,
    technique: Annotated[str | None, Parameter(name=["-t", "--technique"])] = None,
    setting: Setting = None,
    requests: int | None = None,
    commit: Annotated[Path | None, Parameter(name="--commit")] = None,
    figure: FigureOptions = NO_FIGURE,
    executor: str = "local",
    out: OutFolder = None,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Find what to set for a service: the cheapest composition of techniques that keeps a goal.

    It searches some two hundred compositions on a server of today, and says what can be set on
    Linux now, what a changed kernel and new hardware would add, and which assumptions it hangs on.
    All energies and times are modelled.

    Parameters
    ----------
    workload
        Service with a profile: nginx, memcached ...; or the file of one (`halfwink profile`).
    load
        One rate: per cent of what the cores carry (default: 30%), requests per second (20000/s), or
        gaps:FILE@30.
    p99
        Longest 99th percentile of latency: 2ms, 500us. Default: 10 % longer than with Linux'
        defaults, and 5 % in the mean.
    machine
        Server of today (golden-cove-56, zen4-96, neoverse-v2-96), or a TOML file.
    servers
        Servers of the fleet, for kilowatt hours a year.
    day
        A day of a fleet.
    today
        Search only what can be had today.
    technique
        Search these, too, separated by commas: policies of your own (./my-gate.wasm), techniques
        with other parameters (packing:limit=32).
    setting
        Change a value of the server: --set shared.uncore.awake_w=60. May be repeated.
    requests
        Requests of each run that is reported (default: 1,000,000; with --day 200,000 at each load).
    commit
        Write to this file what meters should show, with the time and a digest, for `halfwink
        verify`.
    executor
        local, local:WORKERS, dask, or dask://HOST:PORT.
    out
        Folder of the results, or a URL of fsspec's: s3://BUCKET/NAME.
    json
        Print one JSON document.
    quiet
        No progress, no messages.
    """
    figure.check()
    if day.day is None and day != DayOptions():
        raise HalfwinkError("--sleep-w, --wake-s, --reply-kb: expected --day with them")
    if commit is not None and day.day is not None:
        raise HalfwinkError("--commit: expected one load, without --day")
    if commit is not None and commit.exists():
        raise HalfwinkError(f"{commit}: is there already; a prediction is written once")
    goal = None if p99 is None else time_us(p99)
    values = dict(settings(setting))
    told = [load, goal, machine, today, technique, requests, *values.items()]
    told += [] if day.day is None else [day.day, servers, day.sleep_w, day.wake_s]
    folder = place(out or OUT / slug("advise", workload, told=told))

    def tell(line: str) -> None:
        say(line, quiet=quiet)

    common: dict[str, Any] = {
        "p99_us": goal,
        "machine": machine,
        "today": today,
        "techniques": split_techniques(technique),
        "set": values,
        "out": folder,
        "executor": executor_named(executor),
        "progress": tell,
    }
    found: Advice | DayAdvice
    if day.day is not None:
        found = day_advice.advise_day(
            workload,
            day=day.day,
            servers=1 if servers is None else servers,
            load=None if load is None else _peak(load),
            sleep_w=SLEEP_W if day.sleep_w is None else day.sleep_w,
            wake_s=WAKE_S if day.wake_s is None else day.wake_s,
            reply_kb=day.reply_kb,
            requests=requests,
            **common,
        )
    else:
        found = advice.advise(
            workload,
            load=load or advice.LOAD,
            servers=servers,
            requests=requests,
            **common,
        )
    if not json:
        _print(found)
    elif isinstance(found, DayAdvice):
        _print_day(found)
    else:
        _print_advice(found)
    say(f"runs: {folder}", quiet=quiet)
    if commit is not None and isinstance(found, Advice):
        say(f"prediction: {commit}, sha256 {found.commit(commit)}", quiet=quiet)
    if figure.plot is not None:
        save(_figure(found), figure, quiet=quiet)
    return 0


def _figure(found: Advice | DayAdvice) -> Figure:
    """Returns power against latency of all compositions, or the day, for print."""
    from halfwink.report.advice_charts import compositions_figure, day_figure

    return day_figure(found) if isinstance(found, DayAdvice) else compositions_figure(found)


def _peak(load: str) -> float:
    """The load of a day's fullest step, in per cent."""
    try:
        return float(load.removesuffix("%"))
    except ValueError:
        message = f"--load {load}: expected per cent with --day, for its fullest step (60%)"
        raise HalfwinkError(message) from None


def _print(found: Advice | DayAdvice) -> None:
    """Prints the answer, the lines for Linux, and tables of what it rests on."""
    print_sentences(found.sentences)
    _on_linux("On Linux:", found.linux)
    if isinstance(found, DayAdvice) and found.asleep not in ("", found.today):
        _on_linux(f"On the servers awake where others sleep ({found.asleep}):", found.linux_asleep)
    if isinstance(found, DayAdvice):
        _plans(found)
        return
    _assumptions(found)
    _front(found)


def _on_linux(head: str, lines: Sequence[str]) -> None:
    if lines:
        stdout.print(f"\n{head}", markup=False)
        for line in lines:
            stdout.print(f"  {line}", markup=False, soft_wrap=True)


def _plans(found: DayAdvice) -> None:
    """Prints the day under each composition."""
    stdout.print()
    rows = [
        [
            row["technique"],
            row["needs"],
            row["asleep"],
            fixed(row["saving_pct"]),
            fixed(row["p99_us"], 1),
            fixed(row["over_goal_pct"], 1),
            fixed(row["awake_mean"], 0),
        ]
        for row in found.plans.head(SHOWN).to_dicts()
    ]
    sides = ("left", "left", "left", "right", "right", "right", "right")
    headings = ("composition", "needs", "asleep", "saved %", "p99 us", "over goal %", "awake")
    print_table(list(zip(headings, sides, strict=True)), rows)


def _assumptions(found: Advice) -> None:
    """Prints the assumptions that move the saving."""
    if found.assumptions.is_empty():
        return
    stdout.print()
    rows = [
        [
            row["path"],
            row["value"],
            row["played"],
            f"{fixed(row['low_pct'])} to {fixed(row['high_pct'])}",
            "yes" if row["keeps_goal"] else "no",
        ]
        for row in found.assumptions.to_dicts()
    ]
    headings = ("assumption", "value", "played", "saving %", "goal kept")
    print_table([(name, "left") for name in headings], rows)


def _front(found: Advice) -> None:
    """Prints the compositions that were played at full length, by energy."""
    stdout.print()
    runs = found.results.runs.sort("energy_j_per_unit")
    known = dict(found.tried.select("technique", "needs").iter_rows())
    rows = [
        [
            row["technique"],
            fixed(row["energy_saving_pct"]),
            fixed(row["latency_mean_us"], 1),
            fixed(row["latency_p99_us"], 1),
            known.get(row["technique"], "-"),
        ]
        for row in runs.head(SHOWN).to_dicts()
    ]
    sides = ("left", "right", "right", "right", "left")
    headings = ("composition", "saved %", "mean us", "p99 us", "needs")
    print_table(list(zip(headings, sides, strict=True)), rows)


def _print_advice(found: Advice) -> None:
    facts = {
        "goal_p99_us": found.goal_us,
        "today": found.today,
        "best": found.best,
        "runner_up": found.runner_up,
        "keeps_goal": found.keeps_goal,
        "linux": list(found.linux),
    }
    tables = {"tried": found.tried, "assumptions": found.assumptions, "runs": found.results.runs}
    print_tables("advise", tables, facts, found.sentences)


def _print_day(found: DayAdvice) -> None:
    facts = {
        "goal_p99_us": found.goal_us,
        "today": found.today,
        "keeps_goal": found.keeps_goal,
        "linux": list(found.linux),
        "asleep": found.asleep,
        "linux_asleep": list(found.linux_asleep),
        "scaled_by": found.scaled_by,
    }
    tables = {"plans": found.plans, "day": found.steps, "runs": found.results.runs}
    print_tables("advise --day", tables, facts, found.sentences)
