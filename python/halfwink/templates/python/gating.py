"""Gates a halted core once it has been idle for a while. Change it; `halfwink.policies.gating` has
all events and actions."""

from __future__ import annotations

from halfwink.policies import US, Gating, Parameter
from halfwink.policies.gating import Action, Event, Gate, IdleBegin, IdleEnd, Wake


class OwnPolicy(Gating):
    """Gates a halted core after a fixed time."""

    #: It is told of these alone, which is faster.
    events = (IdleBegin, IdleEnd)
    after_us = Parameter(
        5, least=0, most=1e6, unit="us", title="idle time after which the core is gated"
    )
    gated = False

    def on_event(self, now: int, event: Event) -> Action | None:
        """Decides on an event; times are picoseconds."""
        if isinstance(event, IdleBegin):
            self.timer = now + int(self.after_us * US)
            return None
        self.timer = None
        if self.gated:
            self.gated = False
            return Wake()
        return None

    def on_timer(self, now: int) -> Action:
        """Decides when the timer rings."""
        self.gated = True
        return Gate()
