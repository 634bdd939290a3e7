"""Live programs as processes: ``halfwink-NAME`` with a description, until its report."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO

from halfwink import installed
from halfwink.checked import checked
from halfwink.errors import HalfwinkError, RunError
from halfwink.library import root

if TYPE_CHECKING:
    from halfwink.bed.places import Place, Process

#: Longest that a program may take to end, in seconds.
PATIENCE_S = 60.0
#: Signals that mean something to it, or that must not end what it serves.
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def program(name: str) -> Path:
    """Returns the path of a program.

    Raises:
        HalfwinkError: the program was not built.
    """
    found = installed.program(name)
    if found is None:
        raise HalfwinkError(installed.missing(f"the program {name}"))
    return found


#: Keys of descriptions that no option stands for.
NO_OPTIONS = ("schema", "command", "library")
#: Programs that take a description.
PROGRAMS = ("router", "steer", "block", "preheat", "delegate", "circuits")
#: Lines that answer SIGUSR1 and SIGUSR2 begin so.
ANSWERS = ("report ", "counts from zero")


@checked
def check(which: str, description: Path | str) -> str:
    """Checks a description as the program does before it serves: all of it, and what it names on
    this machine. Nothing is served.

    Args:
        which: ``router``, ``steer``, ``block``, ``preheat``, ``delegate`` or ``circuits``.
        description: path of the description (TOML).

    Returns:
        The program's line on a good description: ``FILE: well``.

    Raises:
        HalfwinkError: the description is wrong, or the program was not built; the program's line.
        RunError: the machine does not allow the check; likewise.
    """
    if which not in PROGRAMS:
        raise HalfwinkError(f"program `{which}`: expected one of {', '.join(PROGRAMS)}")
    name = f"halfwink-{which}"
    words = [str(program(name)), "--library", str(root()), "--config", str(description), "--check"]
    done = subprocess.run(
        words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False
    )
    lines = [line.removeprefix(f"{name}: ") for line in done.stderr.splitlines() if line]
    if done.returncode == 0:
        return lines[-1]
    raise failure(name, done.returncode, lines)


def failure(name: str, status: int, said: Sequence[str]) -> HalfwinkError | RunError:
    """Returns the error of a program that ended with this status, by the lines that it printed."""
    # Clap adds lines about usage, which are no news.
    lines = said or [f"{name} ended with status {status}"]
    text = (lines[0] if status == 2 else lines[-1]).removeprefix("error: ")
    return HalfwinkError(text) if status == 2 else RunError(text)


def described(settings: Mapping[str, object]) -> str:
    """Returns a description (TOML) of these settings, one key a line; what is None is left out."""
    lines = ["schema = 1"]
    for name, value in settings.items():
        if value is not None:
            # The description is written elsewhere. Strings of JSON are strings of TOML.
            plain = str(value.absolute()) if isinstance(value, Path) else value
            lines.append(f"{name} = {json.dumps(plain, ensure_ascii=False)}")
    return "\n".join(lines) + "\n"


def as_asked(text: str, path: Path, description: str) -> str:
    """A program's line on a description that was made here: it names the option, not the file.

    Args:
        text: the line.
        path: path of the description.
        description: text of the description (see :func:`described`).
    """
    found = re.match(rf"{re.escape(str(path))}:(?:(\d+):)? ?(.*)", text)
    if found is None:
        return text
    keys = [line.partition(" = ")[0] for line in description.splitlines()]
    key = keys[int(found[1]) - 1] if found[1] else found[2].partition(":")[0]
    what = found[2].removeprefix(f"{key}: ")
    return what if key in NO_OPTIONS else f"--{key.replace('_', '-')}: {what}"


class Served:
    """A program at work, from its making until :meth:`stop`.

    Args:
        name: name of the program.
        description: text of a description (see :func:`described`), or the path of one (TOML).
        log: file for the policy's events and actions.
        metrics: HOST:PORT at which to serve OpenMetrics.
        seconds: length of the run (default: until it is stopped).
        forwards: passes the signals of this process on, to end it (SIGTERM, SIGINT) or to make it
            read its description again (SIGHUP).
        place: network namespace to run in (default: that of this process).
        tell: receives each line that the program prints, once it is ready; first those before.

    Raises:
        HalfwinkError: the request is invalid.
        RunError: the machine does not allow it.
    """

    def __init__(
        self,
        name: str,
        description: str | Path,
        *,
        log: Path | None = None,
        metrics: str | None = None,
        seconds: float | None = None,
        forwards: bool = False,
        place: Place | None = None,
        tell: Callable[[str], None] = lambda _line: None,
    ) -> None:
        self.name = name
        found = program(name)
        self._folder = tempfile.TemporaryDirectory(prefix=f"{name}-")
        self._report = Path(self._folder.name) / "report.json"
        self._made: str | None = None
        if isinstance(description, Path):
            #: Path of the description.
            self.path = description
        else:
            self.path = Path(self._folder.name) / "description.toml"
            self.path.write_text(description)
            self._made = description
        report = str(self._report) if place is None else "-"
        words = [str(found), "--config", str(self.path), "--report", report]
        for option, value in (("--log", log), ("--metrics", metrics), ("--seconds", seconds)):
            words += [] if value is None else [option, str(value)]
        setpriv = shutil.which("setpriv")
        if forwards and setpriv is not None:
            # It replaces itself by the program, which then ends in good order if this process is
            # killed.
            words = [setpriv, "--pdeathsig", "TERM", *words]
        self._process: subprocess.Popen[str] | None = None
        self._inside: Process | None = None
        self._is_closed = False
        self._answers: SimpleQueue[str | None] = SimpleQueue()
        self._early: list[int] = []
        # Before there is a server: no signal may end this process and leave that one.
        self._before = {n: signal.signal(n, self._forward) for n in SIGNALS if forwards}
        self._heard, self._bell = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._bell_before = -1
        if forwards:
            self._bell_before = signal.set_wakeup_fd(self._bell, warn_on_full_buffer=False)
        pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        if place is None:
            process = subprocess.Popen(words, text=True, **pipes)
        else:
            self._inside = place.start(words, text=True, stdout=subprocess.PIPE, **pipes)
            process = self._inside.popen
        self._process = process
        for number in self._early:
            process.send_signal(number)
        #: What it has said but for its address: first, why something is not as it was asked for.
        self.said: list[str] = []
        #: Where it serves.
        self.address = ""
        stderr = process.stderr
        assert stderr is not None
        if not any(self._hear(line) for line in stderr):
            self._end(process.wait())
        if place is not None:
            # A namespace goes with this process, however that ends, and leaves no file either.
            self._folder.cleanup()
        for line in self.said:
            tell(line)
        self._reader = Thread(target=self._follow, args=(stderr, tell), daemon=True)
        self._reader.start()

    def _hear(self, line: str) -> bool:
        """Notes a line of its; whether it is ready."""
        text = line.strip().removeprefix(f"{self.name}: ")
        if text.startswith("serving at "):
            self.address = text.removeprefix("serving at ")
        elif text.startswith(ANSWERS) and not self._before:
            # A signal that was passed on is answered to its sender, on the terminal.
            self._answers.put(text)
        elif text and text != "ready" and not text.startswith("not measured: "):
            self.said.append(text if self._made is None else as_asked(text, self.path, self._made))
        return text == "ready"

    def _follow(self, stderr: TextIO, tell: Callable[[str], None]) -> None:
        for line in stderr:
            before = len(self.said)
            self._hear(line)
            for said in self.said[before:]:
                tell(said)
        # It has ended: it answers nothing more.
        self._answers.put(None)

    @property
    def _child(self) -> subprocess.Popen[str]:
        assert self._process is not None
        return self._process

    @property
    def pid(self) -> int:
        """Number of the program's process, outside of its namespace."""
        return self._child.pid if self._inside is None else self._inside.pid

    @property
    def is_running(self) -> bool:
        """Tells whether it serves."""
        return self._child.poll() is None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.is_running:
            self.stop()

    def kill(self) -> None:
        """Ends it at once, as a crash would. Nothing is reported."""
        self.send(signal.SIGKILL)
        self._child.wait()
        self._reader.join()
        self._close()

    def stop(self) -> dict[str, Any]:
        """Ends it in good order, if it has not ended; returns its report.

        Raises:
            RunError: the server failed, or does not end.
        """
        self.send(signal.SIGTERM)
        return self.wait(PATIENCE_S)

    def send(self, number: int) -> None:
        """Sends a signal to the program, if it is running."""
        if self._inside is not None:
            self._inside.signal(number)
        elif self.is_running:
            self._child.send_signal(number)

    def answer(self) -> str:
        """Waits for the answer to SIGUSR1 or SIGUSR2.

        Raises:
            RunError: the program has ended, or does not answer.
        """
        try:
            answer = self._answers.get(timeout=PATIENCE_S)
        except Empty:
            raise RunError(f"{self.name} does not answer") from None
        if answer is None:
            self.wait(PATIENCE_S)
            raise RunError(f"{self.name} has ended")
        return answer

    def report(self) -> dict[str, Any]:
        """Returns the report that the program writes at SIGUSR2, which was sent before.

        Raises:
            RunError: the program has ended, or could not write it.
        """
        answer = self.answer()
        if not answer.startswith("report written to "):
            raise RunError(answer)
        return self._read()

    def _read(self) -> dict[str, Any]:
        """Reads the report that the program has written last."""
        if self._inside is None:
            return json.loads(self._report.read_text())
        stdout, text = self._child.stdout, ""
        assert stdout is not None
        for line in stdout:
            text += line
            # All braces inside of a report are indented.
            if line == "}\n":
                break
        return json.loads(text)

    def _forward(self, number: int, _frame: FrameType | None) -> None:
        if self._process is None:
            self._early.append(number)
        elif self.is_running:
            self._process.send_signal(number)

    def wait(self, seconds: float | None = None) -> dict[str, Any]:
        """Waits until it has ended, at most this long; returns its report."""
        try:
            if self._before and self.is_running:
                self._forward_until_end(seconds)
            status = self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RunError(f"{self.name} does not end") from None
        self._reader.join()
        return self._end(status)

    def _forward_until_end(self, seconds: float | None) -> None:
        # A signal that comes just before waitpid(2) does not end that call: its handler would run
        # when the program has ended. The pipe is written to whenever it comes.
        try:
            ended = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            both = [ended, self._heard]
            while select.select(both, [], [], seconds)[0] == [self._heard]:
                os.read(self._heard, 512)
        finally:
            os.close(ended)

    def _end(self, status: int) -> dict[str, Any]:
        try:
            if status == 0:
                return self._read()
            raise failure(self.name, status, self.said)
        finally:
            self._close()

    def _close(self) -> None:
        if self._is_closed:
            # The numbers of its pipes may be those of others by now.
            return
        self._is_closed = True
        if self._before:
            signal.set_wakeup_fd(self._bell_before)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._heard)
        os.close(self._bell)
        for pipe in (self._child.stdout, self._child.stderr):
            if pipe is not None:
                pipe.close()
        self._folder.cleanup()
