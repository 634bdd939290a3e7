"""``halfwink live router``."""

from __future__ import annotations

import json as jsonlib
import os
import select
import signal
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, TextIO

from cyclopts import Parameter
from rich.console import Group
from rich.live import Live
from rich.table import Table

from halfwink.cli.console import err, err_table, print_frame, print_json, print_table, say
from halfwink.errors import HalfwinkError, RunError
from halfwink.forwarding import STATES, LiveRouter
from halfwink.forwarding import costs as measured
from halfwink.openmetrics import serve

#: Between two looks of the live view, in seconds.
LOOK_S = 0.5
#: Between two looks whether all threads are alive, without a view.
PATIENCE_S = 2.0
#: Lines of an event log, unless more are asked for.
LOG_LINES = 1 << 18


def costs(
    *,
    repeats: int = 101,
    json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> int:
    """Measure what each element of the router's data plane costs on this machine, without sockets.

    Parameters
    ----------
    repeats
        Batches of 1,024 packets; figures are medians.
    json
        Print one JSON document.
    """
    if not 1 <= repeats <= 100_000:
        raise HalfwinkError(f"--repeats {repeats}: expected 1 to 100000")
    found = measured(repeats)
    if json:
        print_json(found.to_dicts())
    else:
        print_frame(found)
    return 0


class _Asked:
    """What signals have asked for."""

    def __init__(self) -> None:
        self.stop = False
        self.reload = False
        self._heard, self.bell = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def wait(self, seconds: float) -> None:
        """Until a signal comes, or so long."""
        if select.select([self._heard], [], [], max(seconds, 0.0))[0]:
            os.read(self._heard, 512)

    def close(self) -> None:
        """Gives the pipe back."""
        os.close(self._heard)
        os.close(self.bell)


def router(
    description: Path,
    *,
    seconds: float | None = None,
    view: Annotated[bool, Parameter(negative="")] = False,
    metrics: str | None = None,
    log: Path | None = None,
    log_lines: Annotated[int, Parameter(name="--log-lines")] = LOG_LINES,
    samples: Path | None = None,
    every_s: Annotated[float, Parameter(name="--every-s")] = 1.0,
    json: Annotated[bool, Parameter(name="--json", negative="")] = False,
    out: Annotated[Path | None, Parameter(name=["-o", "--out"])] = None,
    quiet: Annotated[bool, Parameter(name=["-q", "--quiet"], negative="")] = False,
) -> int:
    """Forward packets between interfaces of this machine, by as few cores as carry them.

    SIGTERM or Ctrl-C ends it: what has arrived is forwarded first. SIGHUP reads the description
    again (routes, addresses, neighbours, application). Watts are modelled.

    Parameters
    ----------
    description
        TOML file: ports, routes, application, policy.
    seconds
        How long (default: until it is told to end).
    view
        Show workers, ports, watts and times while it runs.
    metrics
        HOST:PORT at which to serve OpenMetrics.
    log
        File for the policy's events: lines of JSON.
    log_lines
        Events to record, at most.
    samples
        File for what is counted and measured, again and again: lines of JSON, each with at_ns, the
        machine's monotonic clock.
    every_s
        Seconds between two of them.
    json
        Print the result as one JSON document.
    out
        File for the same.
    quiet
        No messages.
    """
    if seconds is not None and not 0 < seconds <= 30 * 86_400:
        raise HalfwinkError(f"--seconds {seconds}: expected above 0, at most 30 days")
    if not 1 <= log_lines < 1 << 31:
        raise HalfwinkError(f"--log-lines {log_lines}: expected 1 or more, below {1 << 31}")
    if not 0.05 <= every_s <= 3600:
        raise HalfwinkError(f"--every-s {every_s}: expected 0.05 to 3600")
    with ExitStack() as stack:
        asked = stack.enter_context(_signals())
        router = stack.enter_context(LiveRouter(description, log_lines=log_lines if log else 0))
        if metrics is not None:
            where = stack.enter_context(serve(metrics, router.report))
            say(f"metrics: http://{where}/metrics", quiet=quiet)
        looks: list[tuple[float, Callable[[], None]]] = []
        if view:
            looks.append((LOOK_S, _viewer(router, stack.enter_context(_live()))))
        if samples is not None:
            looks.append((every_s, _sampler(router, stack.enter_context(samples.open("w")))))
        say("ready", quiet=quiet)
        _run(router, asked, seconds, looks)
        alive = router.is_running
        router.stop()
        report = router.report()
    if log is not None:
        log.write_text("".join(f"{line}\n" for line in router.log()))
    if out is not None:
        out.write_text(jsonlib.dumps(report, indent=2) + "\n")
    if json:
        print_json(report)
    elif not quiet:
        _show(report)
    if not alive:
        raise RunError("a thread of the router has died; what it said is above")
    return 0


def _run(
    router: LiveRouter,
    asked: _Asked,
    seconds: float | None,
    looks: Sequence[tuple[float, Callable[[], None]]],
) -> None:
    """Until it is to end; calls each of ``looks`` every so many seconds."""
    now = time.monotonic()
    ends = None if seconds is None else now + seconds
    due = [now + every for every, _ in looks]
    while router.is_running and not asked.stop:
        now = time.monotonic()
        if ends is not None and now >= ends:
            return
        asked.wait(min([PATIENCE_S, *(at - now for at in due), *([ends - now] if ends else [])]))
        if asked.reload:
            asked.reload = False
            _reload(router)
        for number, (every, look) in enumerate(looks):
            if time.monotonic() >= due[number]:
                due[number] += every
                look()


def _viewer(router: LiveRouter, view: Live) -> Callable[[], None]:
    before = router.report()

    def look() -> None:
        nonlocal before
        now = router.report()
        view.update(_page(now, before, router))
        before = now

    return look


def _sampler(router: LiveRouter, file: TextIO) -> Callable[[], None]:
    def look() -> None:
        sample = {"at_ns": time.monotonic_ns(), **router.report()}
        file.write(jsonlib.dumps(sample) + "\n")
        file.flush()

    return look


def _reload(router: LiveRouter) -> None:
    try:
        router.reload()
        say(f"read {router.path} again")
    except HalfwinkError as error:
        err.print(f"halfwink: {error}; all stays as it was", markup=False)


@contextmanager
def _signals() -> Generator[_Asked]:
    asked = _Asked()

    def stop(_number: int, _frame: FrameType | None) -> None:
        asked.stop = True

    def reload(_number: int, _frame: FrameType | None) -> None:
        asked.reload = True

    handlers = {signal.SIGTERM: stop, signal.SIGINT: stop, signal.SIGHUP: reload}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    # Whichever thread the kernel picks, the pipe is written to: no signal is slept over.
    bell = signal.set_wakeup_fd(asked.bell, warn_on_full_buffer=False)
    try:
        yield asked
    finally:
        signal.set_wakeup_fd(bell)
        for number, handler in before.items():
            signal.signal(number, handler)
        asked.close()


def _live() -> Live:
    return Live(console=err_table, auto_refresh=True, refresh_per_second=4, transient=True)


def _page(now: dict[str, Any], before: dict[str, Any], router: LiveRouter) -> Group:
    """The live view: what happened since the last look."""
    span = max(now["duration_s"] - before["duration_s"], 1e-9)
    workers = Table("worker", "", "kpps", "waiting", "busy", "spin", "C1", "C3", "C6", box=None)
    times: list[list[float]] = []
    for number, (new, old) in enumerate(zip(now["workers"], before["workers"], strict=True)):
        spent = [new["residency"][s] - old["residency"][s] for s in STATES]
        times.append(spent)
        rate = (new["served"] - old["served"]) / span / 1e3
        state = "parked" if new["parked"] else ""
        shares = [f"{100 * s / span:.1f} %" for s in spent]
        workers.add_row(str(number), state, f"{rate:.1f}", str(new["waiting"]), *shares)
    ports = Table("port", "by", "in kpps", "out kpps", "lost", box=None)
    for new, old in zip(now["ports"], before["ports"], strict=True):
        rates = [f"{(new[k] - old[k]) / span / 1e3:.1f}" for k in ("received", "sent")]
        lost = new["lost"] + new["unsent"]
        by = new["io"] if new["up"] else "gone"
        ports.add_row(new["interface"], by, *rates, str(lost))
    if span < 1e-6:
        return Group(workers, ports)
    modelled = router.modelled(times, span, now["received"] - before["received"])
    sojourn = now["sojourn"]
    line = (
        f"{now['duration_s']:.0f} s   modelled: {modelled['energy_w']:.0f} W "
        f"(polling {modelled['polling_w']:.0f} W)   in the router: p50 {_us(sojourn['p50_us'])}, "
        f"p99 {_us(sojourn['p99_us'])}   changes {now['changes']}"
    )
    return Group(workers, ports, line)


def _us(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} us"


def _show(report: dict[str, Any]) -> None:
    rows = [
        [
            p["interface"],
            p["io"] if p["up"] else "gone",
            *(f"{p[k]:,}" for k in ("received", "sent", "unsent", "lost")),
        ]
        for p in report["ports"]
    ]
    heads = ["received", "sent", "not taken", "lost by the kernel"]
    print_table([("port", "left"), ("by", "left"), *((h, "right") for h in heads)], rows)
    rows = []
    for number, worker in enumerate(report["workers"]):
        total = sum(worker["residency"].values()) or 1.0
        shares = [f"{100 * worker['residency'][s] / total:.2f}" for s in STATES]
        counts = [f"{worker['served']:,}", f"{worker['sleeps']:,}", f"{worker['cpu_s']:.3f}"]
        rows.append([str(number), *counts, *shares])
    heads = ["served", "sleeps", "CPU s", "busy %", "spin %", "C1 %", "C3 %", "C6 %"]
    print_table([("worker", "right"), *((h, "right") for h in heads)], rows)
    rows = [[name, f"{count:,}"] for name, count in report["packets"].items() if count]
    print_table([("packets", "left"), ("", "right")], rows)
    s, modelled = report["sojourn"], report["modelled"]
    say(
        f"{report['duration_s']:.3f} s; in the router mean {_us(s['mean_us'])}, "
        f"p50 {_us(s['p50_us'])}, p99 {_us(s['p99_us'])}; {report['changes']:,} changes, "
        f"{report['moves']:,} entries moved; queues overflowed {report['overflowed']:,} times"
    )
    say(
        f"modelled, not measured: {modelled['energy_w']:.1f} W in the mean; all cores polling "
        f"{modelled['polling_w']:.1f} W, all asleep {modelled['asleep_w']:.1f} W"
    )
