"""The first request of a service is recorded, and its lines are loaded when the next one is
announced. Change it; `halfwink.policies.preheat` has all events and actions."""

from __future__ import annotations

from halfwink.policies import Parameter, Preheat
from halfwink.policies.preheat import (
    Action,
    Announced,
    Arrived,
    Build,
    Built,
    Closed,
    Event,
    Forget,
    Hold,
    Idle,
    Load,
    Loaded,
    Order,
    Record,
    Recorded,
    Start,
    Wake,
)


class OwnPolicy(Preheat):
    """Loads what the first request missed."""

    #: It is told of these alone.
    events = (Announced, Arrived, Idle, Built, Loaded, Closed)
    cores = Parameter(2, least=1, most=64, title="cores that load")

    def on_start(self, start: Start) -> None:
        """Takes note that no service is known yet."""
        #: What becomes of the set of each service.
        self.sets: dict[int, str] = {}

    def on_event(self, now: int, event: Event) -> list[Action]:
        """Decides on an event; times are picoseconds."""
        match event:
            case Announced(service):
                if self.sets.get(service) != "ready":
                    return [Wake()]
                self.sets[service] = "loading"
                return [Wake(), Load(service, cores=int(self.cores), order=Order.FIRST_USE)]
            case Arrived(port):
                if port not in self.sets:
                    self.sets[port] = "recorded"
                    return [Record(port, Recorded.MISSES)]
                return [Hold(port)] if self.sets[port] == "loading" else []
            case Idle():
                recorded = [port for port, state in self.sets.items() if state == "recorded"]
                self.sets |= dict.fromkeys(recorded, "built")
                return [Build(port) for port in recorded]
            case Built(service, lines):
                self.sets[service] = "ready"
                if lines == 0:
                    del self.sets[service]
            case Loaded(service) if self.sets.get(service) == "loading":
                self.sets[service] = "ready"
            case Closed(port):
                self.sets.pop(port, None)
                return [Forget(port)]
            case _:
                pass
        return []
