"""Recordings of programs on this machine, without a guest and without root: QEMU's user mode
executes the program, and a plugin writes what its threads execute into a trace.

The kernel's own instructions are not in such a trace, only the system calls that lead to them;
`halfwink capture` boots a guest and has both.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from halfwink import _core
from halfwink.capture import build, scratch
from halfwink.capture.errors import CaptureError
from halfwink.errors import HalfwinkError, RunError
from halfwink.files import replacing
from halfwink.programs import find

QEMU = "qemu-x86_64"
#: Versions of QEMU whose plugin interface the plugin knows: from, and below.
QEMU_VERSIONS = ((6, 0), (9, 0))
#: All that the emulator has, but fast strings, which it executes a byte at a time.
_CPU = "max,-erms"
_ELF = b"\x7fELF"
_START_MARKER = b"\x0f\x1f\x80\x01HWT"
_X86_64 = 62
#: Scripts whose interpreters are scripts, at most: as Linux has it.
_NESTED = 4
#: Instructions of a sample, at least: blocks of some hundreds are recorded whole.
SMALLEST_SAMPLE = 100_000
#: Samples of a recording, at most.
MOST_SAMPLES = 10_000
#: Seconds between two looks at the program.
_POLL_S = 0.1
NOTE = (
    "User instructions of one program. The kernel's own instructions are not recorded; system"
    " calls are events. There are no physical addresses: they are the virtual ones. CPU n of the"
    " events is thread n, and the threads took turns, as on one CPU. There is no time."
)


@dataclass(frozen=True)
class Recording:
    """Result of a finished recording.

    Attributes:
        path: file of the trace.
        program: name of the program.
        instructions: recorded instructions, a repeated string instruction counted once.
        samples: number of samples of the run that the file holds; 0 if it holds all of it.
        executed: instructions that the program executed, up to the end of the recording.
        accesses: recorded memory accesses.
        threads: threads that the program started, the first included.
        system_calls: recorded system calls.
        processes: processes that the program started, and that were not recorded.
        signals: signals that were delivered to handlers of the program.
        bytes: size of the file.
        seconds: host time of the recording.
        reason: end of the recording: ``exit`` of the program, ``limit``, stop ``marker``, or
            ``exec`` of a program that cannot be recorded.
        exit_status: exit status of the program, as shells count it; None if the recording ended
            before it.
        became: programs that it became in turn, of which the last was recorded.
    """

    path: Path
    program: str
    instructions: int
    samples: int
    executed: int
    accesses: int
    threads: int
    system_calls: int
    processes: int
    signals: int
    bytes: int
    seconds: float
    reason: str
    exit_status: int | None
    became: tuple[str, ...]

    @property
    def mips(self) -> float:
        """Million executed instructions per host second."""
        return self.executed / 1e6 / max(self.seconds, 1e-9)

    @property
    def bytes_per_instruction(self) -> float:
        """Size of the file, per instruction."""
        return self.bytes / max(self.instructions, 1)


@dataclass(frozen=True)
class _Window:
    """The part of a run that is recorded."""

    skip: int
    instructions: int | None
    samples: tuple[int, int] | None
    turn: int | None

    def options(self) -> list[str]:
        """Arguments of the plugin."""
        words = [f"skip={self.skip}"]
        words += [f"limit={self.instructions}"] if self.instructions is not None else []
        if self.samples is not None:
            words += [f"samples={self.samples[0]}", f"size={self.samples[1]}"]
        words += [f"turn={self.turn}"] if self.turn is not None else []
        return words

    def check(self) -> None:
        """Raises HalfwinkError, with one line, if it cannot be."""
        if self.skip < 0:
            raise HalfwinkError(f"skip {self.skip}: expected 0 or more instructions")
        if self.instructions is not None and self.instructions < 1:
            raise HalfwinkError(f"{self.instructions} instructions: expected at least one")
        if self.turn is not None and not 1 <= self.turn < 1 << 63:
            raise HalfwinkError(f"turns of {self.turn} instructions: expected at least one")
        if self.samples is not None:
            count, size = self.samples
            if not 1 <= count <= MOST_SAMPLES or not SMALLEST_SAMPLE <= size < 1 << 62:
                raise HalfwinkError(
                    f"{count} samples of {size} instructions: expected 1 to {MOST_SAMPLES:,}, of at"
                    f" least {SMALLEST_SAMPLE:,}"
                )


@dataclass(frozen=True)
class _Program:
    """An executable, and how it is called."""

    file: Path
    words: list[str]
    marked: bool


def fix() -> str:
    """Returns the line that adds a QEMU that records programs, or that replaces one that does not:
    Debian's later ones have no plugins in user mode."""
    program = find(QEMU)
    if program.path is None:
        return program.fix
    return program.fix.replace(" -y ", " -y --allow-downgrades ") + "/bookworm"


