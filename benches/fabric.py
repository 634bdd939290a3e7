"""Circuits and racks head to head with packet simulators, and how host time follows activity.

.venv/bin/python benches/fabric.py [--ns3 PYTHON] [--htsim CLONE] [--flows FILE] [--json FILE]

`make bench` takes the same of $NS3_PYTHON, $HTSIM and $FLOWS. Times are user CPU seconds of one
core, without start-up; peers run in turn with ours, and ratios are medians of pairs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import htsim
from halfwink import _core, programs
from halfwink.errors import HalfwinkError
from halfwink.jobs import Job, Settings, pairs
from halfwink.library import root

REPEATS = 3
OUT = Path("halfwink-out") / "htsim"
NS3_SCRIPT = Path(__file__).parent / "programs" / "all_to_all.py"

#: Hosts of `mordia`, simulated milliseconds of ours and of ns-3, days of circuits.
HOSTS, OURS_MS, NS3_MS, DAY_US = 23, 1000.0, 20.0, 123.5
#: What carries data in ours.
TRANSPORTS = ("udp", "tcp")
#: Million packets per CPU second; times ns-3's.
PACKETS_GOAL, NS3_GOAL = 1.0, 20
#: A fat tree of switches of eight ports.
TREE = {"racks.count": "32", "racks.servers": "4"}
SERVERS, GBPS = 128, 10.0
#: Times the host time of 1 % that full load may take at least; hosts and racks.
ACTIVITY_GOAL = 20
#: What the clock of CPU time can tell from nothing.
LEAST_S = 1e-4
LARGE_GOAL_S, LARGE_GOAL_MB = 60, 2048
WEEK_GOAL_MS = 1.0


@dataclass(frozen=True)
class Row:
    """A measured number, and what it is compared with."""

    what: str
    measured: float
    unit: str
    against: str
    reference: float
    #: How much better than the reference: above 1 is good.
    ratio: float


@dataclass(frozen=True)
class Peers:
    """Where other programs are; none if they are not wanted."""

    ns3: str | None = None
    htsim: Path | None = None
    flows: Path | None = None

    @classmethod
    def of_environment(cls) -> Peers:
        """Those that `make bench` is told of."""
        clone, flows = os.environ.get("HTSIM"), os.environ.get("FLOWS")
        found = (Path(name) if name else None for name in (clone, flows))
        return cls(os.environ.get("NS3_PYTHON"), *found)


def user_s() -> float:
    """User CPU time of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


def timed(job: Job) -> tuple[dict[str, float], float]:
    """A job's result, and the user CPU seconds of its run alone."""
    prepared = job.prepare()
    before = user_s()
    run = prepared.run(_core.RunControl())["run"]
    return {name: values[0] for name, _, values in run}, user_s() - before


def row(what: str, measured: float, unit: str, against: str, reference: float) -> Row:
    """More is better."""
    return Row(what, measured, unit, against, reference, measured / reference)


def limit(what: str, measured: float, unit: str, against: str, reference: float) -> Row:
    """Less is better."""
    return Row(what, measured, unit, against, reference, reference / measured)


def hosts(transport: str, set: Settings | None = None, ms: float = OURS_MS) -> Job:
    """All to all over circuits in turns: every packet is played."""
    technique = f"round-robin:day_us={DAY_US}"
    options = {"duration_ms": str(ms), "transport": transport}
    return Job("fabric", "all-to-all", "mordia", technique, pairs(set), pairs(options))


def delivered(run: dict[str, float]) -> float:
    """Packets that arrived."""
    return run["sent_packets"] * (1 - run["loss_pct"] / 100)


def ns3(python: str, host_gbps: float) -> tuple[float, float, float]:
    """Datagrams received in ns-3 at a host's rate, user CPU seconds, events.

    Raises:
        HalfwinkError: it fails.
    """
    gap_us = (HOSTS - 1) * 9000 * 8e-3 / host_gbps
    words = [python, NS3_SCRIPT, HOSTS, NS3_MS / 1e3, gap_us]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    if done.returncode:
        raise HalfwinkError(f"ns-3: {(done.stderr.strip().splitlines() or ['failed'])[-1]}")
    packets, cpu_s, events = done.stdout.split()[-3:]
    return float(packets), float(cpu_s), float(events)


