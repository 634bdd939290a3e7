"""``halfwink live resctrl``: ways of the cache for the kernel, on Linux' cache allocation."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any

from cyclopts import App, Parameter

from halfwink import _core
from halfwink.cli.console import json_text, parted, print_json, print_table, print_tables, say
from halfwink.cli.console import out as stdout
from halfwink.errors import HalfwinkError
from halfwink.files import write_whole
from halfwink.library import library

app = App(name="resctrl", help="Divide the cache between kernel and user.", help_on_error=False)

#: Where Linux mounts it.
ROOT = Path("/sys/fs/resctrl")

Json = Annotated[bool, Parameter(name="--json", negative="")]
Quiet = Annotated[bool, Parameter(name=["-q", "--quiet"], negative="")]
Pairs = Annotated[tuple[str, ...], Parameter(negative="")]


def _pairs(option: str, given: tuple[str, ...], value: str) -> dict[str, str]:
    """NAME=VALUE, each name once."""
    found: dict[str, str] = {}
    for pair in given:
        name, equals, rest = pair.partition("=")
        if not (name and equals and rest) or name in found:
            raise HalfwinkError(f"{option} {pair}: expected NAME={value}, each name once")
        found[name] = rest
    return found


def _number(option: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) >= 1 << 32:
        raise HalfwinkError(f"{option} {text}: expected a whole number below {1 << 32}")
    return int(text)


@app.command
def plan(
    workload: str,
    *,
    root: Path = ROOT,
    cache: str | None = None,
    size: str | None = None,
    kernel_ways: Annotated[str | None, Parameter(name="--kernel-ways")] = None,
    route: str | None = None,
    kernel_by: Annotated[str | None, Parameter(name="--kernel-by")] = None,
    classes: Annotated[tuple[str, ...], Parameter(name="--class", negative="")] = (),
    tasks: Pairs = (),
    cpus: Pairs = (),
    out: Annotated[Path | None, Parameter(name=["-o", "--out"])] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Plan which ways are the kernel's, which are services', which are left to the rest.

    Parameters
    ----------
    workload
        Workload that the plan is for.
    root
        The tree (default: where Linux mounts it).
    cache
        l2 or l3 (default: the first that can be divided).
    size
        Size of that cache (2MB): the ways are then found from the recording.
    kernel_ways
        Ways for the kernel, in place of those that the recording recommends.
    route
        Accesses to separate: both, data or instructions.
    kernel_by
        mode (the part's class for kernel work) or threads (kernel threads alone).
    classes
        NAME=WAYS: a service with ways of its own; may be repeated.
    tasks
        NAME=PID,PID: tasks of such a service.
    cpus
        NAME=LIST: CPUs of such a service.
    out
        File for the plan.
    json
        Print the plan.
    quiet
        No messages.
    """
    library().workload(workload)
    ways = _pairs("--class", classes, "WAYS")
    of_tasks, of_cpus = _pairs("--tasks", tasks, "PID,PID"), _pairs("--cpus", cpus, "LIST")
    for option, given in (("--tasks", of_tasks), ("--cpus", of_cpus)):
        for name in given.keys() - ways.keys():
            raise HalfwinkError(f"{option} {name}={given[name]}: expected --class {name}=WAYS too")
    services = [
        (
            name,
            _number(f"--class {name}", count),
            of_cpus.get(name, ""),
            [_number("--tasks", task) for task in of_tasks.get(name, "").split(",") if task],
        )
        for name, count in ways.items()
    ]
    advice = None
    if size is not None:
        if kernel_ways is not None:
            raise HalfwinkError("--size finds the ways that --kernel-ways gives: expected one")
        advice = jsonlib.dumps(_advice(workload, root, cache, size, route))
    made = _core.resctrl_plan(
        str(root),
        workload,
        cache=cache,
        kernel_ways=None if kernel_ways is None else _number("--kernel-ways", kernel_ways),
        route=route,
        kernel_by=kernel_by,
        services=services,
        advice=advice,
    )
    if out is not None:
        try:
            write_whole(out, json_text("resctrl.plan", made))
        except OSError as error:
            raise HalfwinkError(f"{out}: {error.strerror}") from None
    if json:
        print_json("resctrl.plan", made)
        return 0
    if made["advice"] is not None:
        print_text(made["advice"]["why"])
    if made["classes"]:
        _show_plan(made)
    for note in made["notes"]:
        say(f"note: {note}", quiet=quiet)
    return 0


def _advice(
    workload: str, root: Path, cache: str | None, size: str, route: str | None
) -> dict[str, Any]:
    """Returns the recording's advice for this tree's cache."""
    from halfwink.models.split_advice import document, split_advice

    name, ways, apart = _core.resctrl_cache(str(root), cache=cache)
    routes = [route] if route else ["both", "data", "instructions"] if apart else ["both"]
    return document(split_advice(workload, size=size, ways=ways, cache=name, routes=routes))


