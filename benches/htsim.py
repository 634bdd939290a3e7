"""csg-htsim, built out of a clone: flows of our files through its NDP on a fat tree."""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import peers
from halfwink import programs
from halfwink.errors import HalfwinkError

WHERE = "https://github.com/Broadcom/csg-htsim"
#: What this was written for; later ones may do as well.
COMMIT = "841d9e7be46bb968eece766aa4b6c044c7799f67"
#: Of a full packet.
PACKET_BYTES = 1500
#: Simulated beyond the last begin of a flow; nothing ends earlier.
AFTER_US = 50_000


@dataclass(frozen=True)
class Flow:
    """From one server to another, when."""

    source: int
    destination: int
    bytes: int
    begin_ns: int


@dataclass(frozen=True)
class Run:
    """What came of it: packets that were new, and of each flow that ended its microseconds."""

    packets: int
    times_us: list[float]
    user_s: float


def build(clone: Path, out: Path) -> Path:
    """NDP over fat trees, compiled as its Makefile has it.

    Args:
        clone: a clone with that commit, bare or not; its largest files may be absent.
        out: where to build; what is there already is used.

    Raises:
        HalfwinkError: it is none, or it does not compile.
    """
    source = (out / COMMIT[:12]).resolve()
    binary = source / "sim" / "datacenter" / "htsim_ndp"
    if binary.exists():
        return binary
    missing = programs.find("g++")
    if missing.path is None:
        raise HalfwinkError(missing.missing)
    done = subprocess.run(
        ["git", "-C", clone, "archive", COMMIT, "sim"], capture_output=True, check=False
    )
    if done.returncode:
        why = (done.stderr.decode().strip().splitlines() or ["no git repository"])[0]
        raise HalfwinkError(f"--htsim {clone}: {why}; expected a clone of {WHERE}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(source, filter="data")
    for folder, target in ((source / "sim", "libhtsim.a"), (binary.parent, "htsim_ndp")):
        done = subprocess.run(
            ["make", "-j2", target], cwd=folder, capture_output=True, text=True, check=False
        )
        if done.returncode:
            log = source / "build.log"
            log.write_text(done.stdout + done.stderr)
            raise HalfwinkError(f"htsim does not build: {log}")
    return binary


def play(binary: Path, folder: Path, servers: int, gbps: float, flows: Sequence[Flow]) -> Run:
    """Plays flows over a fat tree of full bisection, packets sprayed over all paths.

    Args:
        binary: of :func:`build`.
        folder: for its files, an absolute path.
        servers: as many as a fat tree can have (128: switches of 8 ports).
        gbps: of every link.
        flows: in any order.

    Raises:
        HalfwinkError: it fails.
    """
    lines = [f"Nodes {servers}", f"Connections {len(flows)}"]
    for number, flow in enumerate(flows, start=1):
        ends, begin_ps = f"{flow.source}->{flow.destination}", flow.begin_ns * 1000
        lines.append(f"{ends} id {number} start {begin_ps} size {flow.bytes}")
    matrix = folder / "flows.cm"
    matrix.write_text("\n".join(lines) + "\n")
    end_us = max(flow.begin_ns for flow in flows) // 1000 + AFTER_US
    words = ["-nodes", servers, "-tm", matrix, "-strat", "ecmp_host", "-paths", 64]
    words += ["-linkspeed", int(gbps * 1e3), "-mtu", PACKET_BYTES, "-end", end_us, "-cwnd", 20]
    words += ["-q", 8, "-hop_latency", 0.5, "-o", folder / "log.dat"]
    # It leaves a file wherever it runs.
    user_s, text = peers.user_seconds([str(word) for word in (binary, *words)], folder)
    sent = re.search(r"New: (\d+)", text)
    if sent is None:
        raise HalfwinkError(f"htsim: {text.strip().splitlines()[-1:]}")
    ended = re.findall(r"flow_id (\d+) finished at (\S+)", text)
    times = [float(at) - flows[int(n) - 1].begin_ns / 1e3 for n, at in ended]
    return Run(int(sent[1]), times, user_s)
