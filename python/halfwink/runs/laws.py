"""Laws of policies: what holds for each policy of a family, whatever its world sends it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

from halfwink import _core
from halfwink.errors import HalfwinkError
from halfwink.jobs import technique_text
from halfwink.library import library

if TYPE_CHECKING:
    from halfwink.policies.finding import Technique

#: Seeds of a check, each played twice, and seconds after which no further one begins.
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
        seeds: seeds under which it was checked; 0 if the check ended before.
        breach: first breach; None if none was found.
    """

    law: str
    seeds: int
    breach: Breach | None

    @property
    def is_kept(self) -> bool:
        """Tells whether no breach was found."""
        return self.breach is None

    @property
    def was_played(self) -> bool:
        """Tells whether the law was checked at all."""
        return self.seeds > 0 or self.breach is not None


@dataclass(frozen=True)
class Likeness:
    """A published technique, with its default parameters, and how often it decides as a policy.

    Attributes:
        technique: name of the technique.
        source: publication that it comes from; None if there is none.
        seeds: seeds under which both were compared.
        equal_seeds: seeds under which both requested the same actions at the same times.
        decisions: decisions at which at least one of both acted; 0 if neither ever did.
        equal_decisions: decisions at which both requested the same actions.
    """

    technique: str
    source: str | None
    seeds: int
    equal_seeds: int
    decisions: int
    equal_decisions: int

    @property
    def is_reproduced(self) -> bool:
        """Tells whether the policy decides as the technique under each seed."""
        return self.equal_seeds == self.seeds

    @property
    def share(self) -> float:
        """Share of the decisions that are equal, from 0 to 1."""
        return self.equal_decisions / self.decisions if self.decisions else 1.0


@dataclass(frozen=True)
class PolicyCheck(Sequence[Law]):
    """Result of a check: a sequence of the laws, and the published techniques beside the policy.

    The checked policy drives the events, and each technique is told the same ones. Compared are
    techniques of the same family that decide in the same machine, need no first run, and can be
    told all that they ask for.

    Attributes:
        family: family of the policy.
        seeds: seeds that were played, each without and with late and lost messages; fewer than
            asked for if the time did not suffice.
        laws: the laws of the family.
        published: the published techniques, the most alike first; none of them after a policy broke
            the limits of a module.
    """

    family: str
    seeds: int
    laws: tuple[Law, ...]
    published: tuple[Likeness, ...]

    @property
    def reproduced(self) -> list[Likeness]:
        """The published techniques as which the policy decides under each seed."""
        return [found for found in self.published if found.is_reproduced]

    @property
    def nearest(self) -> list[Likeness]:
        """The two most alike published techniques, or fewer, that are not reproduced."""
        others = [found for found in self.published if not found.is_reproduced]
        return [found for found in others if found.equal_decisions][:2]

    @overload
    def __getitem__(self, place: int) -> Law: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Law]: ...
    def __getitem__(self, place: int | slice) -> Law | Sequence[Law]:
        return self.laws[place]

    def __len__(self) -> int:
        return len(self.laws)


def check_policy(
    technique: Technique,
    *,
    world: str | None = None,
    seeds: int = SEEDS,
    seconds: float = SECONDS,
) -> PolicyCheck:
    """Checks the laws of a policy's family under random events that its world could send, and finds
    the published techniques that decide as it does.

    Args:
        technique: a listed technique, the file of a module or of a class, or a class itself; with
            parameters, if wanted.
        world: the world of the technique, if several have one of this name.
        seeds: number of seeds. Each is played twice: without faults, and with late and lost
            messages. The first 100 are played to published techniques, too.
        seconds: time after which no further seed begins.

    Raises:
        HalfwinkError: the technique is unknown, or its family has no laws.
    """
    if seeds < 1 or not 0 < seconds <= 86400:
        raise HalfwinkError(
            f"seeds={seeds}, seconds={seconds}: expected 1 seed or more, and up to 86400 seconds"
        )
    try:
        checked = _core.check_policy(library(), technique_text(technique), world, seeds, seconds)
    except _core.HalfwinkError as error:
        raise HalfwinkError(str(error)) from None
    laws = (
        Law(law["law"], law["seeds"], Breach(**law["breach"]) if law["breach"] else None)
        for law in checked["laws"]
    )
    for found in checked["published"]:
        if found["source"] == "-":
            found["source"] = None
    published = (Likeness(**found) for found in checked["published"])
    return PolicyCheck(checked["family"], checked["seeds"], tuple(laws), tuple(published))
