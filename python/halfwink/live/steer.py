"""The live steering proxy: requests go to a small and a big machine, or to those of a set, which
sleep when they can.

from halfwink.live.steer import LiveSteer

with LiveSteer("steer.toml") as steer:
    steer.report()["machines"]["big"]["residency"]
"""

from __future__ import annotations

from pathlib import Path

from halfwink.library import root
from halfwink.live import native
from halfwink.live.program import LiveProgram

__all__ = ["LiveSteer"]


class LiveSteer(LiveProgram):
    """A proxy at work. :meth:`reload` takes limits, machines, certificate and policy; another
    policy goes on in the same log, under its own header. :meth:`stop` answers the requests under
    way and wakes who sleeps.

    Reports hold machines by their names, ``small`` and ``big`` for a pair, each with its ``place``
    in the order of activation. Times in states (``machines.*.residency``) are in seconds, ``on_s``
    by the number of requests in service; latencies in microseconds.

    Args:
        path: path of its description (TOML).
        log: file for its policy's events and actions, written as they come, for
            :func:`halfwink.replay`.

    Raises:
        HalfwinkError: the description is wrong.
        RunError: the machine does not allow it.
    """

    def __init__(self, path: str | Path, *, log: str | Path | None = None) -> None:
        to = None if log is None else str(log)
        self._steer = native.LiveSteer(str(root()), str(path), log=to)
        super().__init__(self._steer, path)

    def reopen(self) -> str | None:
        """Opens the access log by its name again: see :meth:`LiveProgram.reopen`."""
        return self._steer.reopen()

    @property
    def address(self) -> str:
        """Address that it listens on: ``HOST:PORT``."""
        return self._steer.address()