def print_text(text: str) -> None:
    """A sentence, wrapped as terminals are."""
    for line in wrap(text, 78):
        stdout.print(line, markup=False)


def _show_plan(made: dict[str, Any]) -> None:
    rows: list[list[str]] = []
    for one in made["classes"]:
        for line in one["schemata"]:
            name, _, masks = line.partition(":")
            shown = _by_mask(dict(part.split("=") for part in masks.split(";")))
            for mask, ids in shown.items():
                label = one["name"] or "(default)"
                rows.append([label, one["role"], name, _clip(ids, 20), mask, str(one["ways"])])
    heads = ["group", "role", "cache", "ids", "mask"]
    print_table([*((head, "left") for head in heads), ("ways", "right")], rows)


@app.command
def apply(
    plan: Path,
    *,
    root: Path = ROOT,
    journal: Path | None = None,
    proc: Path = Path("/proc"),
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Bring a plan into the tree; all that takes it back is on the disk first.

    Parameters
    ----------
    plan
        The plan, a file.
    root
        The tree (default: where Linux mounts it).
    journal
        Journal that `restore` reads (default: /run/halfwink/resctrl.json, or beside a folder).
    proc
        Folder in which kernel threads are found.
    json
        Print what was done.
    quiet
        No messages.
    """
    place = None if journal is None else str(journal)
    done = _core.resctrl_apply(str(root), str(plan), journal=place, proc=str(proc))
    if json:
        print_tables("live resctrl apply", {}, done)
        return 0
    if done["left"]:
        say("the plan is to leave the cache as it is: nothing written", quiet=quiet)
        return 0
    missed = f", {done['not_moved']:,} had ended" if done["not_moved"] else ""
    what = "rehearsed: no kernel is behind this folder" if done["rehearsal"] else "applied"
    say(f"{what}; {done['tasks']:,} tasks moved{missed}", quiet=quiet)
    say(f"groups {', '.join(done['groups'])}; journal {done['journal']}", quiet=quiet)
    return 0


@app.command
def restore(
    *,
    root: Path = ROOT,
    journal: Path | None = None,
    force: Annotated[bool, Parameter(negative="")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Revert an applied plan.

    Parameters
    ----------
    root
        The tree (default: where Linux mounts it).
    journal
        Journal to read (default: as for apply).
    force
        Revert even if another program changed the tree since.
    json
        Print what was done.
    quiet
        No messages.
    """
    place = None if journal is None else str(journal)
    done = _core.resctrl_restore(str(root), journal=place, force=force)
    if json:
        print_tables("live resctrl restore", {}, done)
    elif done["nothing"]:
        say(f"nothing to restore: no journal {done['journal']}", quiet=quiet)
    else:
        for change in done["changes"]:
            say(change, quiet=quiet)
    return 0


@app.command
def show(*, root: Path = ROOT, json: Json = False) -> int:
    """Show who has which ways.

    Parameters
    ----------
    root
        The tree (default: where Linux mounts it).
    json
        Print one JSON document.
    """
    found = _core.resctrl_show(str(root))
    if json:
        print_tables("live resctrl show", *parted(found, "groups"))
        return 0
    rows: list[list[str]] = []
    for group in found["groups"]:
        name = group["name"] or "(default)"
        facts = [f"{len(group['tasks']):,}", _clip(group["cpus"] or "-", 10)]
        for cache, masks in group["masks"].items():
            for mask, ids in _by_mask(masks).items():
                ways = str(int(mask, 16).bit_count())
                rows.append([_clip(name, 24), cache, _clip(ids, 12), mask, ways, *facts])
                name, facts = "", ["", ""]
    heads = ["group", "cache", "ids", "mask"]
    columns = [*((head, "left") for head in heads), ("ways", "right"), ("tasks", "right")]
    print_table([*columns, ("CPUs", "left")], rows)
    mode, unread = found["kernel_mode"], found["kernel_mode_unread"]
    if mode:
        say(f"kernel mode: {mode['active']}, group {mode['group'] or 'none'}")
    else:
        say(unread or "no class for kernel work here")
    say(f"classes left: {found['free_classes']}")
    return 0


def _by_mask(masks: dict[str, str]) -> dict[str, str]:
    """Cache ids by their mask."""
    ids: dict[str, list[str]] = {}
    for number, mask in masks.items():
        ids.setdefault(mask, []).append(number)
    return {mask: _runs(sorted(int(n) for n in numbers)) for mask, numbers in ids.items()}


def _runs(numbers: list[int]) -> str:
    """Formats numbers as lists of CPUs are written: 0-3,8."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number])
    return ",".join("-".join(str(n) for n in run) for run in runs)


def _clip(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 2] + ".."
