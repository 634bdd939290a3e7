"""Advice: the settings of a server or a fleet, also from recorded idle times."""

from __future__ import annotations

from halfwink.exports import lazily

TYPE_CHECKING = False
if TYPE_CHECKING:
    from halfwink.advice.advice import Advice
    from halfwink.advice.day_advice import DayAdvice
    from halfwink.advice.idle_gaps import IdleGaps
    from halfwink.advice.verification import Verification

__all__ = [
    "Advice",
    "DayAdvice",
    "IdleGaps",
    "Verification",
]
#: Module of each name.
_HOMES = {
    "Advice": "advice.advice",
    "DayAdvice": "advice.day_advice",
    "IdleGaps": "advice.idle_gaps",
    "Verification": "advice.verification",
}
__getattr__ = lazily(__name__, _HOMES)
