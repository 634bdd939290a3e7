"""The kernel has ways of a cache by its share of the reads. Change it;
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
    """Gives the kernel ways by its share of the reads."""

    least = Parameter(1, least=1, most=31, title="ways that the kernel has at least")
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
        kernel = self.ways // 2
        if isinstance(event, Sample):
            reads = max(event.user_accesses + event.kernel_accesses, 1)
            kernel = (2 * self.ways * event.kernel_accesses + reads) // (2 * reads)
        kernel = min(max(kernel, int(self.least)), self.ways - 1)
        return Set(kernel), SampleAfter(int(self.after), Unit.CYCLES)
