"""Each host sends to every other one in turn, for a day at a time. Change it;
`halfwink.policies.circuits` has all events and actions."""

from __future__ import annotations

from halfwink.policies import US, Circuits, Parameter
from halfwink.policies.circuits import Action, Back, Day, Event, Join, Lost, Next, Start


class OwnPolicy(Circuits):
    """Turns of one length."""

    #: It is told of these alone.
    events = (Next, Lost, Back)
    day_us = Parameter(300, least=1e-3, most=1e9, unit="us", title="length of a day")

    def on_start(self, start: Start) -> None:
        """Takes note of the fabric."""
        self.hosts = start.hosts
        self.day = max(int(self.day_us * US), start.shortest)
        self.lost: set[int] = set()

    def on_event(self, now: int, event: Event) -> list[Action]:
        """Decides on an event; times are picoseconds."""
        match event:
            case Next(plane, slot):
                shift = 1 + slot % (self.hosts - 1)
                pairs = [(host, (host + shift) % self.hosts) for host in range(self.hosts)]
                joined = [Join(plane, *pair) for pair in pairs if self.lost.isdisjoint(pair)]
                return [*joined, Day(plane, self.day)]
            case Lost(host):
                self.lost.add(host)
            case Back(host):
                self.lost.discard(host)
            case _:
                pass
        return []
