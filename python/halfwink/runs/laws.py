"""Laws of policies: what holds for each policy of a family, whatever its world sends it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from halfwink import _core
from halfwink.errors import HalfwinkError
from halfwink.jobs import technique_text
from halfwink.library import library

if TYPE_CHECKING:
    from halfwink.policies.finding import Technique

#: Seeds of a check, and seconds after which no further one begins.
SEEDS = 1000
SECONDS = 60.0


@dataclass(frozen=True)
class Breach:
    """The first event at which a law was broken.

    Attributes:
        seed: seed of the events.
        event: number of the event, from 0 (the start).
        found: time, event, what was found and what was expected.
    """

    seed: int
    event: int
    found: str


@dataclass(frozen=True)
class Law:
    """A law, and where a policy broke it first.

    Attributes:
        law: the law in words.
        seeds: seeds under which it was checked.
        breach: first breach; None if the policy keeps the law.
    """

    law: str
    seeds: int
    breach: Breach | None

    @property
    def is_kept(self) -> bool:
        """Tells whether the policy keeps the law."""
        return self.breach is None


def check_policy(
    technique: Technique,
    *,
    world: str | None = None,
    seeds: int = SEEDS,
    seconds: float = SECONDS,
) -> list[Law]:
    """Checks the laws of a policy's family under random events that its world could send.

    Args:
        technique: a listed technique, the file of a module or of a class, or a class itself; with
            parameters, if wanted.
        world: the world of the technique, if several have one of this name.
        seeds: number of event sequences. Every other one has late and lost messages.
        seconds: time after which no further sequence begins.

    Raises:
        HalfwinkError: the technique is unknown, or its family has no laws.
    """
    if seeds < 2 or not 0 < seconds <= 86400:
        raise HalfwinkError(
            f"seeds={seeds}, seconds={seconds}: expected 2 seeds or more, and up to 86400 seconds"
        )
    try:
        checked = _core.check_policy(library(), technique_text(technique), world, seeds, seconds)
    except _core.HalfwinkError as error:
        raise HalfwinkError(str(error)) from None
    return [
        Law(law["law"], law["seeds"], Breach(**law["breach"]) if law["breach"] else None)
        for law in checked["laws"]
    ]
