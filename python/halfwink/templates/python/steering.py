"""The big machine serves what comes while the small one has enough, and sleeps otherwise. Change
it; `halfwink.policies.steering` has all events and actions."""

from __future__ import annotations

from halfwink.policies import Parameter, Steering
from halfwink.policies.steering import (
    Action,
    Arrive,
    Awake,
    Back,
    Event,
    Finish,
    Lost,
    Send,
    Sleep,
    Start,
    Wake,
)

SMALL, BIG = 0, 1


class OwnPolicy(Steering):
    """The big machine from a threshold on."""

    threshold = Parameter(
        4,
        least=0,
        most=1e6,
        title="requests of the small machine from which on the big one serves",
    )

    def on_start(self, start: Start) -> list[Action]:
        """Begins with both machines on, before all events."""
        self.requests = [0, 0]
        self.lost = [False, False]
        # The big machine is on or wakes up; it serves now.
        self.is_up = self.is_on = True
        return self.settled()

    def on_event(self, now: int, event: Event) -> list[Action]:
        """Decides on an event; times are picoseconds."""
        asked: list[Action] = []
        match event:
            case Arrive():
                is_small = self.requests[SMALL] < self.threshold and not self.lost[SMALL]
                machine = SMALL if is_small or self.lost[BIG] else BIG
                self.requests[machine] += 1
                asked.append(Send(machine))
                if machine == BIG and not self.is_up:
                    self.is_up = True
                    asked.append(Wake(BIG))
            case Finish(machine):
                self.requests[machine] = max(self.requests[machine] - 1, 0)
            case Lost(machine):
                self.lost[machine] = True
                if machine == BIG:
                    self.is_on = False
            case Awake(machine) | Back(machine):
                self.lost[machine] = False
                if machine == BIG:
                    self.is_up = self.is_on = True
            case _:
                pass
        return asked + self.settled()

    def settled(self) -> list[Action]:
        """The big machine sleeps once it has nothing to do, unless the small one is lost."""
        if not self.is_on or self.requests[BIG] or any(self.lost):
            return []
        self.is_up = self.is_on = False
        return [Sleep(BIG)]
