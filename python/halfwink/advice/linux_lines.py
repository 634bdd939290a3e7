"""Lines that set a composition on Linux, from the idle states of the machine at hand."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from math import floor

from halfwink.jobs import Job
from halfwink.results.judgement import how, needs
from halfwink.runs.comparison import NODE

#: The exit latency of a state on sale that Linux is told, in microseconds, by the state's name.
Exits = dict[str, float]
#: Techniques that allow C1 and the state of their name.
BESIDE_C1 = ("c1", "c1e", "c6")


def linux_lines(composition: str, job: Job) -> tuple[str, ...]:
    """Returns lines that set on Linux what of a composition can be had today, on a job's machine.

    Raises:
        HalfwinkError: the job cannot be prepared.
    """
    states = tomllib.loads(job.prepare().machine_text()).get("idle_states", [])
    exits = {state["name"]: float(state["exit_us"]) for state in states if not _is_proposed(state)}
    return tuple(
        f"{part}: {line}"
        for part in composition.split("+")
        if needs(part, NODE) == "today" and (line := _line(part, exits))
    )


def _is_proposed(state: dict[str, object]) -> bool:
    return bool(state.get("proposed", False))


def _line(part: str, exits: Exits) -> str:
    """Returns the line that sets a technique, with its parameters and the machine's states."""
    name, _, parameters = part.partition(":")
    if name in BESIDE_C1 and {"c1", name} <= exits.keys():
        return allow_only(("c1", name), exits)
    line = how(part, NODE)
    for key, value in re.findall(r"(\w+)=([^,]+)", parameters):
        line = line.replace(key.upper(), value)
    return line


def allow_only(allowed: Sequence[str], exits: Exits) -> str:
    """Returns the line that allows these states of a machine, and no other.

    States are in the order of the machine's file, from the shallowest; state 0 of Linux polls. A
    limit of the exit latency also enables the states below it, whatever was set before.
    """
    others = [name for name in exits if name not in allowed]
    if not others:
        return "cpupower idle-set -E"
    limit = floor(max(exits[name] for name in allowed)) + 1
    if all(floor(exits[name]) >= limit for name in others):
        return f"cpupower idle-set -D {limit}"
    numbers = (list(exits).index(name) + 1 for name in others)
    return " && ".join(
        ["cpupower idle-set -E", *(f"cpupower idle-set -d {number}" for number in numbers)]
    )
