"""The commands ``halfwink new-policy`` and ``halfwink check-policy``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Literal

from cyclopts import Parameter

from halfwink.cli.console import out, print_sentences, print_tables
from halfwink.new_policy import facts, new_policy, new_python_policy
from halfwink.runs.laws import SECONDS, SEEDS, Law, Likeness, PolicyCheck, check_policy

EXIT_BROKEN = 1


def new(
    name: str,
    family: Annotated[str, Parameter(name=["-f", "--family"])] = "gating",
    *,
    language: Annotated[Literal["rust", "python"], Parameter(name=["-l", "--language"])] = "rust",
) -> int:
    """Write what a policy of your own begins with.

    Parameters
    ----------
    name
        Name of the policy: small letters, digits and hyphens.
    family
        Kind of decision: gating (when a core sleeps), scaling (how many cores of a router forward,
        and how they wait), steering (which of two machines serves, and which sleeps), offload
        (which kernel entries move to another core), completion (which CPU completes an I/O),
        preheat (what is loaded into cold caches before a request comes), circuits (which circuits
        a switch sets up next) or segregation (whose lines a second-level cache keeps where).
    language
        rust: a folder that builds a WebAssembly module, which plays faster (the same in C beside
        it). python: a file with a class, which needs no build.
    """
    if language == "python":
        file = new_python_policy(name, family)
        out.print(f"{file} holds the policy. Change it; then:\n", markup=False)
        out.print(f"    halfwink compare {facts(family)['compare']}./{file}", markup=False)
        return 0
    made = new_policy(name, family)
    out.print(f"{made}/ holds the policy: change src/lib.rs. Then, in that folder:", markup=False)
    out.print()
    for line in ("make", f"halfwink compare {facts(family)['compare']}./{name}.wasm"):
        out.print(f"    {line}", markup=False)
    return 0


def check(
    technique: str,
    *,
    world: Annotated[str | None, Parameter(name=["-w", "--world"])] = None,
    seeds: int = SEEDS,
    seconds: float = SECONDS,
    json: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> int:
    """Check that a policy keeps the laws of its family, whatever its world sends it.

    Then name the published techniques that decide as it does. Exit status 1 if it breaks a law.

    Parameters
    ----------
    technique
        A file with a policy (.wasm or .py), or a listed technique of gating, scaling,
        steering, offload, completion, preheat, circuits or segregation.
    world
        The world of the technique, if several have one of this name: chip, router, server,
        storage, preheat, fabric, racks.
    seeds
        Number of seeds of random events. Each is played without faults, then with late and lost
        messages.
    seconds
        Time after which no further seed begins.
    json
        Print one JSON document.
    """
    found = check_policy(technique, world=world, seeds=seeds, seconds=seconds)
    if json:
        tables = {"laws": [*map(asdict, found)], "published": [*map(asdict, found.published)]}
        facts = {"family": found.family, "seeds": found.seeds}
        print_tables("check-policy", tables, facts, _likeness(found))
    else:
        width = max(len(law.law) for law in found)
        for law in found:
            out.print(_line(law, width), markup=False, soft_wrap=True)
        print_sentences(_likeness(found))
    return 0 if all(law.is_kept for law in found) else EXIT_BROKEN


def _line(law: Law, width: int) -> str:
    """A law and what became of it."""
    if law.breach is not None:
        where = f"seed {law.breach.seed}, event {law.breach.event}"
        return f"FAIL  {law.law:{width}}  {where}: {law.breach.found}"
    if not law.was_played:
        return f"-     {law.law:{width}}  not played"
    return f"pass  {law.law:{width}}  {_counted(law.seeds, 'seed')}"


def _likeness(found: PolicyCheck) -> list[str]:
    """Sentences that say which published techniques a policy decides as."""
    if not found.published:
        return []
    lines = [_as_published(likeness) for likeness in found.reproduced]
    if lines:
        return lines
    count = _counted(len(found.published), "published technique")
    line = f"decides as none of {count} of its family in all seeds"
    nearest = [f"`{near.technique}` in {_percent(near)}" for near in found.nearest]
    if nearest:
        line += f"; nearest: {', '.join(nearest)} of decisions"
    return [line]


def _as_published(found: Likeness) -> str:
    source = f" ({found.source})" if found.source else ""
    seeds = _counted(found.seeds, "seed")
    seeds = f"all {seeds}" if found.seeds > 1 else seeds
    never = "" if found.decisions else ": neither ever acts"
    return f"decides as `{found.technique}`{source} in {seeds}{never}"


def _percent(found: Likeness) -> str:
    # Rounded down: only a technique that decides the same throughout has 100 %.
    percent = int(100 * found.share)
    return f"{percent} %" if percent else "under 1 %"


def _counted(number: int, name: str) -> str:
    return f"{number:,} {name}" + ("" if number == 1 else "s")