def requirement() -> tuple[bool, str]:
    """Returns whether this machine has a QEMU that records programs, and what was found."""
    path = find(QEMU).path
    if path is None:
        return False, f"{QEMU} is missing"
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    match = re.search(r"version (\d+)\.(\d+)\S*(?: \(([^)]*)\))?", said)
    if match is None:
        return False, f"{path} says no version"
    version, (first, beyond) = (int(match[1]), int(match[2])), QEMU_VERSIONS
    name = match[3] or f"{match[1]}.{match[2]}"
    if not first <= version < beyond:
        return False, f"{path} is {name}: expected QEMU {first[0]}.{first[1]} to 8.2 with plugins"
    options = subprocess.run([path, "-h"], capture_output=True, text=True, check=False).stdout
    if "-plugin" not in options:
        return False, f"{path} ({name}) has no plugins"
    return True, f"{path}, {name}"


def record(
    command: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    out: str | os.PathLike[str] | None = None,
    skip: int = 0,
    instructions: int | None = None,
    samples: tuple[int, int] | None = None,
    turn: int | None = None,
    env: Mapping[str, str] | None = None,
    stdout: IO[Any] | int | None = None,
    progress: Callable[[str], None] | None = None,
) -> Recording:
    """Runs a program to its end, or to the end of a window, and records what it executes.

    The program's input, output and folder are those of the caller. Threads are recorded, as they
    take turns on one CPU; processes that it starts run and are not recorded. A program that becomes
    another one (``exec``) is recorded as that one, from its start.

    Args:
        command: the program and its arguments; a lone string is a program without any.
        out: the file; ``NAME.hwt`` if none, which must not be there.
        skip: instructions to leave out first, of all threads together.
        instructions: largest number of instructions to record; the program is ended behind them.
        samples: number of samples, and instructions of each, in place of everything: at least so
            many and fewer than twice as many, at one distance, however long the run is. `sample`
            plays them.
        turn: instructions after which another thread goes on, if one waits; 100,000 if none. Short
            turns let threads meet at locks as often as on several cores.
        env: environment of the program; this process's if none.
        stdout: standard output of the program, as `subprocess` takes it; this process's if none.
        progress: is called with a line for people.

    Raises:
        HalfwinkError: the request is invalid, or the machine lacks something; one line.
        RunError: the program could not be recorded.
    """
    lone = isinstance(command, (str, os.PathLike))
    words = [os.fspath(word) for word in ([command] if lone else command)]
    first = command if isinstance(command, os.PathLike) else next(iter(command), None)
    if isinstance(first, os.PathLike) and "/" not in words[0]:
        # A path names a file: of `Path("./th")` only `th` is left.
        words[0] = f"./{words[0]}"
    window = _Window(skip, instructions, samples, turn)
    window.check()
    program = locate(words, (env or os.environ).get("PATH"))
    name = Path(words[0]).name
    path = Path(out) if out is not None else Path(f"{name}.hwt")
    if out is None and path.exists():
        raise HalfwinkError(f"{path} is there: expected out=; out={str(path)!r} replaces it")
    _check_place(path)
    there, found = requirement()
    if not there:
        raise HalfwinkError(f"recording needs {QEMU} with plugins: {found}; run: {fix()}")
    say = progress or _silent
    try:
        plugin = build.recorder(say)
        with scratch.folder("record-") as work:
            return _record(program, name, path, plugin, work, window, env, stdout, say)
    except CaptureError as error:
        raise HalfwinkError(str(error)) from error


def _silent(_: str) -> None:
    pass


