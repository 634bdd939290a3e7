"""The main job: every technique on a workload."""

from __future__ import annotations

import json
import logging
import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from halfwink import _core, inputs
from halfwink.errors import HalfwinkError
from halfwink.files import Place, place
from halfwink.jobs import Job, Settings, counted, is_own, names, pairs, technique_list
from halfwink.library import declared, machines, root, workload_names
from halfwink.results.relate import family_of, parts_of
from halfwink.results.results import CURVES, Results
from halfwink.results.store import HOST, RunStore
from halfwink.results.verdict import CLIENTS
from halfwink.runs.batch import Progress
from halfwink.runs.executors import Executor, Submits
from halfwink.runs.studies import keep, run_all

if TYPE_CHECKING:
    import polars as pl

    from halfwink.policies.finding import Technique

#: Stands for the techniques that one reason leaves out.
_THEM = "\0"
_log = logging.getLogger("halfwink")
#: Where workloads are compared, and on what, unless something else is said.
WORLD = "chip"
#: Where services are, which have a profile.
NODE = "node"
#: Numbers of loads that a range may have.
MOST_LOADS = 10_000
#: The end of a workload that is a service's profile in a file.
PROFILE = ".toml"
#: Families of which only some machines know anything: where nobody named them, nobody misses them.
OF_SOME_MACHINES = ("c-states",)
#: The chip whose idle states those choose from, unless a machine is named.
WITH_IDLE_STATES = "golden-cove-4"
#: Stands for every technique of a world; with a family behind it, for those of that one.
ALL = "all"
#: What is compared on a chip where no technique is named: idle states, and gating in stalls by
#: hope, by a guess, by tokens, and with foresight. Seconds, where all take a minute.
ONE_OF_EACH = ("idle-menu", "idle-gate", "mapg-counter", "tap", "oracle")
#: What is compared on a server of today: Linux' governors, what vendors advise for latency, one
#: technique of each family beside the better governor, and what is proposed, alone and together.
ON_A_NODE = (
    "menu",
    "teo",
    "c1",
    "teo+dvfs-mean",
    "teo+os-static",
    "teo+way-partition",
    "teo+preheat",
    "teo+coalesce",
    "teo+packing",
    "tap+teo",
    "c6a",
    "pc1a",
    "c6a+package-sleep",
    "tap+c6a+package-sleep+packing",
)
#: Of worlds in which not all are compared where no technique is named.
USUAL = {WORLD: ONE_OF_EACH, NODE: ON_A_NODE}
#: What others are compared with, in the worlds that know it.
BASELINE = "always-on"
#: The same of worlds in which it is another: on a server of today, what Linux does.
BASELINES = {NODE: "menu"}


def technique_names(wanted: str | Sequence[str] | None, world: str = WORLD) -> list[str]:
    """The techniques to run, baseline first; ``all`` and ``all-FAMILY`` stand for many. If none is
    wanted: one of each kind on a chip, all in other worlds.

    Where the world knows no ``always-on`` the first technique is what others are compared with.
    """
    listed = (t for t in _core.techniques() if world in t["worlds"])
    # What is only ever added to another technique is no technique to run alone.
    known = [t for t in listed if not t["is_modifier"]]
    everything = [t["name"] for t in known]
    chosen: list[str] = []
    for name in _asked(wanted, world):
        family = name.removeprefix(f"{ALL}-") if name.startswith(f"{ALL}-") else None
        members = [t["name"] for t in known if name == ALL or t["family"] == family]
        if family is not None and not members:
            families = sorted({t["family"] for t in known})
            raise HalfwinkError(f"unknown family `{family}`; there are: {', '.join(families)}")
        chosen.extend(members or [name])
    usual = BASELINES.get(world, BASELINE)
    first = [usual] if usual in everything else []
    return list(dict.fromkeys(first + chosen))


def _asked(wanted: str | Sequence[str] | None, world: str) -> list[str]:
    return names(wanted) or list(USUAL.get(world, (ALL,)))


