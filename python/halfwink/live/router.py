"""The live router: packets of this machine, forwarded by as few cores as carry them.

from halfwink.live.router import LiveRouter

with LiveRouter("router.toml") as router:
    router.report()["workers"][0]["residency"]
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from halfwink.library import root
from halfwink.live import native
from halfwink.live.program import LiveProgram

#: States of a worker, in the order in which the meter takes them.
STATES = ("busy_s", "spin_s", "c1_s", "c3_s", "c6_s")
#: Bytes of a frame that the virtual power meter assumes for activity of memory and ports.
MEAN_BYTES = 400.0


class LiveRouter(LiveProgram):
    """A router at work. :meth:`reload` takes routes, addresses, neighbours and application;
    :meth:`stop` forwards what has arrived.

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
        self._router = native.LiveRouter(str(root()), str(path), log=to)
        super().__init__(self._router, path)

    def modelled(
        self,
        times: Sequence[Sequence[float]],
        duration_s: float,
        packets: int,
        mean_bytes: float = MEAN_BYTES,
    ) -> dict[str, float]:
        """Returns the modelled energy of the described machine; nothing here reads a meter.

        Args:
            times: seconds in each of :data:`STATES`, for each core.
            duration_s: length of the time.
            packets: packets received then.
            mean_bytes: mean length of these packets.
        """
        rows = [list(core) for core in times]
        return self._router.modelled(rows, duration_s, packets, mean_bytes)


def costs(repeats: int = 101) -> pl.DataFrame:
    """Measures the cost of each element of the data plane on this machine.

    Args:
        repeats: batches of 1,024 packets, of which each figure is the median.

    Returns:
        Columns ``element``, ``frame_bytes``, ``ns_per_packet``, ``times_a_copy`` (of the frame).
    """
    rows = native.dataplane_costs(repeats)
    names = ["element", "frame_bytes", "ns_per_packet", "times_a_copy"]
    return pl.DataFrame(rows, schema=names, orient="row")