def _check_place(path: Path) -> None:
    """Checks that a file can be written, before the program runs."""
    folder = path.parent
    if not folder.is_dir():
        raise HalfwinkError(f"{path}: there is no folder {folder}")
    if path.exists() and not path.is_file():
        raise HalfwinkError(f"{path}: expected the name of a file, found something else there")
    if not os.access(folder, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise HalfwinkError(f"{path}: not writable")


def locate(words: Sequence[str], search: str | None = None) -> _Program:
    """The executable that a command stands for: a path, or a name to look up; of a script, its
    interpreter.

    Raises:
        HalfwinkError: the program cannot be recorded; one line.
    """
    if not words or not words[0]:
        raise HalfwinkError("no program was named: expected a program and its arguments")
    if any("\0" in word for word in words):
        raise HalfwinkError("the command has a zero byte in it")
    found = words[0] if "/" in words[0] else shutil.which(words[0], path=search)
    if found is None:
        raise HalfwinkError(f"{words[0]}: no such program on the path")
    file, line = Path(found), list(words)
    for _ in range(_NESTED + 1):
        head = _head(file)
        if head.startswith(_ELF):
            _check_executable(file, head)
            return _Program(file, line, _has_marker(file))
        if not head.startswith(b"#!"):
            raise HalfwinkError(
                f"{file}: expected an executable for x86-64, or a script that begins with #!"
            )
        first = head[2:].split(b"\n")[0].strip().split(None, 1)
        if not first:
            raise HalfwinkError(f"{file}: a script without an interpreter behind #!")
        interpreter = os.fsdecode(first[0])
        if not Path(interpreter).exists():
            raise HalfwinkError(f"{file}: its interpreter {interpreter} is missing")
        argument = [os.fsdecode(word.strip()) for word in first[1:]]
        file, line = Path(interpreter), [interpreter, *argument, str(file), *line[1:]]
    raise HalfwinkError(f"{words[0]}: more than {_NESTED} scripts are each other's interpreters")


def _head(file: Path) -> bytes:
    if not file.exists():
        raise HalfwinkError(f"{file}: no such program")
    if not file.is_file():
        raise HalfwinkError(f"{file}: expected a program, found no file")
    if not os.access(file, os.X_OK):
        raise HalfwinkError(f"{file}: not executable")
    try:
        with file.open("rb") as stream:
            return stream.read(256)
    except OSError as error:
        raise HalfwinkError(f"{file}: {error.strerror}") from error


def _check_executable(file: Path, head: bytes) -> None:
    if head[4:5] == b"\x01":
        raise HalfwinkError(f"{file}: a 32-bit program; expected one for x86-64")
    machine = int.from_bytes(head[18:20], "little")
    if machine != _X86_64 or len(head) < 64:
        raise HalfwinkError(
            f"{file}: a program for another processor (ELF machine {machine}); expected one for"
            " x86-64"
        )


def _has_marker(file: Path) -> bool:
    """Returns whether the program says itself where the recording begins."""
    return _START_MARKER in file.read_bytes()


def _record(
    program: _Program,
    name: str,
    path: Path,
    plugin: Path,
    work: Path,
    window: _Window,
    env: Mapping[str, str] | None,
    stdout: IO[Any] | int | None,
    say: Callable[[str], None],
) -> Recording:
    header, trace, report = work / "header.json", work / "trace.hwt", work / "report"
    header.write_text(json.dumps(_header(name, program.words)), encoding="utf-8")
    report.touch()
    options = [f"out={trace}", f"header={header}", f"report={report}", *window.options()]
    options += ["marked=1"] if program.marked else []
    # QEMU splits its options at commas, and takes two for one.
    plugged = ",".join(word.replace(",", ",,") for word in (str(plugin), *options))
    qemu = find(QEMU).path or QEMU
    line = [qemu, "-cpu", _CPU, "-plugin", plugged, "-0", program.words[0], str(program.file)]
    say(f"recording {name}" + (" from its start marker" if program.marked else ""))
    status = _run([*line, *program.words[1:]], report, env, stdout, say)
    told = [json.loads(text) for text in report.read_text(encoding="utf-8").splitlines()]
    return _result(name, path, trace, told, status, window, marked=program.marked)


def _header(name: str, words: Sequence[str]) -> dict[str, Any]:
    """The trace's provenance. Nothing in it depends on when or where the recording is made."""
    return {
        "workload": name,
        "description": f"the program {name}, its user instructions",
        "isa": "x86-64",
        "command": [Path(words[0]).name, *words[1:]],
        "kernel": "",
        "tools": {"qemu": requirement()[1].rpartition(", ")[2]},
        "seed": 0,
        "unit_of_work": "instruction",
        "cpus": 1,
        "ps_per_instruction": 0,
        "code": "bytes",
        "notes": [NOTE],
    }


def _run(
    line: list[str],
    report: Path,
    env: Mapping[str, str] | None,
    stdout: IO[Any] | int | None,
    say: Callable[[str], None],
) -> int:
    """Runs QEMU to its end; returns its exit status."""
    with subprocess.Popen(line, env=env, stdout=stdout) as process, _signals(process):
        try:
            last, seen = time.monotonic(), 0
            while True:
                try:
                    return process.wait(_POLL_S)
                except subprocess.TimeoutExpired:
                    pass
                if time.monotonic() - last > 1.0:
                    last = time.monotonic()
                    seen = _show(report, seen, say)
        except BaseException:
            process.kill()
            raise


def _show(report: Path, seen: int, say: Callable[[str], None]) -> int:
    """Says how far the recording is, if it got further; returns how far it is."""
    lines = report.read_text(encoding="utf-8").split("\n")[:-1]
    numbers = [n for text in lines if (n := json.loads(text).get("recorded")) is not None]
    now = int(numbers[-1]) if numbers else 0
    if now > seen:
        say(f"recorded: {now / 1e6:.0f} M instructions")
    return now


@contextmanager
def _signals(process: subprocess.Popen[Any]) -> Generator[None]:
    """Leaves Ctrl-C to the program, which the terminal tells of it too; a second one kills it. A
    request to end goes on to the program."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def interrupted(number: int, _: object) -> None:
        came.append(number)
        if len(came) > 1:
            process.kill()

    def ended(number: int, _: object) -> None:
        process.send_signal(number)

    before = signal.signal(signal.SIGINT, interrupted), signal.signal(signal.SIGTERM, ended)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before[0])
        signal.signal(signal.SIGTERM, before[1])


def _result(
    name: str,
    path: Path,
    trace: Path,
    told: list[dict[str, Any]],
    status: int,
    window: _Window,
    *,
    marked: bool,
) -> Recording:
    for message in told:
        if "error" in message:
            raise RunError(f"{name}: {message['error']}")
    done = next((message["done"] for message in told if "done" in message), None)
    how = _how(status)
    if done is None:
        raise RunError(f"{name} {how} before its recording was complete: nothing was kept")
    became = tuple(message["became"] for message in told if "became" in message)
    if done["instructions"] == 0:
        if done["executed"] == 0 and marked:
            raise HalfwinkError(f"{name} {how} before its start marker: nothing was recorded")
        raise HalfwinkError(
            f"{name} {how} after {done['executed']:,} instructions: nothing is left behind the"
            f" first {window.skip:,}"
        )
    samples = 0
    if window.samples is not None:
        trace, samples = _keep(trace, done, window.samples[1])
    try:
        with replacing(path) as partial:
            shutil.move(trace, partial)
    except OSError as error:
        raise RunError(f"{path}: {error.strerror or error}") from error
    ended = done["reason"] in ("exit", "exec")
    fields = ("instructions", "executed", "accesses", "threads", "system_calls", "processes")
    return Recording(
        path=path,
        program=name,
        samples=samples,
        **{field: done[field] for field in (*fields, "signals", "bytes", "seconds", "reason")},
        exit_status=(status if status >= 0 else 128 - status) if ended else None,
        became=became,
    )


def _keep(trace: Path, done: dict[str, Any], size: int) -> tuple[Path, int]:
    """Writes the samples at the last distance to a file beside, as long as those that were given up
    are in this one; returns it, and their number."""
    kept = trace.with_name("samples.hwt")
    text, count = _core.trace_keep_samples(
        str(trace), str(kept), size, size * done["every"], done["executed"]
    )
    totals = json.loads(text)
    events = totals["events"]
    done |= {
        "instructions": totals["instructions"],
        "accesses": totals["accesses"],
        "system_calls": events.get("syscall", 0),
        "bytes": kept.stat().st_size,
    }
    return kept, count


def _how(status: int) -> str:
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"
