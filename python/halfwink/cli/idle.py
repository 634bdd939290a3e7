"""``halfwink idle``: what each idle policy would have made of recorded idle times."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from halfwink.advice import idle_gaps
from halfwink.advice.idle_counters import IdleCounters
from halfwink.advice.idle_gaps import BEST, RECORDED, IdleGaps, short_time
from halfwink.advice.idle_readers import counters
from halfwink.cli.commands import Json, Quiet
from halfwink.cli.console import out as stdout
from halfwink.cli.console import print_sentences, print_table, print_tables, say
from halfwink.cli.results import NO_FIGURE, FigureOptions, save
from halfwink.cli.settings import Setting, settings, split_techniques
from halfwink.errors import HalfwinkError
from halfwink.inputs import read_text
from halfwink.models.response_times import time_us
from halfwink.results import wording
from halfwink.results.summary import fixed

#: Counters are short; a longer file holds none.
MOST_COUNTERS = 64 << 20


def idle(
    file: Path,
    *,
    machine: Annotated[str | None, Parameter(name=["-m", "--machine"])] = None,
    technique: Annotated[str | None, Parameter(name=["-t", "--technique"])] = None,
    limit: str | None = None,
    p99: str | None = None,
    states: str | None = None,
    setting: Setting = None,
    ignore: str | None = None,
    figure: FigureOptions = NO_FIGURE,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Say what each idle policy would have made of the idle times of a recording.

    The gaps stay where they are: the work that ends one comes when it came. Each policy is judged
    by its choices, the energy of the CPUs in the gaps, and the time that work waits for its CPU to
    wake. Watts and wake-up times are those of a described server, not measured.

    Parameters
    ----------
    file
        Text of power:cpu_idle (perf script, trace-cmd report, ftrace, idlestat), CSV with the
        columns cpu,begin_us,end_us, or - for standard input; packed by gz, xz, zst or bz2. Of
        counters (sysfs, turbostat, powertop --csv, node_exporter) it says what they tell.
    machine
        Server of today (golden-cove-56, zen4-96, neoverse-v2-96), or a TOML file.
    technique
        Idle policies and package states, comma-separated. Linux' menu is played beside them.
        Default: the usual ones whose states the server has.
    limit
        Longest exit latency that is allowed (PM QoS), as 20us.
    p99
        Longest 99th percentile of wake-ups that the advice may have, as 50us.
    states
        The server's states by their numbers in the recorded kernel. Default: poll and the states
        on sale, from the shallowest.
    setting
        Change a value of the server: --set idle_states.c6.exit_us=170. May be repeated.
    ignore
        bad-lines: play a recording with many lines that cannot be read.
    json
        Print one JSON document.
    quiet
        No messages.
    """
    figure.check()
    try:
        found = idle_gaps.idle(
            file,
            machine=machine,
            techniques=split_techniques(technique),
            limit_us=None if limit is None else time_us(limit),
            p99_us=None if p99 is None else time_us(p99),
            states=states.split(",") if states else (),
            set=dict(settings(setting)),
            ignore=ignore.split(",") if ignore else (),
        )
    except HalfwinkError as error:
        counted = _counters(file) if idle_gaps.NO_GAPS in str(error) else None
        if counted is None:
            raise
        if figure.plot is not None:
            message = f"{file}: counters hold no idle times; expected a recording for --plot"
            raise HalfwinkError(message) from None
        _show_counters(counted, json=json, quiet=quiet)
        return 0
    say(_read_as(found), quiet=quiet)
    if json:
        _print_tables(found)
    else:
        _print(found.sentences())
        _table(found)
        stdout.print()
        _limits(found)
    if figure.plot is not None:
        from halfwink.report.idle_chart import idle_figure

        save(idle_figure(found), figure, quiet=quiet)
    return 0


def _print(sentences: Sequence[str]) -> None:
    print_sentences(sentences)
    stdout.print()


def _counters(file: Path) -> IdleCounters | None:
    """Reads counters, where a file has no idle times; standard input has been read already."""
    if str(file) == "-":
        return None
    return counters(read_text(file, MOST_COUNTERS), str(file))


