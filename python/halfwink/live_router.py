"""The live router: packets of this machine, forwarded by as few cores as carry them.

from halfwink.live_router import LiveRouter

with LiveRouter("router.toml") as router:
    router.report()["workers"][0]["residency"]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import polars as pl

from halfwink import _core
from halfwink.library import library

#: States of a worker, in the order in which the meter takes them.
STATES = ("busy_s", "spin_s", "c1_s", "c3_s", "c6_s")
#: Bytes of a frame that the virtual power meter assumes for activity of memory and ports.
MEAN_BYTES = 400.0


class LiveRouter:
    """A router at work, from its making until :meth:`stop`.

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
        self._router = _core.LiveRouter(library(), str(path), log=to)
        self.path = Path(path)

    def __enter__(self) -> LiveRouter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def report(self) -> dict[str, Any]:
        """Counts and measured times since the start; ``modelled``: joules and watts of a model;
        ``ledger``: the same by component, state, mode and cause, and why it does not balance, if
        it does not; ``tables``: ``run`` and ``ledger`` as results of simulated runs have them."""
        return self._router.report()

    def ledger(self) -> pl.DataFrame:
        """Times, measured, and joules, modelled: see :func:`ledger_frame`."""
        return ledger_frame(self.report())

    def modelled(
        self,
        times: Sequence[Sequence[float]],
        duration_s: float,
        packets: int,
        mean_bytes: float = MEAN_BYTES,
    ) -> dict[str, float]:
        """What the described machine would have drawn; nothing here reads a meter.

        Args:
            times: for each core, seconds in each of :data:`STATES`.
            duration_s: how long it was.
            packets: packets received then.
            mean_bytes: their mean length.
        """
        rows = [list(core) for core in times]
        return self._router.modelled(rows, duration_s, packets, mean_bytes)

    def reload(self, path: str | Path | None = None) -> list[str]:
        """Takes routes, addresses, neighbours and application anew; no packet is lost.

        Returns:
            Paths of what has changed in the description.

        Raises:
            HalfwinkError: what is wrong; then nothing changes.
        """
        return self._router.reload(str(path or self.path))

    def stop(self) -> None:
        """Forwards what has arrived, takes nothing more, and ends.

        Raises:
            RunError: the log is not complete; the router has ended all the same.
        """
        self._router.stop()

    @property
    def is_running(self) -> bool:
        """Whether all its threads are at work."""
        return self._router.is_running()

    def metrics(self) -> str:
        """What it counts, as OpenMetrics text."""
        return self._router.metrics()

    def serve_metrics(self, address: str) -> _core.Metrics:
        """Serves that at ``http://HOST:PORT/metrics`` until it is closed.

        Raises:
            HalfwinkError: the address is none, or is taken.
        """
        return self._router.serve_metrics(address)


def ledger_frame(report: Mapping[str, Any]) -> pl.DataFrame:
    """The ledger of a live program's report.

    Returns:
        Columns ``component``, ``state``, ``mode``, ``cause``, ``time_s`` (measured), ``energy_j``
        (modelled).
    """
    kinds = {"text": pl.String, "integer": pl.Int64, "real": pl.Float64}
    columns = report["tables"]["ledger"]
    return pl.DataFrame([pl.Series(name, values, kinds[kind]) for name, kind, values in columns])


def costs(repeats: int = 101) -> pl.DataFrame:
    """What each element of the data plane costs on this machine.

    Args:
        repeats: batches of 1,024 packets, of which each figure is the median.

    Returns:
        Columns ``element``, ``frame_bytes``, ``ns_per_packet``, ``times_a_copy`` (of the frame).
    """
    rows = _core.dataplane_costs(repeats)
    names = ["element", "frame_bytes", "ns_per_packet", "times_a_copy"]
    return pl.DataFrame(rows, schema=names, orient="row")
