"""Techniques that are software, run for real on this machine.

from halfwink.live import delegate as live

done = live.delegate(["tar", "cf", "/tmp/a.tar", "."], policy="predicted")
done.status, done.report["residency"]
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from halfwink import installed
from halfwink.errors import HalfwinkError
from halfwink.live import native

#: Names of the policies that can decide for a running program.
POLICIES = ("never", "always", "enough-work", "predicted")
#: Signals that are passed on to the program.
FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
PREFIX = "halfwink-delegate-"


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


def cpus(os_cpu: int | None = None) -> tuple[set[int], int]:
    """CPUs for a program, and the one for its system calls (default: the last allowed one).

    Raises:
        HalfwinkError: fewer than two CPUs are allowed, or that one is not.
    """
    allowed = os.sched_getaffinity(0)
    if len(allowed) < 2:
        raise HalfwinkError(
            f"delegation needs two CPUs; this process may use {len(allowed)} (see taskset -p $$)"
        )
    chosen = max(allowed) if os_cpu is None else os_cpu
    if chosen not in allowed:
        known = ", ".join(str(cpu) for cpu in sorted(allowed))
        raise HalfwinkError(f"--os-cpu {chosen}: expected one of {known}")
    return allowed - {chosen}, chosen


def delegate(
    command: Sequence[str],
    *,
    policy: str = "predicted",
    n_ns: int | None = None,
    least_bytes: int = 4096,
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
        policy: one of ``POLICIES``.
        n_ns: fixed threshold of ``predicted`` in nanoseconds; without, the controller finds it.
        least_bytes: transfers from this size on move under ``enough-work``.
        os_cpu: the CPU of the threads that make calls.
        pin: keep the program itself off that CPU.
        spin_us: time for which such a thread spins for the next call, in microseconds.
        time_every: one of this number of calls in place is timed.
        log: file for the policies' events and actions, for :func:`halfwink.replay`; written at the
            end, since the program that they come from may be anything.
        log_records: events that it can hold.
        die_with_us: the program is killed if this process is.

    Raises:
        HalfwinkError: the machine or an argument does not allow it, or there is no such program.
    """
    library = preload_library()
    if shutil.which(command[0]) is None:
        raise HalfwinkError(f"{command[0]}: no such program")
    own, chosen = (os.sched_getaffinity(0), 0) if policy == "never" else cpus(os_cpu)
    with _counts_file() as path:
        run = native.DelegateRun(
            str(path),
            policy,
            chosen,
            n_ns=n_ns,
            least_bytes=least_bytes,
            time_every=time_every,
            worker_spin_ns=int(spin_us * 1000),
            caller_spin_ns=int(spin_us * 500),
            log_records=0 if log is None else log_records,
        )
        before = os.environ.get("LD_PRELOAD")
        preload = f"{library}:{before}" if before else str(library)
        env = os.environ | {"LD_PRELOAD": preload, native.DELEGATE_VARIABLE: str(path)}

        def prepare() -> None:
            if pin:
                os.sched_setaffinity(0, own)
            if die_with_us:
                native.die_with_parent()

        status = _run(command, env, prepare)
        if log is not None:
            run.write_log(str(log))
        return Delegated(status, run.report())


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
    status = _run(command, dict(os.environ), lambda: None)
    if timer is not None:
        timer.cancel()
        timer.join()
    return status, found[0] if found else watch.end()


@contextmanager
def _counts_file() -> Generator[Path]:
    """A name in memory for the file of a run; what killed runs have left is cleared away."""
    shm = Path("/dev/shm")
    folder = shm if os.access(shm, os.W_OK) else Path(tempfile.gettempdir())
    for old in folder.glob(f"{PREFIX}*"):
        _clear_away(old)
    path = folder / f"{PREFIX}{os.getpid()}-{os.urandom(6).hex()}"
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def _clear_away(old: Path) -> None:
    """Unlinks the file of a run that has ended: one of ours without a lock. Process numbers do not
    tell, since they are used again and differ between containers that share the folder.
    """
    try:
        handle = os.open(old, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if os.fstat(handle).st_uid == os.geteuid():
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            old.unlink(missing_ok=True)
    except OSError:
        # It is in use, or may not be unlinked: it stays.
        pass
    finally:
        os.close(handle)


def _run(command: Sequence[str], env: dict[str, str], prepare: Callable[[], None]) -> int:
    with subprocess.Popen(list(command), env=env, preexec_fn=prepare) as child:
        # Its number may be another process's as soon as it has been waited for; this is never.
        handle = os.pidfd_open(child.pid)

        def send(number: int) -> None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, number)

        def forward(number: int, _: Any) -> None:
            send(number)

        def from_terminal(number: int, _: Any) -> None:
            # A terminal tells the program itself.
            if not _in_foreground():
                send(number)

        handlers = dict.fromkeys(FORWARDED, forward)
        handlers |= {signal.SIGINT: from_terminal, signal.SIGQUIT: from_terminal}
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            status = child.wait()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(handle)
    return status if status >= 0 else 128 - status


def _in_foreground() -> bool:
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
