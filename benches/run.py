"""``make bench``: how fast and how accurate, as ratios to peers and limits measured in one run.

Speeds are medians of repeated runs in user CPU time, so that other work on the machine disturbs
them little; absolute numbers still differ from machine to machine, the ratios much less.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import block
import comparison
import delegation as costing
import fabric
import peers
import samples
import server as hybrid
from halfwink import _core, programs
from halfwink.errors import HalfwinkError
from halfwink.jobs import Job, pairs, plan
from halfwink.library import library, root
from halfwink.live.block import Device
from halfwink.models import pdn
from halfwink.runs.comparison import compare

REPEATS = 3
OUT = Path("halfwink-out") / "bench.json"


@dataclass(frozen=True)
class Row:
    """One line of the table: a measured number and what it is compared with."""

    what: str
    measured: float
    unit: str
    against: str
    reference: float
    #: How much better than the reference: above 1 is good.
    ratio: float


def timed(work: Callable[[], float]) -> tuple[float, float]:
    """What the work returns, and the median user CPU time that this process spent on it."""
    runs = [measured(work) for _ in range(REPEATS)]
    return runs[-1][0], statistics.median(seconds for _, seconds in runs)


def measured(work: Callable[[], float]) -> tuple[float, float]:
    """What the work returns, and the user CPU time that this process spent on it once."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    value = work()
    return value, resource.getrusage(resource.RUSAGE_SELF).ru_utime - before


def speed_of(work: Callable[[], float]) -> float:
    """Millions per second of what the work counts."""
    count, seconds = timed(work)
    return count / seconds / 1e6


def faster(what: str, speed: float, against: str, reference: float) -> Row:
    return Row(what, speed, "M instructions/s", against, reference, speed / reference)


def decode() -> list[Row]:
    """Reading traces, next to reading them and doing nothing else."""
    rows: list[Row] = []
    for name in ("nginx", "gcc", "gzip"):
        path = str(root() / "workloads" / f"{name}.hwt")
        speed = speed_of(partial(_core.trace_decode, path))
        rows.append(faster(f"decode {name}", speed, "goal", 60))
    return rows


def fact(job: _core.PreparedJob, column: str) -> float:
    """Runs a job; one number of the result."""
    run = job.run(_core.RunControl())["run"]
    return next(values[0] for name, _, values in run if name == column)


def chip_job(
    workload: str,
    machine: str,
    technique: str,
    set: dict[str, str] | None = None,
    instructions: int | None = None,
) -> Job:
    """A job of the simulated chip."""
    limit = {} if instructions is None else {"instructions": instructions}
    return Job("chip", workload, machine, technique, pairs(set), pairs(limit))


def chip_speed(workload: str, machine: str, instructions: int | None = None) -> float:
    """Millions of simulated instructions per second on one core."""
    job = chip_job(workload, machine, "tap", instructions=instructions).prepare()
    return speed_of(partial(fact, job, "instructions"))


#: Machine, workload, instructions, the goal and ChampSim's published speed on such a trace.
CHIPS: list[tuple[str, str, int | None, float]] = [
    ("in-order-1", "alu", 20_000_000, 20),
    ("in-order-1", "nginx", None, 20),
    ("in-order-1", "gcc", None, 20),
    ("in-order-1", "memcached", None, 20),
    ("in-order-1", "postgresql", None, 20),
    ("ev6-1", "alu", 20_000_000, 5),
    ("ev6-1", "nginx", None, 5),
    ("ev6-1", "gcc", None, 5),
    ("ev6-1", "chase:mb=256", 2_000_000, 2),
]

#: What ChampSim (2025-05, its default configuration) reached on a machine of this kind: an ALU
#: loop, a mixed and a memory-bound trace, in millions of instructions per second.
CHAMPSIM_ONCE = {"alu": 0.147, "nginx": 0.036, "chase:mb=256": 0.0015}


def chips(folder: Path) -> list[Row]:
    """Simulation speed against the goals and ChampSim."""
    rows: list[Row] = []
    measured = champsim_speeds(folder)
    for machine, workload, instructions, goal in CHIPS:
        speed = chip_speed(workload, machine, instructions)
        what = f"{machine} {workload.split(':')[0]}"
        rows.append(faster(what, speed, "goal", goal))
        if machine == "ev6-1" and workload in measured:
            rows.append(faster(what, speed, "ChampSim, this run", measured[workload]))
        elif machine == "ev6-1" and workload in CHAMPSIM_ONCE:
            rows.append(faster(what, speed, "ChampSim, once measured", CHAMPSIM_ONCE[workload]))
    return rows


