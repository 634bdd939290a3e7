"""The kernel has more ways of a cache while it misses more than the user. Change it;
`halfwink.policies.segregation` has all events and actions."""

from __future__ import annotations

from halfwink.policies import Parameter, Segregation
from halfwink.policies.segregation import (
    Action,
    Begin,
    Event,
    Sample,
    SampleAfter,
    Set,
    Start,
    Unit,
)


class OwnPolicy(Segregation):
    """Gives more ways to the side that misses more."""

    most = Parameter(4, least=1, most=31, title="ways of a kernel that misses more")
    after = Parameter(
        100_000, least=1, most=1e12, unit="cycles", title="cycles between two samples"
    )
    events = (Begin, Sample)

    def on_start(self, start: Start) -> None:
        """Takes note of the cache, before all events."""
        self.ways = start.ways

    def on_event(self, now: int, event: Event) -> tuple[Action, ...]:
        """Decides on an event."""
        # A single way cannot be split.
        if self.ways < 2:
            return ()
        is_kernel_worse = isinstance(event, Sample) and event.kernel_misses > event.user_misses
        kernel = min(int(self.most), self.ways - 1) if is_kernel_worse else 1
        return Set(kernel), SampleAfter(int(self.after), Unit.CYCLES)
