"""Power-delivery networks: how fast cores may wake without starving their neighbours.

from halfwink.models import pdn

network = pdn.network("ev6-4x4")
network.fit()  # Eq 2.1 of Strong 2013, with errors
network.case("aw../..../..../....")  # shortest safe wake-up (ns), droop (shares of the supply)
"""

from __future__ import annotations

import subprocess

from halfwink import _core
from halfwink.errors import HalfwinkError, RunError
from halfwink.jobs import Settings, pairs
from halfwink.library import library
from halfwink.programs import find


def network(name: str = "ev6", *, set: Settings | None = None) -> _core.Network:
    """A delivery network: ``ev6``, ``ev6-2x4`` (rows x columns), or a TOML file.

    Args:
        name: which.
        set: elements to change, as ``{"mesh.bump.l_ph": 80}``.

    Raises:
        HalfwinkError: there is none of that name, or an element is impossible.
    """
    return library().network(name, pairs(set))


def ngspice(deck: str) -> list[float]:
    """Largest droop of each core, in volts, as ngspice computes it from a deck of ours.

    Raises:
        HalfwinkError: ngspice is missing.
        RunError: ngspice did not understand the deck.
    """
    program = find("ngspice").path
    if program is None:
        raise HalfwinkError(find("ngspice").missing)
    done = subprocess.run(
        [program, "-b", "/dev/stdin"], input=deck, capture_output=True, text=True, check=False
    )
    droop = [
        float(line.split("=")[1]) for line in done.stdout.splitlines() if line.startswith("droop")
    ]
    if not droop:
        words = " ".join(done.stderr.split())[:200]
        raise RunError(f"ngspice printed no droop: {words}")
    return droop