def packets(peers: Peers) -> list[Row]:
    """Packets of 23 hosts, all to all, per CPU second; beside ns-3 at the same rate."""
    python = peers.ns3 or (sys.executable if programs.find("ns3").path else None)
    if python is None:
        print(f"{programs.find('ns3').missing}, or name a Python that has it", file=sys.stderr)
    speeds: dict[str, list[float]] = {"udp": [], "tcp": [], "ns3": [], "pairs": []}
    for _ in range(REPEATS):
        run, cpu_s = timed(hosts("udp"))
        speeds["udp"].append(delivered(run) / cpu_s / 1e6)
        host_gbps = run["host_gbps"]
        run, cpu_s = timed(hosts("tcp"))
        speeds["tcp"].append(delivered(run) / cpu_s / 1e6)
        if python is None:
            continue
        received, theirs_s, _ = ns3(python, host_gbps)
        speeds["ns3"].append(received / theirs_s / 1e6)
        speeds["pairs"].append(speeds["udp"][-1] / speeds["ns3"][-1])
    unit = "M packets/s"
    found = {name: statistics.median(of) for name, of in speeds.items() if of}
    rows = [
        row(f"circuits, {name}", found[name], unit, "goal", PACKETS_GOAL) for name in TRANSPORTS
    ]
    if "ns3" in found:
        what, ratio = "circuits, udp", found["pairs"]
        rows.append(Row(what, found["udp"], unit, "ns-3, this run", found["ns3"], ratio))
        rows.append(row(what, ratio, "times ns-3's", "goal", NS3_GOAL))
    return rows


def all_to_all(bytes: int) -> list[htsim.Flow]:
    """Every server to every other, all at once."""
    ends = ((a, (a + n) % SERVERS) for n in range(1, SERVERS) for a in range(SERVERS))
    return [htsim.Flow(a, b, bytes, 0) for a, b in ends]


def permutation(bytes: int) -> list[htsim.Flow]:
    """Every server to one of another pod."""
    return [htsim.Flow(a, (a + 37) % SERVERS, bytes, 0) for a in range(SERVERS)]


def web_search(load: float, ms: float) -> list[htsim.Flow]:
    """Flows of web search that come at any time, between any two servers."""
    law = tomllib.loads((root() / "workloads/flows/web-search.toml").read_text())
    points: list[tuple[float, float]] = [(p[0], p[1]) for p in law["bytes"]["points"]]
    mean = sum((a + b) / 2 * (q - p) for (a, p), (b, q) in pairwise(points))
    gap_ns = 8 * mean / (SERVERS * GBPS * load)
    draw, at_ns, flows = random.Random(1), 0.0, list[htsim.Flow]()
    while (at_ns := at_ns + draw.expovariate(1 / gap_ns)) < 1e6 * ms:
        source, share = draw.randrange(SERVERS), draw.random()
        destination = (source + draw.randrange(1, SERVERS)) % SERVERS
        (a, p), (b, q) = next(pair for pair in pairwise(points) if share <= pair[1][1])
        bytes = a + (b - a) * (share - p) / (q - p)
        flows.append(htsim.Flow(source, destination, int(bytes), int(at_ns)))
    return flows


def trees(peers: Peers) -> list[Row]:
    """The same flows through a fat tree: htsim plays packets, `racks` plays flows."""
    if peers.htsim is None:
        print(f"no htsim: git clone {htsim.WHERE} and give its folder", file=sys.stderr)
        return []
    binary = htsim.build(peers.htsim, OUT)
    rows: list[Row] = []
    for name, flows in (
        ("all to all, 30 KB", all_to_all(30_000)),
        ("permutation, 3 MB", permutation(3_000_000)),
        ("web search, 30 % load", web_search(0.3, 10)),
    ):
        with tempfile.TemporaryDirectory() as folder:
            rows += tree(binary, Path(folder), name, flows)
    return rows


def tree(binary: Path, folder: Path, name: str, flows: Sequence[htsim.Flow]) -> list[Row]:
    """One traffic through both."""
    file = folder / "traffic.flows"
    words = ((f.source, f.destination, f.bytes, f.begin_ns) for f in flows)
    file.write_text("".join(" ".join(map(str, line)) + "\n" for line in words))
    job = Job("racks", str(file), "opera-648", "packet-switch", pairs(TREE))
    runs = [(timed(job), htsim.play(binary, folder, SERVERS, GBPS, flows)) for _ in range(REPEATS)]
    ratio = statistics.median(theirs.user_s / cpu_s for (_, cpu_s), theirs in runs)
    ours_s = statistics.median(cpu_s for (_, cpu_s), _ in runs)
    theirs_s = statistics.median(theirs.user_s for _, theirs in runs)
    (run, _), played = runs[0]
    if len(played.times_us) < len(flows):
        print(f"htsim: {len(played.times_us)} of {len(flows)} flows ended", file=sys.stderr)
    speeds = [len(flows) / seconds / 1e3 for seconds in (ours_s, theirs_s)]
    mean_us = run["latency_mean_us"], statistics.mean(played.times_us)
    return [
        Row(name, speeds[0], "k flows/s", "htsim, this run", speeds[1], ratio),
        row(f"{name}, htsim", played.packets / theirs_s / 1e6, "M packets/s", "goal", PACKETS_GOAL),
        limit(f"{name}, mean", mean_us[0], "us", "htsim", mean_us[1]),
    ]


