"""The command ``halfwink record``."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from halfwink.capture.recorder import Recording
from halfwink.capture.recorder import record as record_program
from halfwink.cli.console import claimed, err, err_table, print_table, print_tables, say
from halfwink.errors import HalfwinkError

Json = Annotated[bool, Parameter(name="--json", negative="")]
Quiet = Annotated[bool, Parameter(name=["-q", "--quiet"], negative="")]
Out = Annotated[Path | None, Parameter(name=["-o", "--out"])]
#: The exit status of a command whose work failed.
EXIT_FAILED = 1
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}


def record(
    *,
    command: Annotated[tuple[str, ...], Parameter(parse=False)] = (),
    out: Out = None,
    skip: str = "0",
    instructions: Annotated[str | None, Parameter(name="--for")] = None,
    samples: str | None = None,
    turn: str | None = None,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Record what a program executes on this machine: in seconds, without a guest, without root.

    The program comes last: `halfwink record -- ./program --its-option`. Its input and output are
    its own; the table goes to standard error. Threads are recorded as they take turns on one CPU.
    Processes that it starts are not recorded, nor is the kernel: system calls are events. A program
    that ends badly is recorded too: exit status 1.

    Parameters
    ----------
    out
        File to write (default: NAME.hwt).
    skip
        Instructions to leave out first, as 50M.
    instructions
        Instructions to record, as 20M; the program is ended behind them.
    samples
        Samples in place of everything, as 20x1M: at least 20 of a million instructions, at one
        distance, however long it runs. `halfwink sample` plays them.
    turn
        Instructions after which another thread goes on, if one waits, as 1k (default: 100k).
    json
        Print one JSON document; the program's output goes to standard error.
    quiet
        No progress, no messages, no table.
    """
    if not command:
        raise HalfwinkError("no program: expected `--` and a command: halfwink record -- ./program")
    name = Path(command[0]).name
    with claimed(out, Path(f"{name}.hwt"), quiet=quiet) as path:
        done = record_program(
            command,
            out=path,
            skip=count("--skip", skip),
            instructions=None if instructions is None else count("--for", instructions),
            samples=None if samples is None else number_and_size(samples),
            turn=None if turn is None else count("--turn", turn),
            stdout=sys.stderr if json else None,
            progress=lambda line: _show(line, quiet=quiet),
        )
    for line in _warnings(done):
        say(f"warning: {line}", quiet=quiet)
    if json:
        print_tables("record", {}, _facts(done))
    elif not quiet:
        print_table([("recorded", "left"), (name, "left")], _rows(done), to=err_table)
    return EXIT_FAILED if done.exit_status else 0


def count(option: str, text: str) -> int:
    """A number of instructions: digits, and a unit if any.

    Raises:
        HalfwinkError: the text is no such number.
    """
    found = re.fullmatch(r"([0-9][0-9_]*)(\.[0-9]+)?([kMG]?)", text)
    number = float(found[1] + (found[2] or "")) * _UNITS[found[3]] if found else -1.0
    if found is None or number != int(number) or number >= 1 << 63:
        raise HalfwinkError(f"{option} {text}: expected a number of instructions, as 200k or 50M")
    return int(found[1]) * _UNITS[found[3]] if found[2] is None else int(number)


def number_and_size(text: str) -> tuple[int, int]:
    """Number of samples, and instructions of each, of a text as ``20x1M``.

    Raises:
        HalfwinkError: the text is no such pair.
    """
    found = re.fullmatch(r"\s*([0-9]{1,9})\s*[xX\N{MULTIPLICATION SIGN}]\s*(\S+)\s*", text)
    if found is None:
        raise HalfwinkError(f"--samples {text}: expected their number and size, as 20x1M")
    return int(found[1]), count("--samples", found[2])


def _show(line: str, *, quiet: bool) -> None:
    # Lines that follow each other would fill a file, and one that is overwritten would cover what
    # the program writes to the same terminal.
    if err.is_terminal or not line.startswith("recorded"):
        say(line, quiet=quiet)


def _warnings(done: Recording) -> list[str]:
    lines: list[str] = []
    if done.became:
        lines.append(f"{done.program} became {done.became[-1]}, which is what was recorded")
    if done.reason == "exec":
        lines.append(f"{done.program} then asked for a program that cannot be recorded")
    if done.processes:
        many = "a process" if done.processes == 1 else f"{done.processes} processes"
        lines.append(f"{done.program} started {many}; only its own instructions were recorded")
    if done.exit_status:
        lines.append(f"{done.program} ended with status {done.exit_status}; the recording is kept")
    return lines


def _rows(done: Recording) -> list[list[str]]:
    ended = {
        "exit": f"exit status {done.exit_status}",
        "exec": f"at a program that cannot be recorded; exit status {done.exit_status}",
        "limit": "at the end of the window; the program was ended",
        "marker": "at its stop marker; the program was ended",
    }
    return [
        ["file", str(done.path)],
        ["instructions", f"{done.instructions:,} of {done.executed:,} executed, all user"],
        *([["samples", f"{done.samples:,}, for `halfwink sample`"]] if done.samples else []),
        ["kernel", f"not recorded: {done.system_calls:,} system calls are events"],
        ["threads", f"{done.threads:,}, one at a time as on one CPU"],
        ["size", f"{done.bytes:,} bytes, {done.bytes_per_instruction:.3f} per instruction"],
        ["speed", f"{done.mips:.1f} M instructions/s, {done.seconds:.1f} s"],
        ["end", ended[done.reason]],
    ]


def _facts(done: Recording) -> dict[str, object]:
    return {
        "path": str(done.path),
        "program": done.program,
        "became": list(done.became),
        "instructions": done.instructions,
        "kernel_instructions": 0,
        "samples": done.samples,
        "executed": done.executed,
        "accesses": done.accesses,
        "threads": done.threads,
        "system_calls": done.system_calls,
        "processes": done.processes,
        "signals": done.signals,
        "bytes": done.bytes,
        "seconds": done.seconds,
        "reason": done.reason,
        "exit_status": done.exit_status,
    }
