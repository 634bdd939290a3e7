"""A shell on the serial line of a guest, which runs lines one at a time."""

from __future__ import annotations

import os
import select
import subprocess
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

#: Longest that a line takes, on a slow machine with busy neighbours.
COMMAND_S = 120.0
#: Words for the guest's kernel. It checks no timer: on a busy host the emulated one is late.
BOOT = "console=ttyS0 quiet panic=-1 random.trust_cpu=on net.ifnames=0 no_timer_check"


class GuestError(AssertionError):
    """The guest did not do what it was told."""


class Console(ABC):
    """A guest whose first process is the shell of `xfrm_guest.INIT`."""

    def __init__(self, process: subprocess.Popen[Any]) -> None:
        """Takes the serial line, which is QEMU's standard input and output."""
        assert process.stdin is not None
        assert process.stdout is not None
        self._in, self._out = process.stdin, process.stdout
        self._rest = b""

    def until(self, mark: str, seconds: float) -> tuple[list[str], str]:
        """Lines until one begins with a mark; and that one."""
        lines: list[str] = []
        end = time.monotonic() + seconds
        while True:
            while b"\n" in self._rest:
                line, self._rest = self._rest.split(b"\n", 1)
                text = line.decode(errors="replace").strip("\r")
                if text.startswith(mark):
                    return lines, text
                lines.append(text)
            ready = select.select([self._out], [], [], max(end - time.monotonic(), 0))[0]
            data = os.read(self._out.fileno(), 1 << 16) if ready else b""
            if not data:
                why = "ended" if ready else f"was silent for {seconds:.0f} s"
                raise GuestError(f"the guest {why}; it said last: {' | '.join(lines[-5:])}")
            self._rest += data

    def run(self, command: str, seconds: float = COMMAND_S) -> str:
        """Runs lines of a shell in it, to their end; what they printed.

        Raises:
            GuestError: the last of them failed.
        """
        line = "; ".join(part.strip() for part in command.strip().splitlines())
        try:
            self._in.write(line.encode() + b"\n")
            self._in.flush()
        except BrokenPipeError:
            # What it said last tells why.
            self.until("@nothing", seconds)
        lines, status = self.until("@done ", seconds)
        text = "\n".join(lines)
        if status != "@done 0":
            raise GuestError(f"in the guest: {line[:200]}: {text[-300:]}")
        return text

    def close_pipes(self) -> None:
        """Its end."""
        for pipe in (self._in, self._out):
            # What it has not read is lost with it.
            with suppress(BrokenPipeError):
                pipe.close()

    @abstractmethod
    def close(self) -> None:
        """Ends it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, why: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()
