"""Routers for the bed: the kernel, a small XDP program, DPDK's testpmd, and halfwink's own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from halfwink.bed import small_xdp
from halfwink.bed.live import Live, description
from halfwink.bed.places import Process
from halfwink.bed.topology import GENERATOR_PORT, ROUTER_PORTS, SINK_PORT, Bed
from halfwink.errors import HalfwinkError, RunError
from halfwink.programs import find

#: Longest until a router forwards.
READY_S = 120.0
#: Memory of testpmd, in MiB, and its packet buffers.
DPDK_MIB, DPDK_BUFFERS = 192, 16_384
DPDK_WORDS = ("--no-huge", "-m", str(DPDK_MIB), "--no-pci", "--no-shconf", "--no-telemetry")
#: Where Debian's dpdk-doc has the source of l3fwd-power, and the network that it sends to port 1.
L3FWD_SOURCE = Path("/usr/share/dpdk/examples/l3fwd-power")
L3FWD_TO = "2.1.1.0/24"


@dataclass
class Router:
    """A router that forwards.

    Attributes:
        processes: processes of the router; none if the kernel itself forwards.
        printed: final output of the router: halfwink's report as JSON, DPDK's text.
    """

    processes: list[Process] = field(default_factory=list[Process])
    printed: str = ""


@dataclass(frozen=True)
class Kind:
    """A kind of router.

    Attributes:
        name: one of `KINDS`; ``none`` is the generator straight to the sink.
        cpus: CPUs on which it may run (default: all).
        policy: policy of halfwink's router.
        workers: worker threads of halfwink's (default: 2), forwarding threads of testpmd (1).
        description: description of halfwink's router, as TOML, instead of one made of the above.
    """

    name: str
    cpus: tuple[int, ...] = ()
    policy: str = "power-save-in-order"
    workers: int = 0
    description: str = ""

    def missing(self) -> str:
        """Returns the reason why it cannot run here, with the remedy; empty if it can."""
        if self.name not in KINDS:
            return f"{self.name}: expected one of {', '.join(KINDS)}"
        wanted = map(find, self.programs)
        return next((program.missing for program in wanted if program.path is None), "")

    @property
    def programs(self) -> tuple[str, ...]:
        """Optional programs that it needs beside the bed's."""
        if self.name.startswith("l3fwd-power"):
            # Its drivers come with testpmd.
            return ("l3fwd-power", "dpdk-testpmd")
        if self.name == "xdp":
            return ("clang",)
        return ("dpdk-testpmd",) if self.name.startswith("testpmd") else ()

    def bed(self, **options: Any) -> Bed:
        """A bed for it."""
        threaded = self.name == "kernel-threaded"
        if self.name == "none":
            return Bed(direct=True, **options)
        if self.name in ("xdp", "halfwink-xdp"):
            return Bed(peers_gro=True, **options)
        return Bed(gro=threaded, threaded_napi=threaded, **options)

    @property
    def to(self) -> str:
        """Destinations that it must be given; empty if any will do."""
        return L3FWD_TO if self.name.startswith("l3fwd-power") else ""

    @contextmanager
    def begin(self, bed: Bed) -> Generator[Router]:
        """Makes it forward in a bed, and ends it."""
        if self.name in ("none", "kernel", "kernel-threaded", "xdp"):
            if self.name != "none":
                bed.forward()
            if self.name == "kernel-threaded" and self.cpus:
                _pin_napi(self.cpus)
            with small_xdp.attached(bed) if self.name == "xdp" else nullcontext():
                _wait_until_it_forwards(bed, self, None)
                yield Router()
        elif self.name.startswith(("testpmd", "l3fwd-power")):
            with _dpdk(bed, self) as router:
                yield router
        else:
            with _halfwink(bed, self) as router:
                yield router


#: All kinds.
KINDS = (
    "none",
    "kernel",
    "kernel-threaded",
    "xdp",
    "testpmd-af-packet",
    "testpmd-af-xdp",
    "l3fwd-power-af-packet",
    "l3fwd-power-af-xdp",
    "halfwink-af-packet",
    "halfwink-af-xdp",
    "halfwink-xdp",
    "halfwink-rps",
)