def _print_tables(found: IdleGaps) -> None:
    """Prints the tables as JSON."""
    recording = dict(found.recording)
    chosen, left_out = recording.pop("chosen"), recording.pop("left_out")
    limit = found.limit()
    facts = {
        "file": found.file,
        "machine": found.machine,
        "today": found.best_of_today(),
        "limit_us": None if limit is None else limit["limit_us"],
        **recording,
        **left_out,
        **found.facts,
        "modelled": ["energy"],
        "measured": ["idle times"],
    }
    rows = [row | {"saved_pct": found.saving(row["technique"]).value} for row in found.rows]
    tables = {"policies": rows, "limits": found.limits, "chosen": chosen}
    print_tables("idle", tables, facts, found.sentences())


def _print_counters(found: IdleCounters) -> None:
    """Prints the counters as JSON."""
    rows = [
        {
            "state": state.name,
            "stays": state.stays,
            "share_pct": found.share_pct(state),
            "seconds": state.seconds,
            "stay_us": state.stay_us,
            "deep": state.deep,
            "shallow": state.shallow,
            "rejected": state.rejected,
        }
        for state in found.states
    ]
    facts: dict[str, Any] = {
        "file": found.file,
        "format": found.format,
        "cpus": found.cpus,
        "measured": ["stays", "time"],
    }
    if (bounds := found.all_idle_pct()) is not None:
        facts["idle_pct"] = found.mean_idle_pct()
        facts["all_idle_least_pct"], facts["all_idle_most_pct"] = bounds
    if found.package_pct is not None:
        facts["package_asleep_pct"] = found.package_pct
    print_tables("idle", {"counters": rows}, facts, found.sentences())


def _show_counters(found: IdleCounters, *, json: bool, quiet: bool) -> None:
    say(f"read as {found.format}, {found.cpus} CPUs; no idle times", quiet=quiet)
    if json:
        _print_counters(found)
        return
    _print(found.sentences())
    rows = [
        [
            state.name,
            "-" if state.stays is None else f"{state.stays:,}",
            fixed(found.share_pct(state), 1),
            "-" if state.stay_us is None else wording.duration(state.stay_us),
            fixed(state.wrong_pct("deep"), 1),
            fixed(state.wrong_pct("shallow"), 1),
        ]
        for state in found.states
    ]
    heads = ["stays", "of idle time %", "mean stay", "too deep %", "too shallow %"]
    print_table([("state", "left"), *((head, "right") for head in heads)], rows)


def _read_as(found: IdleGaps) -> str:
    of = found.recording
    gaps = ", ".join(wording.duration(value) for value in of["gap_us"])
    line = (
        f"read as {of['format']}: idle times {of['gaps']:,}, CPUs {of['cpus']}, in "
        f"{of['length_s']:.4g} s, {fixed(of['idle_pct'], 1)} % of the time (mean, median, p99: "
        f"{gaps})"
    )
    if of["to_task_pct"] is not None:
        line += f"; a task ran after {fixed(of['to_task_pct'], 0)} %, else an interrupt alone"
    return line


def _table(found: IdleGaps) -> None:
    """Policies, the least energy first; bounds stand last."""
    real = [row for row in found.rows if row["technique"] not in (RECORDED, BEST)]
    real.sort(key=lambda row: -found.saving(row["technique"]).value)
    bounds = [row for row in found.rows if row["technique"] in (RECORDED, BEST)]
    rows = [
        [
            row["technique"],
            fixed(found.saving(row["technique"]).value, 1),
            f"{row['idle_w']:.3g}",
            fixed(row["right_pct"], 1),
            fixed(row["deep_pct"], 1),
            fixed(row["shallow_pct"], 1),
            short_time(row["latency_mean_us"]),
            short_time(row["latency_p99_us"]),
        ]
        for row in [*real, *bounds]
    ]
    heads = ["saved %", "idle W", "right %", "deep %", "shallow %", "wake mean", "p99"]
    print_table([("technique", "left"), *((head, "right") for head in heads)], rows)


def _limits(found: IdleGaps) -> None:
    """Prints what menu takes and delays under each latency limit."""
    whole = found.limits[-1]["energy_j"]
    rows = [
        [
            "none" if row["limit_us"] is None else wording.duration(row["limit_us"]),
            fixed(100 * (1 - row["energy_j"] / whole), 1),
            f"{row['idle_w']:.3g}",
            short_time(row["latency_mean_us"]),
            short_time(row["latency_p99_us"]),
        ]
        for row in found.limits
    ]
    heads = ["saved %", "idle W", "wake mean", "p99"]
    print_table([("latency limit", "left"), *((head, "right") for head in heads)], rows)
