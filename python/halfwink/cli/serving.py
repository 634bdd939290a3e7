"""Shared parts of live programs that run until a signal: signals, the loop, and the output while
they run and at the end.
"""

from __future__ import annotations

import json as jsonlib
import os
import select
import signal
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, TextIO

from cyclopts import Parameter
from rich.console import Group
from rich.live import Live

from halfwink.cli.console import complain, err_table, has_place, put_json, say
from halfwink.errors import HalfwinkError, RunError
from halfwink.live.program import LiveProgram

#: Between two looks of the live view, in seconds.
LOOK_S = 0.5
#: Between two looks whether all threads are alive, without a view.
PATIENCE_S = 2.0

Report = dict[str, Any]


@Parameter(name="*")
@dataclass(frozen=True)
class Wishes:
    """Options of every command that runs a live program.

    Attributes
    ----------
    seconds
        Length of the run in seconds (default: until a signal).
    view
        Show work, states, watts and times while it runs.
    metrics
        HOST:PORT at which to serve OpenMetrics.
    log
        File for the policy's events and actions, written as they come: lines of JSON, for
        `halfwink replay`.
    samples
        File for counters and measurements, written at intervals: lines of JSON, each with at_ns,
        the machine's monotonic clock.
    every_s
        Interval of these samples, in seconds.
    json
        Print the result as one JSON document.
    out
        Write that document to this file.
    quiet
        Print no messages.
    """

    seconds: float | None = None
    view: Annotated[bool, Parameter(negative="")] = False
    metrics: str | None = None
    log: Path | None = None
    samples: Path | None = None
    every_s: Annotated[float, Parameter(name="--every-s")] = 1.0
    json: Annotated[bool, Parameter(name="--json", negative="")] = False
    out: Annotated[Path | None, Parameter(name=["-o", "--out"])] = None
    quiet: Annotated[bool, Parameter(name=["-q", "--quiet"], negative="")] = False

    def check(self) -> None:
        """Raises:
        HalfwinkError: an option cannot be.
        """
        if self.seconds is not None and not 0 < self.seconds <= 30 * 86_400:
            raise HalfwinkError(f"--seconds {self.seconds}: expected above 0, at most 30 days")
        if not 0.05 <= self.every_s <= 3600:
            raise HalfwinkError(f"--every-s {self.every_s}: expected 0.05 to 3600")


#: A user who asks for nothing.
NO_WISHES = Wishes()


@dataclass(frozen=True)
class Faces:
    """Output of a program.

    Attributes:
        page: the live view, from a report and the one before.
        show: prints the last report, as tables.
    """

    page: Callable[[Report, Report], Group]
    show: Callable[[Report], None]


class Asked:
    """Requests that signals have made."""

    def __init__(self) -> None:
        self.stop = False
        self.reload = False
        self.reopen = False
        self.nothing = False
        self._heard, self.bell = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def wait(self, seconds: float) -> None:
        """Waits for a signal, at most for this time."""
        if select.select([self._heard], [], [], max(seconds, 0.0))[0]:
            os.read(self._heard, 512)

    def close(self) -> None:
        """Gives the pipe back."""
        os.close(self._heard)
        os.close(self.bell)


def serve_until_told(
    begin: Callable[[Path | None], LiveProgram],
    wishes: Wishes,
    faces: Callable[[Any], Faces],
    kind: str,
    name: str,
) -> int:
    """Begins a program, with a file for its log if there is to be one; runs it until it is told to
    end. Its report is of this ``kind`` as a JSON document.

    Raises:
        HalfwinkError: the user's input is invalid.
        RunError: the program has died, or its log is not complete.
    """
    wishes.check()
    has_place(wishes.out)
    quiet = wishes.quiet
    with ExitStack() as stack:
        asked = stack.enter_context(signals())
        program = stack.enter_context(begin(wishes.log))
        face = faces(program)
        if wishes.metrics is not None:
            metrics = stack.enter_context(closing(program.serve_metrics(wishes.metrics)))
            say(f"metrics: http://{metrics.address}/metrics", quiet=quiet)
        looks: list[tuple[float, Callable[[], None]]] = []
        if wishes.view:
            looks.append((LOOK_S, _viewer(program, face, stack.enter_context(_live()))))
        if wishes.samples is not None:
            file = stack.enter_context(wishes.samples.open("w"))
            looks.append((wishes.every_s, _sampler(program, file)))
        say("ready", quiet=quiet)
        _run(program, asked, wishes.seconds, looks)
        alive = program.is_running
        incomplete = _stopped(program)
        report = program.report()
    put_json(kind, report, wishes.out, json=wishes.json)
    if not wishes.json and not quiet:
        face.show(report)
        for line in measured_lines(report):
            say(line)
        if report["measured"]["missing"] is not None:
            say(f"not measured: {report['measured']['missing']}")
    if report["ledger"]["imbalance"] is not None:
        complain(report["ledger"]["imbalance"])
    if report["log_dropped"]:
        lines = f"{report['log_dropped']:,} lines"
        complain(f"the log lacks {lines}: its file could not be written, or too slowly")
    if not alive:
        raise RunError(f"a thread of the {name} has died; what it said is above")
    if incomplete is not None:
        raise incomplete
    return 0