def champsim_speeds(folder: Path) -> dict[str, float]:
    """ChampSim's speeds on the same traces, if $CHAMPSIM names its binary."""
    binary = peers.champsim_program()
    if binary is None:
        return {}
    alu, chase, nginx = folder / "alu.trace", folder / "chase.trace", folder / "nginx.champsim.xz"
    peers.write_alu_records(alu, 1_000_000)
    peers.write_chase_records(chase, 20_000)
    trace = root() / "workloads" / "nginx.hwt"
    _core.export_champsim(str(trace), str(nginx), True, True, 600_000)
    return {
        "alu": peers.champsim(binary, alu, 900_000),
        "nginx": peers.champsim(binary, nginx, 500_000),
        "chase:mb=256": peers.champsim(binary, chase, 15_000),
    }


def utilisation() -> list[Row]:
    """Host time per simulated time must follow what happens, not how long it takes."""
    nginx = {
        "closed load": "nginx",
        "50 %": "nginx-50pct",
        "10 %": "nginx-10pct",
        "1 %": "nginx-1pct",
    }
    mixed = {f"{n} %": f"mixed:instructions=2000000,utilisation={n}" for n in (100, 30, 10, 1)}
    rows: list[Row] = []
    for name, workloads in (("nginx", nginx), ("mixed", mixed)):
        full = 0.0
        first = next(iter(workloads))
        for label, workload in workloads.items():
            simulated, host = timed(
                partial(fact, chip_job(workload, "ev6-1", "tap").prepare(), SPAN)
            )
            slow = host / simulated
            full = full or slow
            what = f"ev6-1 {name}, {label}"
            rows.append(Row(what, slow, "host s / simulated s", first, full, full / slow))
    return rows


SPAN = "duration_s"


def gating() -> list[Row]:
    """What gating adds to the time of a simulation: the same run always on and under TAP."""
    rows: list[Row] = []
    for machine, workload in (("in-order-1", "nginx"), ("ev6-1", "nginx"), ("ev6-1", "gcc")):
        ratio = paired(*(chip_job(workload, machine, t) for t in ("tap", "always-on")))
        what = f"{machine} {workload}, tap"
        rows.append(Row(what, ratio, "of always-on's time", "limit", 1.10, 1.10 / ratio))
    return rows


def comparisons() -> list[Row]:
    """Six techniques, some of which share a run, beside one run."""
    rows: list[Row] = []
    for machine, workload in comparison.PAIRS:
        ratio, limit = comparison.ratio(machine, workload), comparison.LIMIT
        what = f"{machine} {workload}, {len(comparison.COMPARED)} techniques"
        rows.append(Row(what, ratio, "of one run's time", "limit", limit, limit / ratio))
    return rows


def offload() -> list[Row]:
    """What a second core for the kernel adds: the same run on one core and with its OS core."""
    rows: list[Row] = []
    for machine, like in (("ev6-1", "ev6"), ("ev6-1", "in-order"), ("in-order-1", "in-order")):
        for workload in ("nginx", "memcached"):
            helped = chip_job(workload, machine, "os-offload", {"os.like": like})
            ratio = paired(helped, chip_job(workload, machine, "always-on"))
            what = f"{workload}, {machine} and {like}"
            rows.append(Row(what, ratio, "of one core's time", "limit", 1.5, 1.5 / ratio))
    return rows


def segregation() -> list[Row]:
    """Rules for a second level: replayed from one recorded stream, beside a simulation for each."""
    set_ = {"l2.size": "256KB"}
    job = chip_job("apache", "ultrasparc", "lru", set_).prepare()
    _, simulated = timed(partial(fact, job, "instructions"))

    def sweep() -> float:
        found = library().segregation("apache", [("l2", "256KB:16")])["schemes"]
        return float(len(found[0][2]))

    rules, seconds = timed(sweep)
    ratio = simulated * rules / seconds
    return [Row("segregation sweep", rules / seconds, "rules/s", "simulated", 1 / simulated, ratio)]


