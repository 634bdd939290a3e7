"""System calls that took long on average move to the OS core. Change it;
`halfwink.policies.offload` has all events and actions."""

from __future__ import annotations

from halfwink.policies import Offload, Parameter
from halfwink.policies.offload import Action, Enter, Event, Exit, Here, OsCore, Start


class OwnPolicy(Offload):
    """Moves the system calls whose mean run is long."""

    threshold = Parameter(1000, least=0, most=1e9, title="instructions from which on a call moves")

    def on_start(self, start: Start) -> None:
        """Begins without a call, before all events."""
        self.entered = (0, 0)
        self.mean: dict[tuple[int, int], float] = {}

    def on_event(self, now: int, event: Event) -> Action | None:
        """Decides on an event; times are picoseconds."""
        match event:
            case Enter():
                self.entered = (event.cause, event.number)
                is_long = self.mean.get(self.entered, 0.0) > self.threshold
                # A decision in software takes cycles.
                return OsCore(16) if is_long else Here(16)
            case Exit(instructions):
                mean = self.mean.get(self.entered, float(instructions))
                self.mean[self.entered] = 0.75 * mean + 0.25 * instructions
            case _:
                pass
        return None
