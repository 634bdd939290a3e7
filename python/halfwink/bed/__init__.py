"""A test bed for routers: network namespaces generator - router - sink, joined by veth pairs.

from halfwink.bed import Bed, Kind, measure

with Bed(queues=2) as bed:
    bed.forward()  # the kernel is the router
    found = bed.trial(pps=10_000, seconds=2)
    found["lost"], found["latency_us"]["p99"]

measure([Kind("kernel"), Kind("halfwink-af-packet")]).rows
"""

from __future__ import annotations

from halfwink.bed.live import Live, description, routes
from halfwink.bed.measuring import QUICK, Plan, Report, measure
from halfwink.bed.places import NEEDS, Need, Place, Process, needs
from halfwink.bed.routers import KINDS, Kind, Router, parse_kinds
from halfwink.bed.topology import Bed

__all__ = [
    "KINDS",
    "NEEDS",
    "QUICK",
    "Bed",
    "Kind",
    "Live",
    "Need",
    "Place",
    "Plan",
    "Process",
    "Report",
    "Router",
    "description",
    "measure",
    "needs",
    "parse_kinds",
    "routes",
]
