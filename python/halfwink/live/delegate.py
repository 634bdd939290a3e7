"""Techniques that are software, run for real on this machine.

from halfwink.live import delegate as live

done = live.delegate(["tar", "cf", "/tmp/a.tar", "."], policy="os-adaptive")
done.status, done.report["residency"]
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from halfwink import installed
from halfwink.errors import HalfwinkError, RunError
from halfwink.live import native
from halfwink.live.program import LiveProgram
from halfwink.live.served import as_asked, described

#: Technique that decides unless another one is named: N is found while the program runs.
POLICY = "os-adaptive"
#: Signals that are passed on to the program.
FORWARDED = (
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGINT,
    signal.SIGQUIT,
)


@dataclass(frozen=True)
class Delegated:
    """Exit status of a program, and the report of its calls.

    Attributes:
        status: exit status of the program; 128 and the signal's number if a signal ended it.
        report: counts, times in the unit of their names, modelled joules.
    """

    status: int
    report: dict[str, Any]


def preload_library() -> Path:
    """The library that a program is made to load.

    Raises:
        HalfwinkError: the library has not been built.
    """
    return installed.preload_library("libhalfwink_delegate.so")


class LiveDelegate(LiveProgram):
    """A program under delegation. Nothing of its description can change while it runs;
    :meth:`stop` ends it.

    Args:
        path: path of its description (TOML).
        command: the program and its arguments, in place of those of the description; it inherits
            standard input and output.
        log: file for the policies' events and actions, for :func:`halfwink.replay`; written at the
            end, since the program that they come from may be anything.

    Raises:
        HalfwinkError: the description is wrong, or there is no such program.
        RunError: the machine does not allow it.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        command: Sequence[str] | None = None,
        log: str | Path | None = None,
    ) -> None:
        words = None if command is None else list(command)
        to = None if log is None else str(log)
        self._delegate = native.LiveDelegate(str(path), command=words, log=to)
        super().__init__(self._delegate, path)

    def wait(self) -> int:
        """Waits until the program has ended, and passes signals of this process on to it.

        Returns:
            The exit status; 128 and the signal's number if a signal ended the program.
        """
        return _wait(self._delegate.signal, self._delegate.wait, self._delegate.status)


def delegate(
    command: Sequence[str],
    *,
    policy: str = POLICY,
    os_cpu: int | None = None,
    pin: bool = True,
    spin_us: float = 100.0,
    time_every: int = 64,
    log: Path | None = None,
    log_records: int = 1 << 18,
    die_with_us: bool = False,
) -> Delegated:
    """Runs a program whose system calls may be made by threads on another CPU.

    Args:
        command: the program and its arguments; it inherits standard input and output.
        policy: technique that decides which calls move, with its parameters: ``os-profile``
            (none), ``os-always``, ``os-enough-work:bytes=4096``, ``os-dynamic:threshold=1000``
            (nanoseconds) or ``os-adaptive``.
        os_cpu: the CPU of the threads that make calls (default: the last one allowed).
        pin: keep the program itself off that CPU.
        spin_us: time for which such a thread spins for the next call, in microseconds.
        time_every: one of this number of calls in place is timed.
        log: file for the policies' events and actions, for :func:`halfwink.replay`; written at the
            end, since the program that they come from may be anything.
        log_records: events that it can hold.
        die_with_us: the program is killed if this process is.

    Raises:
        HalfwinkError: an argument is wrong, or there is no such program.
        RunError: the machine does not allow it.
    """
    text = described(
        {
            "library": preload_library(),
            "policy": policy,
            "os_cpu": os_cpu,
            "pin": pin,
            "spin_us": float(spin_us),
            "time_every": time_every,
            "log_records": log_records,
            "die_with_us": die_with_us,
        }
    )
    with tempfile.TemporaryDirectory(prefix="halfwink-delegate-") as folder:
        path = Path(folder) / "description.toml"
        path.write_text(text)
        try:
            program = LiveDelegate(path, command=command, log=log)
        except (HalfwinkError, RunError) as error:
            raise type(error)(as_asked(str(error), path, text)) from None
    status = program.wait()
    program.stop()
    return Delegated(status, program.report())


def measure(
    *,
    only: Sequence[str] | None = None,
    pair: tuple[int, int] | None = None,
    seconds_per_item: float = 1.0,
) -> dict[str, Any]:
    """Measures the cost of ways to hand work to another core on this machine.

    Args:
        only: names of items; all, if none are given.
        pair: the CPUs to measure between (default: the first and the last one allowed).
        seconds_per_item: bound of each item.

    Returns:
        ``rows`` with times in nanoseconds or what is ``missing``, and ``ratios`` of their medians.

    Raises:
        HalfwinkError: there is no such item or CPU.
    """
    known = native.measure_names()
    for name in only or ():
        if name not in known:
            raise HalfwinkError(f"--only {name}: expected some of {', '.join(known)}")
    allowed = sorted(os.sched_getaffinity(0))
    here, there = pair or (allowed[0], allowed[-1] if len(allowed) > 1 else None)
    for cpu in (here, there):
        if cpu is not None and cpu not in allowed:
            raise HalfwinkError(f"--cpus: CPU {cpu} is not one of {allowed}")
    return native.measure(
        here, there, only=list(only) if only else None, item_ns=int(seconds_per_item * 1e9)
    )


def idle(
    seconds: float | None = None,
    command: Sequence[str] = (),
    *,
    mechanism: str | None = None,
    record: Path | None = None,
) -> tuple[int, dict[str, Any]]:
    """Watches how long CPUs are idle, exactly and as a logarithmic histogram tells (Mogul 2007).

    Args:
        seconds: length of the watch; without it, until the command ends.
        command: a program to run meanwhile; if it runs longer than ``seconds``, it goes on unseen.
        mechanism: ``switch-records`` (needs root or CAP_PERFMON) or ``spinners``; the first that is
            allowed if none is named.
        record: file to which each idle time is written, for `halfwink idle`.

    Returns:
        The command's exit status (0 without one), and what was found: times in seconds.

    Raises:
        HalfwinkError: the mechanism is not allowed, or there is no such program.
    """
    if command and shutil.which(command[0]) is None:
        raise HalfwinkError(f"{command[0]}: no such program")
    watch = native.IdleWatch(mechanism, record)
    if not command:
        time.sleep(1.0 if seconds is None else seconds)
        return 0, watch.end()
    found: list[dict[str, Any]] = []
    timer = threading.Timer(seconds, lambda: found.append(watch.end())) if seconds else None
    if timer is not None:
        timer.daemon = True
        timer.start()
    child = native.LiveCommand(list(command))
    status = _wait(child.signal, child.wait, child.status)
    if timer is not None:
        timer.cancel()
        timer.join()
    return status, found[0] if found else watch.end()


def _wait(
    send: Callable[[int], None], wait: Callable[[], None], status: Callable[[], int | None]
) -> int:
    """Waits for a program, and passes signals on to it meanwhile; returns its exit status."""
    before = {n: signal.signal(n, lambda number, _: send(number)) for n in FORWARDED}
    try:
        wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    ended = status()
    assert ended is not None, "the wait lasts until the end"
    return ended
