"""Shared parts of live programs: each works from its creation until it is stopped."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import polars as pl

from halfwink.live import native


class Native(Protocol):
    """A program of the native module."""

    def report(self) -> dict[str, Any]: ...
    def reload(self, path: str) -> list[str]: ...
    def stop(self) -> None: ...
    def is_running(self) -> bool: ...
    def metrics(self) -> str: ...
    def serve_metrics(self, address: str) -> native.Metrics: ...


class LiveProgram:
    """A program at work, from its making until :meth:`stop`.

    Args:
        program: native object of the program.
        path: path of its description (TOML).
    """

    def __init__(self, program: Native, path: str | Path) -> None:
        self._program = program
        self.path = Path(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def report(self) -> dict[str, Any]:
        """Counts and measured times since the start.

        ``modelled``: joules and watts of the described machines, which nothing measures; None if
        the description names no machine;
        ``measured``: joules and watts of this machine by each of its ``meters`` (RAPL; packages
        hold their parts, so they are not to be added up), and what is ``missing``;
        ``ledger``: the same by component, state, mode and cause, and why it does not balance, if
        it does not; ``tables``: ``run`` and ``ledger`` as results of simulated runs have them.
        """
        return self._program.report()

    def ledger(self) -> pl.DataFrame:
        """Times, measured, and joules, modelled: see :func:`ledger_frame`."""
        return ledger_frame(self.report())

    def reload(self, path: str | Path | None = None) -> list[str]:
        """Takes the description anew; nothing under way is lost.

        Returns:
            Paths of what has changed in the description.

        Raises:
            HalfwinkError: the description is invalid; then nothing changes.
        """
        return self._program.reload(str(path or self.path))

    def reopen(self) -> str | None:
        """Opens logs that logrotate renames by their names again.

        Returns:
            A line to say; None if the program writes no such log.

        Raises:
            RunError: a file cannot be opened; lines go to the old one.
        """
        return None

    def stop(self) -> None:
        """Does what has arrived, takes nothing more, and ends.

        Raises:
            RunError: the log is not complete; the program has ended all the same.
        """
        self._program.stop()

    @property
    def is_running(self) -> bool:
        """Tells whether all its threads are running."""
        return self._program.is_running()

    def metrics(self) -> str:
        """Returns its counters as OpenMetrics text."""
        return self._program.metrics()

    def serve_metrics(self, address: str) -> native.Metrics:
        """Serves that at ``http://HOST:PORT/metrics`` until it is closed.

        Raises:
            HalfwinkError: the address is none, or is taken.
        """
        return self._program.serve_metrics(address)


def ledger_frame(report: Mapping[str, Any]) -> pl.DataFrame:
    """The ledger of a live program's report.

    Returns:
        Columns ``component``, ``state``, ``mode``, ``cause``, ``time_s`` (measured), ``energy_j``
        (modelled; missing if the description names no machine).
    """
    kinds = {"text": pl.String, "integer": pl.Int64, "real": pl.Float64}
    columns = report["tables"]["ledger"]
    return pl.DataFrame([pl.Series(name, values, kinds[kind]) for name, kind, values in columns])
