"""The commands ``halfwink new-policy`` and ``halfwink check-policy``."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from halfwink.cli.console import out
from halfwink.new_policy import facts, new_policy, new_python_policy
from halfwink.runs.laws import SECONDS, SEEDS, check_policy

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
) -> int:
    """Check that a policy keeps the laws of its family, whatever its world sends it.

    Exit status 1 if it breaks one.

    Parameters
    ----------
    technique
        A file with a policy (.wasm or .py), or a listed technique of gating, scaling,
        steering, offload, completion, preheat, circuits or segregation.
    world
        The world of the technique, if several have one of this name: chip, router, server,
        storage, preheat, fabric, racks.
    seeds
        Number of random event sequences. Every other one has late and lost messages.
    seconds
        Time after which no further sequence begins.
    """
    laws = check_policy(technique, world=world, seeds=seeds, seconds=seconds)
    width = max(len(law.law) for law in laws)
    for law in laws:
        if law.breach is None:
            said = f"pass  {law.law:{width}}  {law.seeds} seeds"
        else:
            where = f"seed {law.breach.seed}, event {law.breach.event}"
            said = f"FAIL  {law.law:{width}}  {where}: {law.breach.found}"
        out.print(said, markup=False, soft_wrap=True)
    return 0 if all(law.is_kept for law in laws) else EXIT_BROKEN