def compare(
    workloads: str | Sequence[str],
    *,
    techniques: Technique | Sequence[Technique] | None = None,
    machine: str | None = None,
    world: str | None = None,
    set: Settings | None = None,
    instructions: int | None = None,
    timeline_ns: tuple[int, int] | None = None,
    loads: str | Sequence[str] | None = None,
    out: Place | str | None = None,
    fresh: bool = False,
    executor: Executor | Submits | None = None,
    log: Path | str | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Results:
    """Runs techniques on workloads and relates them to the always-on baseline.

    Args:
        workloads: names (``nginx``), files (``my.hwt``), copies (``nginx*4``), mixes (``a+b``), or
            the threads of a recording on cores of their own (``my.hwt:threads=cores``).
        techniques: names, with parameters (``tap:wake=last``), or policies of your own
            (`halfwink.policies`): a class, or an object for other parameters. Of ``all``, or
            ``all-FAMILY``, those that the machine can play. If none are given: ``ONE_OF_EACH`` on a
            chip, ``ON_A_NODE`` on a server of today, all in other worlds, as far as the machine and
            the service's profile know them. The baseline always runs.
        machine: name, with a number of cores (``ev6-16``), or a file.
        world: world whose workloads, machines and techniques these are. If none is given: a server
            of today (``node``) for a service with a profile, else the chip (:func:`default_world`).
        set: values to change, by path: ``{"gating.wake_up_ns": 16}``.
        instructions: the most that each core plays.
        loads: loads of servers, each workload at each of them (``30%``, ``20000/s``, ``mmpp:...``,
            ``clients:64:think=1ms``); of storage: numbers of issuing CPUs. If none is given: those
            that the world declares.
        timeline_ns: part of the run whose states are recorded, in nanoseconds from its start.
        out: folder or URL in which finished runs are kept, from which they are reused, and to
            which the tables are written in the end, for ``hw.open``.
        fresh: run again what is already there.
        log: path of the event logs of all runs, which are played for it even if their results exist
            (`halfwink.runs.logs.paths`).

    Raises:
        HalfwinkError: a name or value that cannot be, in one line.
        RunError: a run failed.
    """
    asked, wanted = names(workloads), technique_list(techniques)
    if world is None:
        on_a_chip = instructions is not None or timeline_ns is not None
        world = default_world(asked, wanted, machine, loads, set, on_a_chip=on_a_chip)
    if world == NODE:
        check_services(asked)
    named = at_loads(asked, names(loads) or usual_loads(asked, world), world)
    if not named:
        raise HalfwinkError("no workload was named")
    part = None if timeline_ns is None else "..".join(map(str, timeline_ns))
    options = counted(set, instructions=instructions, timeline_ns=part)
    chosen = technique_names(wanted, world)
    on = machine or usual_machine(world, wanted)
    jobs = [
        Job(world, workload, on, technique, pairs(set), pairs(options))
        for workload in named
        for technique in chosen
    ]
    if not wanted or any(map(_is_group, wanted)):
        jobs = _playable(jobs, wanted or ())
        chosen = list(dict.fromkeys(job.technique for job in jobs))
    folder = place(out) if out is not None else None
    store = RunStore(folder / "runs") if folder is not None else None
    results = run_all(
        jobs,
        baseline=chosen[0],
        store=store,
        fresh=fresh,
        executor=executor,
        log=log,
        progress=progress,
    )
    if folder is not None:
        keep(folder, results, as_study(jobs, chosen[0]))
    return results


def default_world(
    workloads: Sequence[str],
    techniques: str | Sequence[str] | None,
    machine: str | None,
    loads: str | Sequence[str] | None,
    set: Settings | None = None,
    *,
    on_a_chip: bool = False,
) -> str:
    """Returns the world that a comparison is played in unless one is named.

    A service with a profile, or in a file, is played on a server of today. What names a chip, a
    technique or a value that chips have, or a part of a run (``on_a_chip``), is played on a chip.

    Raises:
        HalfwinkError: a load, which chips do not have, and a part of a run, which servers do not.
    """
    loaded = loads or any(map(_has_load, workloads))
    if loaded and on_a_chip:
        raise HalfwinkError(
            "--load is of a server of today, --instructions and --timeline are of a chip: leave "
            "one out (a server's run has so many requests: --set requests=100000)"
        )
    if loaded:
        return NODE
    values = {path.split(".")[0] for path, _ in pairs(set)}
    if on_a_chip or (values and not values <= _node_values()):
        return WORLD
    if machine is not None:
        known = {info["name"] for info in machines(NODE)}
        return NODE if machine in known else WORLD
    if any(map(_is_profile, workloads)):
        return NODE
    parts = {part for name in names(techniques) for part in parts_of(name)}
    own = _own(parts)
    if not own:
        # Shipped ones decide, beside a file that cannot be read: preparing the runs names it.
        parts = {part for part in parts if not is_own(part)}
    if parts:
        # A name may have a row for each world.
        rows = _core.techniques() + own
        chips, nodes = (
            {t["name"]: t["family"] for t in rows if w in t["worlds"]} for w in (WORLD, NODE)
        )
        # The default chip names no idle states that governors choose from.
        is_of_today = any(chips.get(part) in OF_SOME_MACHINES for part in parts)
        is_of_both = parts <= nodes.keys() and parts <= chips.keys()
        return NODE if parts <= nodes.keys() and (is_of_today or not is_of_both) else WORLD
    profiled = _profiled()
    services_of = {workload.split("@")[0] for workload in workloads}
    return NODE if services_of and services_of <= profiled else WORLD


def check_services(workloads: Sequence[str]) -> None:
    """Checks that no workload is one of another world alone, for which no profile can be made.

    Raises:
        HalfwinkError: a workload has no requests of a service.
    """
    known = _profiled()
    for name in dict.fromkeys(workload.split("@")[0] for workload in workloads):
        if name in known or _is_profile(name) or Path(name).exists():
            continue
        if (world := _other_world(name)) is not None:
            raise HalfwinkError(
                f"`{name}` has no profile for a server of many cores; "
                f"`halfwink compare {name} -w {world}` plays it"
            )


def _other_world(name: str) -> str | None:
    """Returns the world beside the node that has a workload; none of recorded services, of which
    profiles can be made."""
    trace = root() / "workloads" / f"{name}.hwt"
    if trace.is_file():
        totals = json.loads(_core.trace_info(str(trace)))["totals"]
        return None if totals["requests"] else WORLD
    others = (world["name"] for world in _core.worlds() if world["name"] != NODE)
    return next((world for world in others if name in workload_names(world)), None)


def _own(parts: Iterable[str]) -> list[dict[str, Any]]:
    """Returns what policies of users among these say of themselves; none if one cannot be played,
    which preparing its runs says."""
    try:
        return _core.techniques([part for part in parts if is_own(part)])
    except HalfwinkError:
        return []


def _profiled() -> set[str]:
    """Returns the services that have a profile."""
    return set(workload_names(NODE))


def _is_profile(workload: str) -> bool:
    """Returns whether a workload is a service's profile in a file. Others end in the same letters:
    a study, a machine."""
    if not workload.endswith(PROFILE):
        return False
    try:
        return "service_us" in tomllib.loads(inputs.read_text(workload))
    except (HalfwinkError, tomllib.TOMLDecodeError):
        return False


def _has_load(workload: str) -> bool:
    """Returns whether a workload is a service at a load, as `nginx@10`."""
    service, at, _ = workload.partition("@")
    return bool(at) and (service.endswith(PROFILE) or service in _profiled())


def _node_values() -> frozenset[str]:
    """Returns the first names of all values that can be set of a server of today."""
    machine = root() / f"machines/{NODE}/{default_machine(NODE)}.toml"
    options = {option["name"] for option in declared(NODE)["options"]}
    # The kernel's parameter `intel_idle.table` stands for values of `idle_states`.
    return frozenset(tomllib.loads(machine.read_text())) | options | {"intel_idle"}


def usual_loads(workloads: Sequence[str], world: str) -> Sequence[str]:
    """Returns the loads that workloads are compared at if the user names none."""
    known = declared(world).get("loads")
    return known if known and not any("@" in w for w in workloads) else ()


def at_loads(workloads: Sequence[str], loads: Sequence[str], world: str) -> list[str]:
    """Each workload at each load: ``nginx`` at ``10%`` is ``nginx@10``.

    Raises:
        HalfwinkError: the world has no loads, or a workload has one already.
    """
    if not loads:
        return list(dict.fromkeys(workloads))
    usual = declared(world).get("loads")
    if not usual:
        known = ", ".join(known["name"] for known in _core.worlds() if known["loads"])
        line = f"workloads of the world `{world}` have no load; those of {known} have (--world)"
        raise HalfwinkError(line)
    for workload in workloads:
        if "@" in workload:
            raise HalfwinkError(f"`{workload}` has a load already: leave out --load, or the `@...`")
    is_share = any(load.endswith("%") for load in usual)
    said = [load.removesuffix("%") if is_share else load for load in loads]
    return list(dict.fromkeys(f"{workload}@{load}" for workload in workloads for load in said))


def split_loads(text: str | None) -> list[str]:
    """Loads separated by commas; the unit of the last holds for all: ``10,30,50%``.

    ``1..20`` stands for all whole numbers from 1 to 20, of clients too: ``clients:8,64:think=1ms``.
    A load that has commas of its own (``mmpp:10,90,5,1``) stands alone.

    Raises:
        HalfwinkError: a range has more than ``MOST_LOADS`` numbers.
    """
    if not text:
        return []
    if text.startswith(CLIENTS):
        counts, _, rest = text.removeprefix(CLIENTS).partition(":")
        each = [count for part in counts.split(",") for count in _in_range(part.strip())]
        return [f"{CLIENTS}{count}:{rest}" for count in each]
    if ":" in text:
        return [text]
    parts = [part.strip() for part in text.split(",")]
    unit = next((unit for unit in ("%", "/s") if parts[-1].endswith(unit)), "")
    each = [load for part in parts for load in _in_range(part.removesuffix(unit))]
    return [load + unit for load in each]


def _in_range(text: str) -> Sequence[str]:
    """Returns the numbers of a range, as ``1..20``; what is none stays as it is."""
    first, dots, last = text.partition("..")
    if not (dots and first.isdecimal() and last.isdecimal()):
        return [text]
    if not 0 <= int(last) - int(first) < MOST_LOADS:
        raise HalfwinkError(f"--load {text}: expected FROM..TO, at most {MOST_LOADS} numbers")
    return [str(number) for number in range(int(first), int(last) + 1)]


def _is_group(technique: str) -> bool:
    """Returns whether the name stands for several techniques."""
    return technique == ALL or technique.startswith(f"{ALL}-")


def _playable(jobs: list[Job], wanted: Sequence[str]) -> list[Job]:
    """Without the techniques that the machine lacks what they need for; tells of them.

    Raises:
        HalfwinkError: only the baseline can be played, or a technique ``wanted`` by its own name
            cannot.
    """
    without: dict[str, HalfwinkError] = {}
    for job in jobs:
        if job.technique not in without:
            try:
                job.prepare()
            except HalfwinkError as error:
                if job.technique in wanted:
                    raise
                without[job.technique] = error
    kept = [job for job in jobs if job.technique not in without]
    usual = BASELINES.get(jobs[0].world, BASELINE)
    if without and all(job.technique == usual for job in kept):
        raise next(iter(without.values()))
    missed = {
        technique: str(error)
        for technique, error in without.items()
        if (family := family_of(technique, kept[0].world)) not in OF_SOME_MACHINES
        or f"{ALL}-{family}" in wanted
    }
    together: dict[str, list[str]] = {}
    for technique, reason in missed.items():
        reason = reason.replace(f"`{technique}`", _THEM)
        reason = reason.replace(f"-t {technique}`", f"-t {_THEM}`")
        together.setdefault(reason, []).append(technique)
    for reason, left in together.items():
        asked = reason.replace(f"-t {_THEM}", f"-t {','.join(left)}")
        them = f"`{left[0]}`" if len(left) == 1 else "them"
        _log.warning("left out: %s: %s", ", ".join(left), asked.replace(_THEM, them))
    return kept


def as_study(jobs: Sequence[Job], baseline: str) -> str:
    """A comparison as the study that would run it."""

    def listed(values: Iterable[str]) -> str:
        return "[" + ", ".join(_toml(value) for value in dict.fromkeys(values)) + "]"

    lines = [
        "schema = 1",
        f"world = {_toml(jobs[0].world)}",
        f"title = {_toml(', '.join(dict.fromkeys(job.workload for job in jobs)) + ' compared')}",
        f"workloads = {listed(job.workload for job in jobs)}",
        f"machines = {listed(job.machine for job in jobs)}",
        f"techniques = {listed(job.technique for job in jobs)}",
        f"baseline = {_toml(baseline)}",
    ]
    if jobs[0].options:
        lines += ["", "[options]"]
        lines += [f"{name} = {_number_or_text(value)}" for name, value in jobs[0].options]
    if jobs[0].set:
        lines += ["", "[sweep]"]
        lines += [f"{_toml(path)} = [{_number_or_text(value)}]" for path, value in jobs[0].set]
    return "\n".join(lines) + "\n"


def _toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _number_or_text(value: str) -> str:
    try:
        tomllib.loads(f"value = {value}")
    except tomllib.TOMLDecodeError:
        return _toml(value)
    return value


def usual_machine(world: str, wanted: Iterable[str] | None) -> str:
    """Returns the machine on which techniques are compared unless one is named."""
    families = (family_of(part, world) for name in wanted or () for part in parts_of(name))
    if world == WORLD and any(family in OF_SOME_MACHINES for family in families):
        return WITH_IDLE_STATES
    return default_machine(world)


def default_machine(world: str) -> str:
    """The machine that a world's workloads run on unless one is named."""
    known = machines(world)
    if not known:
        raise HalfwinkError(f"world `{world}` has no machine; expected --machine FILE")
    return declared(world)["machine"] or known[0]["name"]


#: Tables that sum a run up, of those that results have.
SUMS = ("ledger", HOST, "slots", "calls", "segregation", *CURVES)


def as_tables(results: Results) -> dict[str, pl.DataFrame]:
    """The tables of ``halfwink compare --json``: the runs, and those that sum a run up."""
    shown = {name: results.tables[name] for name in SUMS if results.has(name)}
    return {"runs": results.runs, **shown}
