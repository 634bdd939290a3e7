"""The live steering proxy: requests go to a small machine and a big one, which sleep when they can.

from halfwink.live_steer import LiveSteer

with LiveSteer("steer.toml") as steer:
    steer.report()["machines"]["big"]["residency"]
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

import polars as pl

from halfwink import _core
from halfwink.library import library
from halfwink.live_router import ledger_frame

__all__ = ["MACHINES", "LiveSteer"]

#: The two machines, as reports name them.
MACHINES = ("small", "big")


class LiveSteer:
    """A proxy at work, from its making until :meth:`stop`.

    Args:
        path: its description (TOML).
        log: file for its policy's events and actions, written as they come, for
            :func:`halfwink.replay`.

    Raises:
        HalfwinkError: the description is wrong.
        RunError: the machine does not allow it.
    """

    def __init__(self, path: str | Path, *, log: str | Path | None = None) -> None:
        to = None if log is None else str(log)
        self._steer = _core.LiveSteer(library(), str(path), log=to)
        self.path = Path(path)

    def __enter__(self) -> LiveSteer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def address(self) -> str:
        """Where it listens: ``HOST:PORT``."""
        return self._steer.address()

    def report(self) -> dict[str, Any]:
        """Counts and measured times since the start.

        Times in states (``machines.*.residency``) are in seconds, ``on_s`` by the number of
        requests in service; latencies in microseconds. ``modelled``: joules and watts of the
        described machines, which nothing measures. ``ledger``: the same by component, state, mode
        and cause, and why it does not balance, if it does not. ``tables``: ``run`` and ``ledger``
        as results of simulated runs have them.
        """
        return self._steer.report()

    def ledger(self) -> pl.DataFrame:
        """Times, measured, and joules, modelled: see :func:`halfwink.live_router.ledger_frame`."""
        return ledger_frame(self.report())

    def reload(self, path: str | Path | None = None) -> list[str]:
        """Takes limits, machines, certificate and policy anew; no request is lost. Another policy
        goes on in the same log, under its own header.

        Returns:
            Paths of what has changed in the description.

        Raises:
            HalfwinkError: what is wrong; then nothing changes.
        """
        return self._steer.reload(str(path or self.path))

    def metrics(self) -> str:
        """What it counts, as OpenMetrics text."""
        return self._steer.metrics()

    def serve_metrics(self, address: str) -> _core.Metrics:
        """Serves that at ``http://HOST:PORT/metrics`` until it is closed.

        Raises:
            HalfwinkError: the address is none, or is taken.
        """
        return self._steer.serve_metrics(address)

    def stop(self) -> None:
        """Answers the requests under way, takes no more, wakes who sleeps, and ends.

        Raises:
            RunError: the log is not complete; the proxy has ended all the same.
        """
        self._steer.stop()

    @property
    def is_running(self) -> bool:
        """Whether all its threads are at work."""
        return self._steer.is_running()
