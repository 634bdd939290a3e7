"""Models broken on purpose: a published number that is met all the same says nothing of them.

from halfwink.targets import mutants

found = mutants("switching")
found.killed["free-switches"]  # ids of targets that are met, but not when switches are free
found.insensitive  # those that no mutant breaks
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from halfwink.errors import HalfwinkError, RunError
from halfwink.files import write_whole
from halfwink.jobs import names
from halfwink.library import library, root
from halfwink.runs.batch import Progress
from halfwink.runs.executors import Executor, Submits
from halfwink.targets.targets import Values, compute, select

#: Verdicts on targets that are met.
MET = ("match", "holds")
#: Mutants are played over this part of the instructions that a study plays, but not over fewer.
SHARE, LEAST = 0.125, 150_000


@dataclass(frozen=True)
class Mutants:
    """Effect of breaking the models on the targets that they meet.

    Attributes:
        mutants: mutants that were tried: ``name``, ``what``, ``breaks`` (``technique`` or
            ``input``).
        asked: ids of the targets that were looked at.
        met: ids of targets that are met, whatever kills them.
        killed: ids of the targets that are not met under each mutant.
        idle: names of mutants that change the value of no target of their areas.
    """

    mutants: list[dict[str, Any]]
    asked: list[str]
    met: list[str]
    killed: dict[str, list[str]]
    idle: list[str]

    @property
    def undone(self) -> list[str]:
        """Ids of targets that are not met once a technique is undone."""
        techniques = [m["name"] for m in self.mutants if m["breaks"] == "technique"]
        killed = {id for name in techniques for id in self.killed[name]}
        return [id for id in self.met if id in killed]

    @property
    def insensitive(self) -> list[str]:
        """Ids of targets that no mutant kills."""
        killed = {id for ids in self.killed.values() for id in ids}
        return [id for id in self.met if id not in killed]

    def by_target(self) -> dict[str, list[str]]:
        """Returns the mutants that kill each target that is met."""
        found: dict[str, list[str]] = {id: [] for id in self.met}
        for mutant, ids in self.killed.items():
            for id in ids:
                found[id].append(mutant)
        return found


def mutants(
    wanted: str | Sequence[str] = (),
    *,
    only: str | Sequence[str] = (),
    quick: bool = False,
    executor: Executor | Submits | None = None,
    progress: Callable[[str, Progress], None] | None = None,
) -> Mutants:
    """Breaks the models in every way that is listed, and sees which targets are met no more.

    Chip studies are played over an eighth of their instructions here, with and without the mutant:
    it is charged with what it moves our value by, from where the whole study leaves it.

    Args:
        wanted: areas, works or beginnings of ids, as for `halfwink.reproduce`.
        only: names of mutants; all that concern these targets if none.
        quick: the quick ones alone.

    Raises:
        HalfwinkError: a name is unknown.
        RunError: a study failed under a mutant.
    """
    known, only = library().mutants(), names(only)
    unknown = [name for name in only if name not in [m["name"] for m in known]]
    if unknown:
        library().mutated(unknown[0])
    chosen = _played(select(library().targets(), names(wanted)))
    areas = {target["area"] for target in chosen}
    tried = [
        m
        for m in known
        if areas.intersection(m["areas"])
        and (not only or m["name"] in only)
        and (m["quick"] or not quick)
    ]
    if not tried:
        raise HalfwinkError("no mutant is listed for these targets; see targets/mutants")

    def values(targets: Sequence[dict[str, Any]], mutant: str | None, share: bool) -> Values:
        shortened = cut if share else None
        return compute(
            targets, mutant=mutant, instructions=shortened, executor=executor, progress=progress
        )

    whole = values(chosen, None, False)
    met = _met(whole)
    targets = [target for target in chosen if target["id"] in met]
    short = values(targets, None, True)
    every = {t["id"]: t["area"] for t in _played(library().targets())}
    killed: dict[str, list[str]] = {}
    idle: list[str] = []
    for mutant in tried:
        concerned = [t for t in targets if t["area"] in mutant["areas"]]
        broken = values(concerned, mutant["name"], True)
        if all(value == short[id] for id, value in broken.items()):
            others = [t for t in chosen if t["area"] in mutant["areas"] and t not in concerned]
            all_of = [id for id, area in every.items() if area in mutant["areas"]]
            is_all = len(others) + len(concerned) == len(all_of)
            if is_all and values(others, None, True) == values(others, mutant["name"], True):
                idle.append(mutant["name"])
        moved = {id: moved_value(whole[id], short[id], value) for id, value in broken.items()}
        still = _met(moved)
        killed[mutant["name"]] = [id for id in moved if id not in still]
    named = [{key: m[key] for key in ("name", "what", "breaks")} for m in tried]
    return Mutants(named, [target["id"] for target in chosen], list(met), killed, idle)


def _played(targets: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the targets that a study or an experiment computes."""
    return [target for target in targets if is_played(target)]


def is_played(target: dict[str, Any]) -> bool:
    """Returns whether a study or an experiment computes a target."""
    return bool(target["compute"] and target["compute"]["from"])


def cut(instructions: int) -> int:
    """Returns the instructions that are played under mutants, of those of a study."""
    return min(instructions, max(LEAST, int(instructions * SHARE)))


def _met(values: Values) -> dict[str, None]:
    """Ids of targets that these values meet, in their order."""
    verdicts = library().verdicts(list(values.items()), on_its_own=True)
    met = [id for id, verdict in zip(values, verdicts, strict=True) if verdict in MET]
    return dict.fromkeys(met)


def moved_value(whole: float | None, short: float | None, broken: float | None) -> float | None:
    """Our value under a mutant: that of the whole study, moved as the short one is."""
    if whole is None or short is None or broken is None:
        return broken if short is not None else whole
    return whole + (broken - short)


def record(found: Mutants) -> list[Path]:
    """Keeps what kills which target beside the targets, where verdicts are told from it.

    Targets that were not looked at keep what is known of them; those that are not met have no
    kills.

    Raises:
        RunError: a mutant changes nothing.
    """
    refuse_idle(found)
    written: list[Path] = []
    tried = {mutant["name"] for mutant in found.mutants}
    by_target = found.by_target()
    asked = set(found.asked)
    for file in library().names("targets", "toml"):
        ids = _ids(file)
        if ids.isdisjoint(asked):
            continue
        path = root() / "targets" / "killed" / f"{file}.toml"
        lines = [HEAD]
        for target in library().targets():
            if target["id"] not in ids:
                continue
            before = target["killed_by"]
            if target["id"] in by_target:
                before = [name for name in before if name not in tried] + by_target[target["id"]]
            elif target["id"] in asked:
                before = []
            if before:
                short = target["id"].split("/", 1)[1]
                listed = ", ".join(f'"{name}"' for name in sorted(before))
                lines.append(f'"{short}" = [{listed}]\n')
        write_whole(path, "".join(lines))
        written.append(path)
    return written


def refuse_idle(found: Mutants) -> None:
    """Refuses mutants that change no value: they would count as tried.

    Raises:
        RunError: a mutant changes nothing, by name.
    """
    if found.idle:
        raise RunError(f"mutants that change no target's value: {', '.join(found.idle)}")


def _ids(file: str) -> set[str]:
    """Ids of the targets in a file."""
    listed = tomllib.loads((root() / "targets" / f"{file}.toml").read_text())
    return {f"{listed['work']}/{target['id']}" for target in listed["target"]}


#: Begins each of these files.
HEAD = """\
# Which mutants of the models kill which targets: `halfwink reproduce AREA --mutants --record`.
schema = 1

[killed]
"""
