"""A core that finds nothing asks its queue some times more, then halts. Change it;
`halfwink.policies.scaling` has all events and actions."""

from __future__ import annotations

from halfwink.policies import Parameter, Scaling
from halfwink.policies.scaling import Action, Event, Kind, Poll, Rest, Start


class OwnPolicy(Scaling):
    """Some empty polls, then a halt in C1."""

    polls = Parameter(100, least=1, most=1e6, title="empty polls after which a core halts")

    def on_start(self, start: Start) -> None:
        """Remembers the router, before all events."""
        # Cores that have asked their queue again since they had packets.
        self.waited = [False] * start.cores

    def on_event(self, now: int, event: Event) -> Action | None:
        """Decides on an event; times are picoseconds."""
        if isinstance(event, Poll):
            if event.taken > 0:
                self.waited[event.core] = False
            return None
        if self.waited[event.core]:
            return Rest(event.core, Kind.HALT_C1)
        self.waited[event.core] = True
        return Rest(event.core, Kind.AGAIN, int(self.polls))