def activity() -> list[Row]:
    """Host time of full load in that of a hundredth, over the same simulated time."""
    # A processor that takes a hundred times as long sends a hundredth.
    full, slow = {}, {"hosts.processor.packet_us": "807"}
    cases: list[tuple[str, Callable[[str], Job]]] = [
        ("hosts, all to all", lambda load: hosts("udp", slow if load == "1" else full)),
        ("racks, web search", lambda load: racks(f"web-search@{load}", "packet-switch", 10)),
        ("racks, Hadoop", lambda load: racks(f"hadoop@{load}", "rotor", 20)),
    ]
    rows: list[Row] = []
    for what, job in cases:
        ratios = [timed(job("100"))[1] / max(timed(job("1"))[1], LEAST_S) for _ in range(REPEATS)]
        ratio = statistics.median(ratios)
        rows.append(row(f"{what}, 100 % to 1 %", ratio, "times", "goal", ACTIVITY_GOAL))
    return rows


def racks(workload: str, technique: str, ms: float) -> Job:
    """Flows between 648 servers."""
    options = pairs({"duration_ms": str(ms)})
    return Job("racks", workload, "opera-648", technique, (), options)


#: Plays a job in a process of its own: CPU seconds with preparing, megabytes with Python.
LARGE = """
import json, resource, sys
from halfwink import _core
from halfwink.jobs import Job
name, technique, options = json.loads(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
job = Job("racks", name, "opera-648", technique, (), tuple(map(tuple, options)))
job.prepare().run(_core.RunControl())
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime - before, used.ru_maxrss / 1024)
"""


def large(peers: Peers) -> list[Row]:
    """648 servers, ten seconds of 1 % load: time and memory."""
    name = str(peers.flows or "data-mining@1")
    rows: list[Row] = []
    for technique in ("opera", "rotor", "packet-switch"):
        told = json.dumps([name, technique, [["duration_ms", "10000"]]])
        done = subprocess.run(
            [sys.executable, "-c", LARGE, told], capture_output=True, text=True, check=True
        )
        seconds, megabytes = map(float, done.stdout.split())
        what = f"648 servers, 10 s, {technique}"
        rows.append(limit(what, seconds, "s", "limit", LARGE_GOAL_S))
        rows.append(limit(what, megabytes, "MB", "limit", LARGE_GOAL_MB))
    return rows


def weeks() -> list[Row]:
    """The demand of 64 hosts into a week of circuits."""
    command = ["cargo", "bench", "--locked", "--quiet", "-p", "halfwink-policy", "--bench", "weeks"]
    done = subprocess.run(command, cwd=root(), capture_output=True, text=True, check=True)
    rows: list[Row] = []
    for line in done.stdout.splitlines():
        found = json.loads(line)
        what = f"{found['plan']}, {found['demand']}, {found['week_ms']} ms"
        rows.append(limit(what, found["ms"], "ms", "goal", WEEK_GOAL_MS))
    return rows


def sections(peers: Peers) -> list[tuple[str, Callable[[], list[Row]]]]:
    """All that is measured, by title."""
    return [
        ("Packets of 23 hosts in turns (user CPU time)", lambda: packets(peers)),
        ("Flows through a fat tree of 128 (user CPU time)", lambda: trees(peers)),
        ("Host time of circuits follows activity", activity),
        ("Racks of 648 servers (user CPU time, peak memory)", lambda: large(peers)),
        ("Weeks of circuits for 64 hosts", weeks),
    ]


def show(rows: Sequence[Row]) -> None:
    """A line for each."""
    for r in rows:
        measured = f"{r.measured:>9.3g} {r.unit:<12}"
        print(f"  {r.what:<31} {measured} {r.ratio:>7.3g} x  {r.against} ({r.reference:.3g})")


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    known = Peers.of_environment()
    parser.add_argument("--ns3", default=known.ns3, help="a Python that has ns-3 (this one)")
    parser.add_argument("--htsim", type=Path, default=known.htsim, help=f"clone of {htsim.WHERE}")
    parser.add_argument("--flows", type=Path, default=known.flows, help="flows of 648 servers")
    parser.add_argument("--json", type=Path, help="file for all results")
    told = parser.parse_args()
    peers, found = Peers(told.ns3, told.htsim, told.flows), dict[str, list[Row]]()
    try:
        for title, work in sections(peers):
            print(title, flush=True)
            found[title] = work()
            show(found[title])
    except HalfwinkError as error:
        print(f"fabric: {error}", file=sys.stderr)
        return 2
    if told.json:
        document = {title: [asdict(row) for row in rows] for title, rows in found.items()}
        told.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
