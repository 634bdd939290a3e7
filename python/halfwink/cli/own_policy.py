"""The command ``halfwink new-policy``."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from halfwink.cli.console import out
from halfwink.new_policy import facts, new_policy


def new(
    name: str,
    family: Annotated[str, Parameter(name=["-f", "--family"])] = "gating",
) -> int:
    """Write a folder that builds a policy of your own, as a WebAssembly module.

    Parameters
    ----------
    name
        Name of the policy and of the new folder: small letters, digits and hyphens.
    family
        Kind of decision: gating (when a core sleeps), scaling (how many cores of a router forward,
        and how they wait) or steering (which of two machines serves, and which sleeps).
    """
    made = new_policy(name, family)
    out.print(f"{made}/ holds the policy: change src/lib.rs. Then, in that folder:", markup=False)
    out.print()
    for line in ("make", f"halfwink compare {facts(family)['compare']}./{name}.wasm"):
        out.print(f"    {line}", markup=False)
    return 0
