"""World of a command, whose names of machines, techniques and workloads it takes."""

from __future__ import annotations

from collections.abc import Sequence

#: Worlds whose names a command takes, where it has no option for that; else the chip's.
WORLD = {
    "advise": "node",
    "circuits": "racks",
    "circuits model": "fabric",
    "circuits simulate": "fabric",
    "hybrid": "server",
    "hybrid-year": "server",
    "live block": "storage",
    "live circuits": "fabric",
    "live day": "router",
    "live load": "server",
    "live predict": "server",
    "live steer-day": "server",
    "preheat breakdown": "preheat",
    "preheat deadline": "preheat",
    "preheat prototype": "preheat",
    "router": "router",
    "storage": "storage",
    "switching": "switching",
}


def world_of(words: Sequence[str]) -> str | None:
    """The world of a command line that begins with these words; none if it may have any."""
    return WORLD.get(" ".join(words[:2])) or WORLD.get(" ".join(words[:1]))