def sampling() -> list[Row]:
    """Windows of a long workload beside the whole of it, under two techniques."""
    rows: list[Row] = []
    for workload in samples.WORKLOADS:
        ratio, goal = samples.speed_up(workload), samples.GOAL
        what = f"{workload}, {samples.INSTRUCTIONS // 10**6} M instructions"
        rows.append(Row(what, ratio, "times as fast", "goal", goal, ratio / goal))
    return rows


def paired(job: Job, other: Job) -> float:
    """How many times the host time of another a job takes: the median of pairs of runs, so that the
    machine's moods fall on both."""
    ours, theirs = (partial(fact, j.prepare(), "instructions") for j in (job, other))
    times = ((measured(ours)[1], measured(theirs)[1]) for _ in range(2 * REPEATS + 1))
    return statistics.median(one / two for one, two in times)


#: Policies, the goal in packets per second and host core, and 64-byte packets of the profile.
ROUTED = ("polling", "napi", "power-save", "metronome")
SMALL = pairs({"apps.ipv4.bytes": 64})
ROUTER_GOAL = 20


def routers() -> list[Row]:
    """Packets through the simulated router over the evaluation's profile, next to drawing them."""
    router = library().router("westmere", SMALL)
    alone = speed_of(lambda: router.draw("ipv4", "evaluation", 1))
    rows: list[Row] = []
    for policy in ROUTED:
        job = Job("router", "ipv4", "westmere", policy, SMALL)
        speed = speed_of(lambda job=job: fact(job.prepare(), "offered"))
        for against, reference in (("goal", ROUTER_GOAL), ("drawing them, this run", alone)):
            what = f"router, {policy}"
            row = Row(what, speed, "M packets/s", against, reference, speed / reference)
            rows.append(row)
    return rows


def servers() -> list[Row]:
    """Requests through a simulated hybrid server, next to drawing them."""
    rows: list[Row] = []
    for found in hybrid.speeds():
        speed = found.simulated
        for against, reference in (("goal", hybrid.GOAL), ("drawing them, this run", found.drawn)):
            row = Row(found.what, speed, "M requests/s", against, reference, speed / reference)
            rows.append(row)
    return rows