def measured_lines(now: Report, before: Report | None = None) -> list[str]:
    """Describes each meter's reading between two reports, or since the start."""
    earlier = {m["meter"]: m for m in before["measured"]["meters"]} if before else {}
    lines: list[str] = []
    for meter in now["measured"]["meters"]:
        old = earlier.get(meter["meter"], {"energy_j": 0.0, "duration_s": 0.0})
        span = meter["duration_s"] - old["duration_s"]
        joules = meter["energy_j"] - old["energy_j"]
        watts = f"{joules / span:.1f} W in the mean, " if span > 0 else ""
        ended = f"; not to the end: {meter['ended']}" if meter["ended"] else ""
        lines.append(f"measured ({meter['meter']}): {watts}{joules:.1f} J, all programs{ended}")
    return lines


def _stopped(program: LiveProgram) -> RunError | None:
    """Ends it; why its log is not complete. That is said last: what was measured comes first."""
    try:
        program.stop()
    except RunError as error:
        return error
    return None


def _run(
    program: LiveProgram,
    asked: Asked,
    seconds: float | None,
    looks: Sequence[tuple[float, Callable[[], None]]],
) -> None:
    """Runs the program until its end; calls each of ``looks`` at its interval."""
    now = time.monotonic()
    ends = None if seconds is None else now + seconds
    due = [now + every for every, _ in looks]
    while program.is_running and not asked.stop:
        now = time.monotonic()
        if ends is not None and now >= ends:
            return
        asked.wait(min([PATIENCE_S, *(at - now for at in due), *([ends - now] if ends else [])]))
        if asked.reload:
            asked.reload = False
            _reload(program)
        if asked.reopen:
            asked.reopen = False
            _reopen(program)
        if asked.nothing:
            asked.nothing = False
            say("SIGUSR2 changes nothing; SIGHUP reloads")
        for number, (every, look) in enumerate(looks):
            if time.monotonic() >= due[number]:
                due[number] += every
                look()


def _viewer(program: LiveProgram, face: Faces, view: Live) -> Callable[[], None]:
    before = program.report()

    def look() -> None:
        nonlocal before
        now = program.report()
        view.update(Group(face.page(now, before), *measured_lines(now, before)))
        before = now

    return look


def _sampler(program: LiveProgram, file: TextIO) -> Callable[[], None]:
    def look() -> None:
        sample = {"at_ns": time.monotonic_ns(), **program.report()}
        file.write(jsonlib.dumps(sample) + "\n")
        file.flush()

    return look


def _reload(program: LiveProgram) -> None:
    try:
        changes = program.reload()
        what = ", ".join(changes) + " changed" if changes else "no value in it has changed"
        say(f"read {program.path} again: {what}")
    except HalfwinkError as error:
        complain(f"{error}; all stays as it was")


def _reopen(program: LiveProgram) -> None:
    try:
        said = program.reopen()
        say(
            "SIGUSR1 changes nothing without an access log; SIGHUP reloads"
            if said is None
            else said
        )
    except RunError as error:
        complain(f"{error}; lines go to the old file")


@contextmanager
def signals() -> Generator[Asked]:
    """SIGTERM and SIGINT ask to stop, SIGHUP to reload, SIGUSR1 to open logs again, SIGUSR2 for
    nothing, while the context lasts."""
    asked = Asked()

    def stop(_number: int, _frame: FrameType | None) -> None:
        asked.stop = True

    def reload(_number: int, _frame: FrameType | None) -> None:
        asked.reload = True

    def reopen(_number: int, _frame: FrameType | None) -> None:
        asked.reopen = True

    def ignore(_number: int, _frame: FrameType | None) -> None:
        asked.nothing = True

    handlers = {signal.SIGTERM: stop, signal.SIGINT: stop, signal.SIGHUP: reload}
    # Their defaults end the process, and with it what it forwards.
    handlers |= {signal.SIGUSR1: reopen, signal.SIGUSR2: ignore}
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
