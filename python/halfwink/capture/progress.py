"""Progress messages of a capture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Stage = Literal["set-up", "build", "boot", "warm-up", "record", "done"]


@dataclass(frozen=True)
class Progress:
    """A step of the work."""

    stage: Stage
    message: str
    instructions: int = 0
    """Recorded so far."""
    limit: int | None = None
    """To be recorded; None if the program's own end decides."""


Report = Callable[[Progress], None]
