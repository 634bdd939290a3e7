"""Event logs: what policies were told and asked for, replayed and laid side by side."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from halfwink import _core
from halfwink.errors import HalfwinkError
from halfwink.jobs import Job, technique_text
from halfwink.library import library

if TYPE_CHECKING:
    from halfwink.policies.finding import Technique

#: Longest name of a log in a folder, without its ending.
LONGEST_NAME = 160


@dataclass(frozen=True)
class Replay:
    """A log, told to fresh policies up to the first decision that differs.

    Attributes:
        log: the file.
        header: world, technique, machine, workload, set and build of who wrote it.
        policies: number of policies that got lines.
        lines: told, ``events`` and ``timers`` among them.
        actions: number of actions that were the same.
        unheard: lines after a gap, which could not be told.
        last_ps: time of the last line, in picoseconds.
        ended: ``{"whole": footer}``, or ``{"cut": {"torn": ...}}`` for a program that was killed or
            still writes.
        first_difference: line, place, time, event, expected and found actions; None if there is
            none.
    """

    log: str
    header: dict[str, Any]
    policies: int
    lines: int
    events: int
    timers: int
    actions: int
    unheard: int
    last_ps: int
    ended: dict[str, Any]
    first_difference: dict[str, Any] | None

    @property
    def is_equal(self) -> bool:
        """Tells whether the policies decided as the log says, as far as it could be replayed."""
        return self.first_difference is None


@dataclass(frozen=True)
class Beside:
    """Two logs side by side.

    Attributes:
        logs: header, lines, decisions (lines with actions), last_ps and ended of each.
        headers_differ: keys of the headers whose values differ.
        alone: policies that only one has: index of the log, place.
        alike: decisions that are alike before the first that differs.
        first: place, why (``action``, ``time``, ``event``, ``end``), the decisions, and the lines
            that explain them; None if there is none.
    """

    logs: list[dict[str, Any]]
    headers_differ: list[str]
    alone: list[tuple[int, dict[str, Any]]]
    alike: int
    first: dict[str, Any] | None

    @property
    def is_equal(self) -> bool:
        """Tells whether both decide alike, policy by policy."""
        return self.first is None and not self.alone


def replay(log: Path | str, *, technique: Technique | None = None) -> Replay:
    """Tells fresh policies what a log says, of a simulated run or of a live program.

    They are made from the log's header alone. A log of a program that was killed is told up to
    where it ends.

    Args:
        log: written with ``--log``.
        technique: another than the log's, or a policy of your own (`halfwink.policies`): where
            would that have decided otherwise? A log of a class of your own needs that class here.

    Raises:
        HalfwinkError: the file is not such a log, or names something unknown; file, line, one line.
    """
    name = None if technique is None else technique_text(technique)
    return Replay(str(log), **library().replay(str(log), name))


def beside(a: Path | str, b: Path | str) -> Beside:
    """Lays two logs side by side, a live one and a simulated one, say: where they first decide
    differently, and why.

    Raises:
        HalfwinkError: one of them is no log; file, line, one line.
    """
    return Beside(**_core.beside(str(a), str(b)))


def paths(log: Path | str, jobs: Sequence[Job]) -> list[Path]:
    """Returns the path of each job's log.

    The only job's is ``log``. Several have each their own beside it, named after what tells them
    apart: ``run.log`` becomes ``run-tap.log``. In a folder (one that exists, or a name that ends in
    ``/``) each has the name of its workload, machine and technique.

    Raises:
        HalfwinkError: the folder cannot be made.
    """
    at = Path(log)
    is_folder = at.is_dir() or str(log).endswith("/")
    try:
        (at if is_folder else at.parent).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HalfwinkError(f"{log}: {error.strerror}; expected a file or a folder") from error
    if not is_folder and len(jobs) <= 1:
        return [at] * len(jobs)
    parts = [_parts(job) for job in jobs]
    differs = [len({part[n] for part in parts}) > 1 for n in range(4)]
    # In a folder nothing else says what a log is of.
    shown = [(is_folder and n < 3) or differs[n] for n in range(4)]
    slugs = [_slug(part for part, show in zip(own, shown, strict=True) if show) for own in parts]
    found: list[Path] = []
    for number, slug in enumerate(slugs, start=1):
        name = slug if slugs.count(slug) == 1 and slug else f"{slug}-{number}".strip("-")
        suffix = ".log" if is_folder else at.suffix
        found.append(
            at / f"{name}{suffix}" if is_folder else at.with_name(f"{at.stem}-{name}{suffix}")
        )
    return found


def _parts(job: Job) -> tuple[str, str, str, str]:
    values = ",".join(f"{path}={value}" for path, value in job.set)
    return (job.workload, job.machine, job.technique, values)


def _slug(parts: Any) -> str:
    text = "-".join(Path(part).stem if "/" in part else part for part in parts)
    return re.sub(r"[^A-Za-z0-9.+=,@-]+", "-", text)[:LONGEST_NAME].strip("-")
