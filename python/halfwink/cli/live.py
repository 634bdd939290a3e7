"""``halfwink live``: techniques that are software, run for real."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Group, Parameter
from rich.console import Console

from halfwink.cli import (
    day,
    live_block,
    live_circuits,
    live_preheat,
    live_router,
    live_steer,
    load,
    predict,
    prototype,
    resctrl,
    traffic,
)
from halfwink.cli.console import err_table, has_place, print_table, put_json, put_tables, say
from halfwink.errors import HalfwinkError
from halfwink.live import delegate as living

#: What an operator may rely on, by command: each group says what it promises and what not.
OPERATION = Group(
    "For operation",
    help="Made to be left running: descriptions are checked, reloaded and drained; limits hold "
    "against hostile clients and neighbours. Their joules are modelled.",
    sort_key=1,
)
EXPERIMENT = Group(
    "For an experiment",
    help="They show what a technique is worth here. The program's output stays what it was; "
    "crashes of halfwink and hostile users of the same machine are not provided for.",
    sort_key=2,
)
BED = Group(
    "A test bed",
    help="Traffic, servers and loads to try the others with; no use beyond that.",
    sort_key=3,
)
INSTRUMENTS = Group("Instruments", help="They measure, and change nothing.", sort_key=4)

app = App(name="live", help="Run techniques on this machine.", help_on_error=False)
for command in (live_router.router, live_steer.steer, live_block.block):
    app.command(command, group=OPERATION)
for group in (live_preheat.app, resctrl.app):
    group.group = EXPERIMENT
    app.command(group)
app.command(live_circuits.circuits, group=EXPERIMENT)
app.command(day.play, name="day", group=BED)
for command in (
    traffic.generate,
    traffic.sink,
    prototype.dataset,
    prototype.serve,
    load.load,
    predict.predict,
    predict.steer_day,
):
    app.command(command, group=BED)
for command in (live_router.costs, load.calibrate):
    app.command(command, group=INSTRUMENTS)

Flag = Annotated[bool, Parameter(negative="")]
Quiet = Annotated[bool, Parameter(name=["-q", "--quiet"], negative="")]

#: Events that a log holds unless more are asked for.
LOG_RECORDS = 1 << 18


@app.command(group=EXPERIMENT)
def delegate(
    *,
    command: Annotated[tuple[str, ...], Parameter(parse=False)] = (),
    policy: str = living.POLICY,
    os_cpu: Annotated[int | None, Parameter(name="--os-cpu")] = None,
    no_pin: Annotated[bool, Parameter(name="--no-pin", negative="")] = False,
    spin_us: Annotated[float, Parameter(name="--spin-us")] = 100.0,
    time_every: Annotated[int, Parameter(name="--time-every")] = 64,
    log: Path | None = None,
    log_records: Annotated[int, Parameter(name="--log-records")] = LOG_RECORDS,
    die_with_us: Annotated[bool, Parameter(name="--die-with-us", negative="")] = False,
    out: Annotated[Path | None, Parameter(name=["-o", "--out"])] = None,
    quiet: Quiet = False,
) -> int:
    """Run a program (after --) whose system calls may be made on another CPU.

    Its standard input and output are its own; the report goes to standard error. Its exit status
    is passed on.

    Parameters
    ----------
    policy
        Technique that decides which calls move, with its parameters: os-profile (none),
        os-always, os-enough-work:bytes=4096, os-dynamic:threshold=1000 (those predicted to take
        more nanoseconds), or os-adaptive, which finds the threshold while the program runs.
    os_cpu
        CPU of the threads that make calls (default: the last one allowed).
    no_pin
        Let the program run on that CPU too.
    spin_us
        Microseconds that such a thread waits awake for the next call.
    time_every
        Time one of this number of calls in place; 1 for all.
    log
        File for the policies' events and actions, written at the end: lines of JSON, for
        `halfwink replay`.
    log_records
        Events to record, at most.
    die_with_us
        Kill the program if this command is killed.
    out
        File for the report as a JSON document.
    quiet
        No report on standard error.
    """
    if not command:
        raise HalfwinkError("expected `--` and a command: halfwink live delegate -- tar cf a.tar .")
    has_place(out)
    done = living.delegate(
        command,
        policy=policy,
        os_cpu=os_cpu,
        pin=not no_pin,
        spin_us=spin_us,
        time_every=time_every,
        log=log,
        log_records=log_records,
        die_with_us=die_with_us,
    )
    put_json("live.delegate", done.report, out, json=False, quiet=quiet)
    if not quiet:
        _show(done.report)
    return done.status


@app.command(group=INSTRUMENTS)
def idle(
    *,
    command: Annotated[tuple[str, ...], Parameter(parse=False)] = (),
    seconds: float | None = None,
    by: str | None = None,
    record: Path | None = None,
    json: Annotated[bool, Parameter(name="--json", negative="")] = False,
    out: Annotated[Path | None, Parameter(name=["-o", "--out"])] = None,
    quiet: Quiet = False,
) -> int:
    """Watch how long each CPU is idle, exactly and as a log2 histogram would tell.

    With a command (after --), while it runs; its exit status is passed on, and the table goes to
    standard error.

    Parameters
    ----------
    seconds
        Length of the watch in seconds (default: until the command ends, or one second).
    by
        switch-records (root or CAP_PERFMON) or spinners; else the best that is allowed.
    record
        File for each idle time (cpu,begin_ns,end_ns), which halfwink idle reads. Needs
        switch-records.
    json
        Print one JSON document (on standard output; without a command only).
    out
        File for the same.
    quiet
        No messages.
    """
    if seconds is not None and not 0 < seconds <= 86_400:
        raise HalfwinkError(f"--seconds {seconds}: expected above 0, at most 86400")
    if json and command:
        raise HalfwinkError("--json with a command: its output goes there; use -o FILE")
    status, found = living.idle(seconds, command, mechanism=by, record=record)
    facts = {name: value for name, value in found.items() if name != "cpus"}
    put_tables("live idle", {"cpus": found["cpus"]}, facts, out, json=json)
    if json:
        return status
    if not (quiet and command):
        _show_idle(found, to=err_table if command else None)
    if record is not None and any(cpu["periods"] for cpu in found["cpus"]):
        say(f"recorded: {record}; next: halfwink idle {record}", quiet=quiet)
    if found["fallback"]:
        say(f"by spinners: {found['fallback']}", quiet=quiet)
    return status


def _show_idle(found: dict[str, Any], to: Console | None) -> None:
    def number(value: float | None, digits: int) -> str:
        return "-" if value is None else f"{value:,.{digits}f}"

    rows = [
        [
            str(cpu["cpu"]),
            number(cpu["exact_s"], 4),
            f"{cpu['exact_s'] / found['watched_s']:.1%}",
            number(cpu["log2_s"], 4),
            number(cpu["log2_over_exact"], 4),
            f"{cpu['periods']:,}",
            number(cpu["mean_us"], 1),
            number(cpu["proc_stat_s"], 2),
            str(cpu["lost"]),
        ]
        for cpu in found["cpus"]
    ]
    heads = ["idle s", "of time", "by log2 s", "log2 / exact", "periods", "mean us", "/proc/stat s"]
    columns = [("CPU", "right"), *((head, "right") for head in [*heads, "lost"])]
    print_table(columns, rows, to=to)
    counts: dict[int, list[int]] = {}
    for place, cpu in enumerate(found["cpus"]):
        for power, n in cpu["histogram"]:
            counts.setdefault(power, [0] * len(found["cpus"]))[place] = n
    rows = [[f"{2**k / 1e3:,.3f}", *(f"{n:,}" for n in counts[k])] for k in sorted(counts)]
    cpus = [(f"CPU {cpu['cpu']}", "right") for cpu in found["cpus"]]
    print_table([("periods from us", "right"), *cpus], rows, to=to)
    say(f"{found['watched_s']:.3f} s watched, by {found['mechanism'].replace('-', ' ')}")


def _show(report: dict[str, Any]) -> None:
    if not report["process_images"]:
        say("halfwink: no call of the program was seen: is it statically linked, or set-user-id?")
        return
    heads = ["calls", "moved", "stayed", "refused", "here mean", "p50", "p99", "there mean"]
    rows = [
        [
            call["name"],
            f"{call['calls']:,}",
            f"{call['delegated']:,}",
            f"{call['stayed']:,}",
            " ".join(f"{why} {n:,}" for why, n in call["refused"].items()) or "-",
            *(_ns(call["here"][name]) for name in ("mean_ns", "p50_ns", "p99_ns")),
            *(_ns(call["there"][name]) for name in ("mean_ns", "p50_ns", "p99_ns")),
        ]
        for call in report["calls"]
    ]
    columns = [("call", "left"), *((h, "right") for h in [*heads, "p50", "p99"])]
    print_table(columns, rows, to=err_table)
    for line in _lines(report):
        say(line)


def _lines(report: dict[str, Any]) -> list[str]:
    hand_off, residency = report["hand_off"], report["residency"]
    energy, prediction = report["modelled_energy"], report["prediction"]
    lines = [
        f"policy {report['policy']}: {report['process_images']:,} processes, "
        f"{report['threads']:,} threads, {report['workers']:,} workers on CPU {report['os_cpu']}; "
        f"{report['wall_s']:.3f} s; a decision took {_ns(report['decision_ns'])}"
    ]
    if hand_off["timed"]:
        lines.append(
            f"hand-off: mean {_ns(hand_off['mean_ns'])}, p50 {_ns(hand_off['p50_ns'])}, "
            f"p99 {_ns(hand_off['p99_ns'])}; {hand_off['worker_wakes']:,} wake-ups, "
            f"{hand_off['caller_naps']:,} naps"
        )
        lines.append(
            f"residency: OS CPU worked {residency['os_cpu_worked_pct']:.2f} % of the run; threads "
            f"waited {residency['waited_pct'] or 0:.2f} % of {residency['thread_s']:.3f} s"
        )
    if prediction:
        lines.append(
            f"predictions: {prediction['within_5_percent_pct']:.1f} % within 5 %, "
            f"{prediction['right_side_of_n_pct']:.1f} % on the right side of N, "
            f"of {prediction['compared']:,}"
        )
    lines.append(
        f"modelled energy, not measured: big core alone {energy['big_core_j']:.3f} J; with a small "
        f"one always on {energy['small_core_always_on_j']:.3f} J, on demand "
        f"{energy['small_core_on_demand_j']:.3f} J"
    )
    for name, what in (
        ("uncounted_threads", "threads had no room and ran as ever"),
        ("confined", "processes confined themselves and moved nothing more"),
    ):
        if report[name]:
            lines.append(f"{report[name]:,} {what}")
    return lines


def _ns(value: float | None) -> str:
    if value is None:
        return "-"
    if value < 10_000:
        return f"{value:.0f} ns"
    return f"{value / 1e3:.1f} us" if value < 1e7 else f"{value / 1e6:.1f} ms"
