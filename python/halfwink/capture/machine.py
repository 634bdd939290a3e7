"""The recorded machine: QEMU's command line, and the dialogue with it while it runs."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from .errors import FailedError, GuestError, TimeLimitError
from .host import QEMU
from .progress import Progress, Report

RAM_MIB = 1536
"""Below 3 GiB, so that physical addresses are one range."""

# la57: five-level paging, which few machines have. erms, fsrm: with them the kernel copies bytewise
# by `rep movsb`, of which TCG runs one byte at a time.
CPU = "max,la57=off,erms=off,fsrm=off"
KERNEL_ARGUMENTS = (
    "console=ttyS0 quiet nokaslr tsc=reliable idle=halt ipv6.disable=1 random.trust_cpu=on panic=-1"
)
CLOCK = "base=2026-01-01T00:00:00,clock=vm"
_PLUGIN_PREFIX = "@halfwink "
_GUEST_PREFIX = "@guest "
_KEPT_LINES = 30
# Of a line that was not understood, in characters.
_SHOWN = 100


@dataclass(frozen=True)
class Boot:
    """Settings of a boot and of its recording."""

    kernel: Path
    initrd: Path
    plugin: Path
    header: Path
    out: Path
    cpus: int
    recorded: int
    seed: int
    instructions: int | None


def command_line(boot: Boot) -> list[str]:
    """Returns the command line of QEMU."""
    plugin = [
        str(boot.plugin),
        f"out={boot.out}",
        f"header={boot.header}",
        f"cpu={boot.recorded}",
        f"cpus={boot.cpus}",
    ]
    if boot.instructions is not None:
        plugin.append(f"limit={boot.instructions}")
    arguments = KERNEL_ARGUMENTS
    cpus: list[str] = []
    if boot.cpus > 1:
        # The guest sets EFER.SVME on the recorded CPU alone: see `split_cpus` in its init script.
        cpus = ["-smp", str(boot.cpus)]
        arguments += " irqaffinity=0"
    return [
        QEMU,
        *("-machine", "pc", "-cpu", CPU, "-m", str(RAM_MIB), *cpus),
        *("-nographic", "-nodefaults", "-no-user-config", "-no-reboot"),
        *("-serial", "stdio", "-monitor", "none"),
        *("-kernel", str(boot.kernel), "-initrd", str(boot.initrd), "-append", arguments),
        *("-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off"),
        *("-rtc", CLOCK, "-seed", str(boot.seed), "-plugin", ",".join(plugin)),
    ]


def last_words(said: Sequence[str]) -> str:
    """The end of a complaint: what a guest's console showed last, if anything."""
    return f"; it said last: {said[-1]}" if said else ""


class Dialogue:
    """Understands what the guest and the plugin say."""

    def __init__(self, report: Report, limit: int | None) -> None:
        self._report = report
        self._limit = limit
        self.done: dict[str, Any] | None = None
        self.error: str | None = None
        self.guest_error: str | None = None
        self.said: list[str] = []

    def console(self, line: str) -> None:
        """A line of the guest's serial console."""
        line = line.strip()
        if not line:
            return
        # Before the first line stands what the firmware did to the screen.
        _, prefix, text = line.partition(_GUEST_PREFIX)
        if prefix:
            if text == "booted":
                self.said = []
            if text.startswith("error: "):
                self.guest_error = text.removeprefix("error: ") + last_words(self.said)
            stage = "warm-up" if text.startswith("warming up") else "boot"
            self._report(Progress(stage, text, limit=self._limit))
        else:
            self.said = [*self.said[-_KEPT_LINES:], line]

    def plugin(self, line: str) -> None:
        """A line of QEMU's standard error."""
        if not line.startswith(_PLUGIN_PREFIX):
            if line.strip():
                self.said = [*self.said[-_KEPT_LINES:], line.strip()]
            return
        try:
            self._heard(json.loads(line.removeprefix(_PLUGIN_PREFIX)))
        except (ValueError, TypeError, RecursionError, OverflowError):
            self.error = f"the recorder said what is no message: {line.strip()[:_SHOWN]!r}"

    def _heard(self, message: Any) -> None:
        """A message of the plugin's; ValueError or TypeError if it is none."""
        if not isinstance(message, dict):
            raise TypeError
        if "started" in message:
            self._report(Progress("record", "recording", 0, self._limit))
        elif "recorded" in message:
            count = int(message["recorded"])
            self._report(Progress("record", "recording", count, self._limit))
        elif "error" in message:
            self.error = str(message["error"])
        elif "done" in message:
            self.done = dict(message["done"])

    def outcome(self, status: int) -> dict[str, Any]:
        """The plugin's report, or why there is none."""
        if self.error is not None:
            raise FailedError(self.error)
        if self.guest_error is not None:
            raise GuestError(f"in the guest: {self.guest_error}")
        if self.done is None:
            raise GuestError(
                f"the guest ended before anything was recorded (status {status})"
                f"{last_words(self.said)}"
            )
        return self.done | {"said": tuple(self.said)}


class _Lines:
    """Splits what comes through a pipe into lines."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self.pipe = pipe
        self._rest = b""

    def read(self) -> list[str] | None:
        """The lines that are complete now; None at the end."""
        data = os.read(self.pipe.fileno(), 1 << 16)
        if not data:
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [line.decode(errors="replace") for line in lines]


def run(boot: Boot, report: Report, time_limit_s: float) -> dict[str, Any]:
    """Runs the machine to the end of the recording; returns the plugin's report.

    Whatever happens, QEMU has ended when this returns.
    """
    dialogue = Dialogue(report, boot.instructions)
    deadline = time.monotonic() + time_limit_s
    report(Progress("boot", "starting", limit=boot.instructions))
    process = subprocess.Popen(
        command_line(boot),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Ctrl-C goes to us alone; we stop QEMU.
        start_new_session=True,
    )
    try:
        _converse(process, dialogue, deadline, time_limit_s)
        status = process.wait()
    finally:
        _stop(process)
    return dialogue.outcome(status)


def _converse(
    process: subprocess.Popen[bytes], dialogue: Dialogue, deadline: float, time_limit_s: float
) -> None:
    if process.stdout is None or process.stderr is None:
        raise FailedError("QEMU has no output")
    with selectors.DefaultSelector() as selector:
        for pipe, listen in (
            (process.stdout, dialogue.console),
            (process.stderr, dialogue.plugin),
        ):
            selector.register(pipe, selectors.EVENT_READ, (_Lines(pipe), listen))
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeLimitError(
                    f"not finished after {time_limit_s:.0f} s: record fewer instructions, or allow"
                    " more time"
                )
            for key, _ in selector.select(min(left, 1.0)):
                source, listen = key.data
                lines = source.read()
                if lines is None:
                    selector.unregister(key.fileobj)
                for line in lines or ():
                    listen(line)


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
        process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
