"""An I/O is completed where it was issued if the CPU that hears of it has many more. Change it;
`halfwink.policies.completion` has all events and actions."""

from __future__ import annotations

from halfwink.policies import Completion, Parameter
from halfwink.policies.completion import Action, Done, Event, Give, Here, Kind, Poll, Rest, Used


class OwnPolicy(Completion):
    """Back to the issuer, if many I/Os wait."""

    #: It is told of these alone, and of empty polls, which are questions.
    events = (Done,)
    waiting = Parameter(
        4, least=0, most=1e6, title="waiting I/Os from which on the issuer completes"
    )

    def on_event(self, now: int, event: Event) -> Action | None:
        """Decides on an event; times are picoseconds."""
        match event:
            case Done():
                if event.waiting < self.waiting or event.issuer == event.heard:
                    return Here(event.io)
                return Give(event.io, event.issuer)
            case Poll() | Used():
                return None
            case _:
                return Rest(event.cpu, Kind.HALT_C1)
