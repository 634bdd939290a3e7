"""Plays the commands of a page in a shell, and compares what they print with what the page says.

A block of `console` holds commands (`$ command`, further lines after a backslash) and their output,
as a terminal of 80 columns shows it. In the output `...` stands for any text, and on a line of its
own for any number of lines. A block with a title (```` ```toml title="steer.toml" ````) is a file.
Other blocks are not played.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FENCE = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COLUMNS = 80
#: What the shell prints after a command: its status, between two of these.
MARK = "\x1e"
LOOP = f"""
while IFS= read -r -d '' command <&3; do
  eval "$command"
  printf '{MARK}%s{MARK}' $?
done
"""


@dataclass(frozen=True)
class Block:
    """A block of a page.

    Attributes:
        language: the word behind its fence.
        title: name of the file that it is; empty if it is none.
        text: what it holds.
        line: its first line on the page.
    """

    language: str
    title: str
    text: str
    line: int

    def commands(self) -> list[tuple[str, list[str], int]]:
        """Returns the commands of a dialogue, each with its output and its line."""
        found: list[tuple[str, list[str], int]] = []
        more = False
        for number, line in enumerate(self.text.splitlines(), self.line + 1):
            if more:
                words, output, at = found[-1]
                found[-1] = (f"{words}\n{line}", output, at)
            elif line.startswith("$ "):
                found.append((line[2:], [], number))
            else:
                assert found, f"line {number}: output before the first command"
                found[-1][1].append(line)
                continue
            more = line.endswith("\\")
        return found


def blocks(text: str) -> list[Block]:
    """Returns the blocks of a page, in order."""
    return [
        Block(m[1], m[2] or "", m[3], text.count("\n", 0, m.start()) + 1)
        for m in FENCE.finditer(text)
    ]


def matches(expected: list[str], printed: list[str]) -> bool:
    """Returns whether lines are what a page says, `...` being any text."""
    pattern = ""
    for line in expected:
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
        else:
            parts = (re.escape(part) for part in line.rstrip().split("..."))
            pattern += ".*?".join(parts) + r"\n"
    text = "".join(f"{line.rstrip()}\n" for line in printed)
    return re.fullmatch(pattern, text) is not None


class Shell:
    """A shell in a folder, on a terminal that shows no colours."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self.screen, terminal = pty.openpty()
        attributes = termios.tcgetattr(terminal)
        attributes[1] &= ~termios.OPOST
        termios.tcsetattr(terminal, termios.TCSANOW, attributes)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
        read, self.orders = os.pipe()
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        inherited = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            ["bash", "--noprofile", "--norc", "-c", f"exec 3<&{read}\n{LOOP}"],
            cwd=folder,
            env=inherited | {"PATH": path, "TERM": "dumb"} | env,
            stdin=subprocess.DEVNULL,
            stdout=terminal,
            stderr=terminal,
            pass_fds=[read],
            start_new_session=True,
        )
        os.close(read)
        os.close(terminal)

    def __enter__(self) -> Shell:
        return self

    def __exit__(self, *_: Any) -> None:
        """Ends all that the page has started."""
        os.close(self.orders)
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self.screen)

    def run(self, command: str, seconds: float = 600) -> tuple[list[str], int]:
        """Returns the lines that a command prints, and its status."""
        os.write(self.orders, command.encode() + b"\0")
        shown = ""
        until = time.monotonic() + seconds
        end = re.compile(f"{MARK}(\\d+){MARK}$")
        while (found := end.search(shown)) is None:
            ready, _, _ = select.select([self.screen], [], [], max(0.0, until - time.monotonic()))
            assert ready, f"`{command}` took more than {seconds} s: {shown}"
            shown += os.read(self.screen, 65536).decode(errors="replace")
        text = shown[: found.start()].replace("\r\n", "\n")
        # Where a line of progress was on a terminal that shows none.
        return text.lstrip("\n").splitlines(), int(found[1])


def play(page: Path, folder: Path, env: dict[str, str]) -> int:
    """Plays a page in an empty folder; returns the number of its commands.

    Raises:
        AssertionError: a command fails, or prints something else.
    """
    count = 0
    with Shell(folder, env) as shell:
        for block in blocks(page.read_text()):
            if block.title:
                (folder / block.title).write_text(block.text)
            if block.language != "console":
                continue
            for command, expected, line in block.commands():
                printed, status = shell.run(command)
                count += 1
                said = "\n".join(printed)
                where = f"{page.name}:{line}: {shlex.quote(command)}"
                assert status == 0, f"{where} ended with status {status}:\n{said}"
                if not matches(expected, printed):
                    wanted = "\n".join(expected)
                    raise AssertionError(f"{where} printed\n{said}\n-- instead of\n{wanted}")
    return count