def l3fwd_power() -> Path:
    """DPDK's l3fwd-power, built from Debian's source the first time (seconds).

    Raises:
        RunError: the build has failed.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "halfwink" / "l3fwd-power"
    built = folder / "build" / "l3fwd-power"
    if not built.exists():
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(L3FWD_SOURCE, folder)
        done = subprocess.run(
            ["make", "-C", str(folder)], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise RunError(
                f"l3fwd-power: {(done.stderr.strip().splitlines() or ['make failed'])[-1]}"
            )
    return built


def _wait_until_it_forwards(bed: Bed, kind: Kind, process: Process | None) -> None:
    """Sends a few frames until some arrive."""
    options: dict[str, Any] = {"macs": [next_mac(bed)]}
    if kind.to:
        options["to"] = [kind.to]
    end = time.monotonic() + READY_S
    while time.monotonic() < end:
        if bed.trial(pps=1000, seconds=0.02, drain_s=0.05, **options)["received"]:
            return
        if process is not None and process.popen.poll() is not None:
            break
        time.sleep(0.1)
    raise RunError("the router forwards nothing")


def next_mac(bed: Bed) -> str:
    """MAC address that the generator sends to."""
    if bed.direct:
        return bed.mac(bed.sink, SINK_PORT)
    return bed.mac(bed.router, ROUTER_PORTS[0])


def _pin_napi(cpus: Collection[int]) -> None:
    """Keeps the ports' NAPI threads, which are the kernel's, to these CPUs."""
    for pid in kernel_threads("napi/rt"):
        os.sched_setaffinity(pid, cpus)


def kernel_threads(prefix: str) -> list[int]:
    """Numbers of the kernel's threads with such names."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "comm").read_text().startswith(prefix):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def _dpdk_words(bed: Bed, kind: Kind) -> list[str]:
    """The command line of one of DPDK's programs."""
    if kind.name.endswith("af-xdp"):
        devices = [
            f"--vdev=net_af_xdp{n},iface={port},start_queue=0,queue_count={bed.queues}"
            for n, port in enumerate(ROUTER_PORTS)
        ]
    else:
        # A ring of 4,096 frames of up to 2 KiB.
        ring = "blocksz=65536,framesz=2048,framecnt=4096"
        devices = [
            f"--vdev=eth_af_packet{n},iface={port},{ring},qpairs={bed.queues}"
            for n, port in enumerate(ROUTER_PORTS)
        ]
    if kind.name.startswith("l3fwd-power"):
        # One thread for both ports and all queues: the waiting of an idle first one would count.
        cpu = max(kind.cpus or os.sched_getaffinity(0))
        config = ",".join(f"({port},{q},0)" for port in (0, 1) for q in range(bed.queues))
        return [
            *(str(l3fwd_power()), *DPDK_WORDS, f"--lcores=0@{cpu}", *devices, "--"),
            *("-p", "0x3", "-P", "--parse-ptype", f"--config={config}", "--pmd-mgmt=pause"),
        ]
    peers = [bed.mac(bed.generator, GENERATOR_PORT), bed.mac(bed.sink, SINK_PORT)]
    cpus = sorted(kind.cpus or os.sched_getaffinity(0))
    # The first thread only waits for commands: it may share a CPU with the second.
    workers = cpus[-min(kind.workers or 1, len(cpus)) :]
    threads = f"0@{cpus[0]}," + ",".join(f"{n + 1}@{cpu}" for n, cpu in enumerate(workers))
    return [
        *("dpdk-testpmd", *DPDK_WORDS, f"--lcores={threads}", "--main-lcore=0", *devices, "--"),
        *("--forward-mode=mac", "--port-topology=paired", "--auto-start", "--stats-period=0"),
        *(f"--eth-peer={n},{mac}" for n, mac in enumerate(peers)),
        *(f"--nb-cores={len(workers)}", f"--rxq={bed.queues}", f"--txq={bed.queues}"),
        *(f"--total-num-mbufs={DPDK_BUFFERS}", "--rxd=1024", "--txd=1024"),
    ]


@contextmanager
def _dpdk(bed: Bed, kind: Kind) -> Generator[Router]:
    with tempfile.TemporaryFile("w+") as log:
        process = bed.router.start(
            _dpdk_words(bed, kind), stdin=subprocess.PIPE, stdout=log, stderr=log
        )
        try:
            try:
                _wait_until_it_forwards(bed, kind, process)
            except RunError as error:
                log.seek(0)
                causes = [line for line in log if "Cause" in line or "rror" in line]
                raise RunError(f"{kind.name}: {error}: {' '.join(causes[-2:])}") from None
            router = Router([process])
            yield router
        finally:
            # testpmd waits for a key; the end of its input is one.
            if process.popen.stdin is not None:
                process.popen.stdin.close()
            process.stop(5)
        log.seek(0)
        router.printed = log.read()


@contextmanager
def _halfwink(bed: Bed, kind: Kind) -> Generator[Router]:
    way = kind.name.removeprefix("halfwink-")
    # In the kernel the first core is the CPU that frames come on, which is the generator's.
    cpus = sorted(os.sched_getaffinity(0))
    in_kernel = way in ("xdp", "rps")
    own: dict[str, Any] = {"forward": way, "cpus": cpus} if in_kernel else {"io": way}
    workers = kind.workers or 2
    text = kind.description or description(policy=kind.policy, workers=workers, **own)
    with Live(bed, text, cpus=() if in_kernel else kind.cpus) as live:
        _wait_until_it_forwards(bed, kind, live.process)
        router = Router([live.process])
        yield router
        router.printed = json.dumps(live.result())


def parse_kinds(names: Sequence[str]) -> list[Kind]:
    """Kinds by name.

    Raises:
        HalfwinkError: there is no such kind.
    """
    for name in names:
        if name not in KINDS:
            raise HalfwinkError(f"{name}: expected some of {', '.join(KINDS)}")
    return [Kind(name) for name in names]
