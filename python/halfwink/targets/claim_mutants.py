"""Finds the changes of the models under which a claim that fails is judged better.

from halfwink.targets.claim_mutants import turn

found = turn("mogul")
found["mogul/re-aim-gains"].better  # verdicts by mutants; {} if none of those tried turns it
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from halfwink.files import write_whole
from halfwink.jobs import names
from halfwink.library import library, root
from halfwink.runs.batch import Progress
from halfwink.runs.executors import Executor, Submits
from halfwink.targets import claim_verdicts, mutation
from halfwink.targets.claim_files import Claim
from halfwink.targets.claim_verdicts import FAILING, KEPT, Turned, kept_turned
from halfwink.targets.targets import Values, compute

#: Verdicts from the worst on that a change can turn.
RANKS = (*FAILING, "holds")
HEAD = """\
# Changes of the models under which claims that fail, wholly or in part, are judged better, and
# how many were tried: `halfwink reproduce --claims --mutants --record`.
schema = 1

[turned]
"""


def turn(
    wanted: str | list[str] | tuple[str, ...] = (),
    *,
    executor: Executor | Submits | None = None,
    progress: Callable[[str, Progress], None] | None = None,
) -> dict[str, Turned]:
    """Plays every mutant on the targets of claims that fail, wholly or in part.

    Chip studies are played over an eighth of their instructions, with and without the mutant, as
    for `halfwink.targets.mutants`.

    Args:
        wanted: works or beginnings of claims' ids; all if none.

    Returns:
        The mutants that turn each claim, by its id. Claims that hold whole are left out.

    Raises:
        HalfwinkError: a name is unknown.
        RunError: a study failed under a mutant.
    """
    targets = {target["id"]: target for target in library().targets()}
    chosen = claim_verdicts.select(claim_verdicts.every_claim(), names(wanted))
    read = dict.fromkeys(id for claim in chosen for id in claim.read)

    def values(ids: list[str], mutant: str | None, *, share: bool) -> Values:
        cut = mutation.cut if share else None
        listed = [targets[id] for id in ids]
        return compute(
            listed, mutant=mutant, instructions=cut, executor=executor, progress=progress
        )

    def verdicts(claims: list[Claim], known: Values) -> dict[str, str]:
        judged = claim_verdicts.judged(claims, targets, known, library().verdicts)
        return {entry["id"]: entry["verdict"] for entry in judged}

    whole = values(list(read), None, share=False)
    before = verdicts(chosen, whole)
    failing = [claim for claim in chosen if before[claim.id] in FAILING]
    played = {id for claim in failing for id in claim.read if mutation.is_played(targets[id])}
    short = values(sorted(played), None, share=True)
    found = {claim.id: Turned(0, {}) for claim in failing}
    for mutant in library().mutants():
        ids = [id for id in sorted(played) if targets[id]["area"] in mutant["areas"]]
        concerned = [claim for claim in failing if not set(claim.read).isdisjoint(ids)]
        broken = values(ids, mutant["name"], share=True)
        moved = {id: mutation.moved_value(whole[id], short[id], broken[id]) for id in ids}
        for id, verdict in verdicts(concerned, {**whole, **moved}).items():
            tried, better = found[id].tried + 1, found[id].better
            if verdict in RANKS and RANKS.index(verdict) > RANKS.index(before[id]):
                better = {**better, mutant["name"]: verdict}
            found[id] = Turned(tried, better)
    return found


def record(found: Mapping[str, Turned]) -> None:
    """Keeps what was found; of claims that were not looked at what is known stays."""
    every = [claim.id for claim in claim_verdicts.every_claim()]
    known = {**kept_turned(), **found}
    lines = [HEAD]
    for id in every:
        if id in known:
            better = ", ".join(f'"{n}" = "{known[id].better[n]}"' for n in sorted(known[id].better))
            space = f" {better} " if better else ""
            lines.append(f'"{id}" = {{ tried = {known[id].tried}, better = {{{space}}} }}\n')
    write_whole(root() / KEPT, "".join(lines))