def benched(crate: str, bench: str) -> list[dict[str, Any]]:
    """Lines of JSON that a benchmark of a crate prints."""
    command = ["cargo", "bench", "--locked", "--quiet", "-p", f"halfwink-{crate}"]
    command += ["--bench", bench]
    done = subprocess.run(command, cwd=root(), capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


#: Million events a second that the engine's queue shall reach with so many pending.
QUEUE_GOALS = {100: 30, 10_000: 10}


def queue() -> list[Row]:
    """The event queue in the hold model, next to a heap of the standard library."""
    rows: list[Row] = []
    for found in benched("engine", "queue"):
        pending, speed = found["pending"], found["ours"]
        references = [("binary heap, this run", found["standard"])]
        if pending in QUEUE_GOALS:
            references.insert(0, ("goal", QUEUE_GOALS[pending]))
        for against, reference in references:
            what = f"{pending:,} pending"
            rows.append(Row(what, speed, "M events/s", against, reference, speed / reference))
    return rows


#: Million recorded idle times a second that a policy shall play, and megabytes that shall be read.
GAPS_GOAL, TEXT_GOAL = 10, 200


def gaps() -> list[Row]:
    """Recorded idle times: policies that are played in them, and readers of their text."""
    rows: list[Row] = []
    for found in benched("node", "gaps"):
        ours, limit = found["ours"], found["limit"]
        if "policy" in found:
            what, unit, goal = f"play {found['policy']}", "M gaps/s", GAPS_GOAL
            against = "read once, this run"
        else:
            what, unit, goal = f"read {found['format']}", "MB/s", TEXT_GOAL
            against = "lines alone, this run"
        rows.append(Row(what, ours, unit, "goal", goal, ours / goal))
        rows.append(Row(what, ours, unit, against, limit, ours / limit))
    return rows


#: Milliseconds in which 100,000 lines shall be sorted, intersected and encoded, all together.
LINE_SETS_GOAL_MS = 5
OTHER_SETS = [("BTreeSet", "standard"), ("Roaring bitmap", "roaring")]


def line_sets() -> list[Row]:
    """Working sets of 100,000 lines, next to other ways to keep them."""
    steps = benched("policy", "line_sets")
    rows: list[Row] = []
    for found in steps:
        ours = found["ours"]
        # Neither has a code of runs; the bitmap's own code is what can be compared.
        codes = found["step"] in ("encode", "decode")
        others = [("Roaring bitmap", "roaring")] if codes else OTHER_SETS
        for against, name in others:
            what, reference = f"{found['step']} 100,000 lines", found[name]
            rows.append(Row(what, ours, "ms", f"{against}, this run", reference, reference / ours))
    prepared = sum(found["ours"] for found in steps if found["step"] != "decode")
    ratio = LINE_SETS_GOAL_MS / prepared
    rows.append(Row("all but decode", prepared, "ms", "goal", LINE_SETS_GOAL_MS, ratio))
    return rows


MEMORY = """
import resource
from halfwink import _core
from halfwink.models import pdn
from halfwink.jobs import Job
names = ["nginx", "memcached", "postgresql", "gcc", "gzip", "redis", "apache", "sqlite"]
limit = (("instructions", "500000"),)
job = Job("chip", "+".join(names * 2), "ev6-16", "tap", (), limit).prepare()
job.run(_core.RunControl())
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def memory() -> list[Row]:
    """The whole process, with the interpreter, playing eight programs on sixteen cores."""
    done = subprocess.run(
        [sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True
    )
    megabytes = int(done.stdout) / 1024
    return [Row("16 cores, 8 programs twice", megabytes, "MB", "limit", 300, 300 / megabytes)]


def studies() -> list[Row]:
    """Preparing the jobs of a large study: as many machines as jobs, on all traces."""
    traces = library().names("workloads", "hwt")
    jobs = [
        Job("chip", traces[n % len(traces)], "ev6-4", "tap", pairs({"gating.wake_up_ns": n}))
        for n in range(10_000)
    ]
    keys, seconds = measured(lambda: len({planned.key for planned in plan(jobs)}))
    assert keys == len(jobs)
    return [Row("10,000 jobs, prepared", seconds, "s", "goal", 3, 3 / seconds)]


def count_misses(path: str) -> float:
    """Instructions whose misses were counted."""
    table = _core.trace_caches(path, peers.SHAPES, False, False)
    return sum(row[2] for row in table if row[0] == "fetch")


def caches(folder: Path) -> list[Row]:
    """Counting misses, next to Cachegrind on the same command; it must run the program to count."""
    sample = folder / "code"
    sample.write_bytes(Path(_core.__file__).read_bytes()[: 1 << 20])
    peer = peers.cachegrind("gzip", "-6", "-k", sample)
    if peer is None:
        print(programs.find("valgrind").missing, file=sys.stderr)
        return []
    reference = peer.fetches[0] / peer.user_s / 1e6
    path = str(root() / "workloads" / "gzip.hwt")
    speed = speed_of(partial(count_misses, path))
    return [faster("count misses, gzip -6", speed, "Cachegrind, this run", reference)]


#: Core drawings of the delivery network's benchmark: sets of a 16-core chip, many and few waking.
DRAWINGS = [
    "awa./..../..../....",
    "aaaa/awwa/aaaa/aaaa",
    "aaaa/wwww/aaaa/aaaa",
    "wawa/awaw/wawa/awaw",
    "wwww/waww/wwww/wwww",
]
WAKE_UPS_NS = [5.0, 6.5, 8.0, 9.5, 11.0, 13.0, 15.0, 18.0]


def delivery() -> list[Row]:
    """The delivery network: cases next to ngspice, and the search of all sets of 16 cores."""
    rows: list[Row] = []
    cases = [(drawing, ns) for drawing in DRAWINGS for ns in WAKE_UPS_NS]

    def droops() -> float:
        # Solved anew each time: once for all cases, as a search would.
        network = pdn.network("ev6")
        return sum(max(network.droop(drawing, ns)) for drawing, ns in cases)

    _, ours = timed(lambda: sum(droops() for _ in range(20)))
    network = pdn.network("ev6")
    decks = [network.deck(drawing, ns) for drawing, ns in cases]
    if programs.find("ngspice").path is None:
        print(programs.find("ngspice").missing, file=sys.stderr)
    else:
        theirs = statistics.median(timed_children(decks) for _ in range(REPEATS))
        ours_us, theirs_us = ours / 20 / len(cases) * 1e6, theirs / len(cases) * 1e6
        name = "ngspice, this run"
        rows.append(Row("16 cores, one case", ours_us, "us", name, theirs_us, theirs_us / ours_us))
    _, seconds = timed(lambda: len(network.fit()))
    what = "all sets, twice, and fits"
    rows.append(Row(what, seconds, "s", "goal", 60, 60 / seconds))
    return rows


def timed_children(decks: list[str]) -> float:
    """User CPU time of ngspice on these decks."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    for deck in decks:
        pdn.ngspice(deck)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def delegation() -> list[Row]:
    """What handing system calls over costs, and what it costs to let them be."""
    costs = [*costing.hand_off(), *costing.staying()]
    return [
        Row(c.what, c.measured, c.unit, c.against, c.reference, c.reference / c.measured)
        for c in costs
        if c.measured
    ]


def fabrics(work: Callable[[], list[fabric.Row]]) -> list[Row]:
    """What :mod:`fabric` measures; nothing, with a line that says why, if a peer is no use."""
    try:
        return [Row(**asdict(row)) for row in work()]
    except HalfwinkError as error:
        print(error, file=sys.stderr)
        return []


def show(title: str, rows: list[Row]) -> None:
    print(f"\n{title}")
    for row in rows:
        print(
            f"  {row.what:<28} {row.measured:>10.3g} {row.unit:<21}"
            f" {row.ratio:>9.3g} x  {row.against} ({row.reference:.3g})"
        )


def storage() -> list[Row]:
    """The simulated storage stack: I/Os a second of a core, and the whole of Fig 6.10."""
    rows: list[Row] = []
    for technique in ("single-thread", "multi-queue", "polled", "cache-aware"):
        options = pairs({"ios": 2_000_000, "warm_up": 0})
        job = Job("storage", "random-read@10", "nehalem-ex", technique, (), options).prepare()
        speed = speed_of(partial(fact, job, "units"))
        rows.append(Row(technique, speed, "M I/O/s", "goal", 5, speed / 5))
    loads = [str(issuers) for issuers in range(1, 81)]
    three = ("single-thread", "issuer", "cache-aware")
    _, seconds = measured(
        lambda: compare("random-read", world="storage", techniques=three, loads=loads).runs.height
    )
    rows.append(Row("80 CPUs, three policies", seconds, "s", "goal", 20, 20 / seconds))
    return rows


def blocks() -> list[Row]:
    """A block device over NBD beside nbdkit, as ratios; CPU and latency: below 1 is good."""
    shots = block.measure(2, 3, Device())
    found = block.ratios(shots)
    rows: list[Row] = []
    for name, goal in block.GOALS.items():
        ratio = found[name]
        better = ratio / goal if name.startswith("iops") else goal / ratio
        rows.append(Row(name.replace("_", " "), ratio, "of nbdkit's", "goal", goal, better))
    return rows


def main() -> None:
    """Runs everything, prints the table, writes it as JSON."""
    started = time.monotonic()
    sections: dict[str, list[Row]] = {}
    told = fabric.Peers.of_environment()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for title, work in (
            ("Reading traces", decode),
            ("Simulating one core (user CPU time)", lambda: chips(folder)),
            ("Host time follows activity", utilisation),
            ("What gating adds", gating),
            ("What a comparison of techniques takes (CPU time)", comparisons),
            ("Sampling beside whole runs (user CPU time)", sampling),
            ("What a core for the kernel adds", offload),
            ("Rules for a second level (user CPU time)", segregation),
            ("Packets through a router (user CPU time)", routers),
            ("Requests through a hybrid server (user CPU time)", servers),
            ("Recorded idle times (time on a CPU)", gaps),
            ("I/Os through a storage stack (user CPU time)", storage),
            ("Event queue: the earliest out, a later one in", queue),
            ("Sets of cache lines", line_sets),
            ("Counting cache misses", lambda: caches(folder)),
            ("Power delivery (user CPU time)", delivery),
            ("Memory", memory),
            ("Large studies (user CPU time)", studies),
            ("Delegation of system calls", delegation),
            ("A block device over NBD", blocks),
            *((title, partial(fabrics, work)) for title, work in fabric.sections(told)),
        ):
            sections[title] = work()
            show(title, sections[title])
    OUT.parent.mkdir(exist_ok=True)
    document = {title: [asdict(row) for row in rows] for title, rows in sections.items()}
    OUT.write_text(json.dumps(document, indent=1) + "\n")
    print(f"\n{time.monotonic() - started:.0f} s; {OUT}")


if __name__ == "__main__":
    main()
