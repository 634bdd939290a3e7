"""A test bed for routers: network namespaces generator - router - sink, joined by veth pairs.

from halfwink.bed import Bed

with Bed(queues=2) as bed:
    bed.forward()  # the kernel is the router
    found = bed.trial(pps=10_000, seconds=2)
    found["lost"], found["latency_us"]["p99"]
"""

from __future__ import annotations

from halfwink.bed.live import Live, description, routes
from halfwink.bed.places import NEEDS, Need, Place, Process, needs
from halfwink.bed.topology import Bed

__all__ = ["NEEDS", "Bed", "Live", "Need", "Place", "Process", "description", "needs", "routes"]
