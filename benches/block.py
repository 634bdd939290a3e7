"""A block device over NBD beside nbdkit and qemu-nbd, by fio, in one interleaved run.

    benches/block.py [--quick] [--seconds 3] [--repeats 5] [--json] [--policy single-thread]
    benches/block.py --model [--quick]             # one and two workers, live beside simulated
    benches/block.py --files [--quick] [--json]    # a file by calls, by io_uring, past the cache

Each holds 256 MB in memory behind a unix socket; fio reads 4 KiB at random. For each repeat and
depth every server has its turn. CPU time is the server process's own, user and system. Ratios are
of medians.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from halfwink import programs
from halfwink.live import block_advice, block_loads
from halfwink.live.block import Block, Device
from halfwink.runs.comparison import compare

TICKS = os.sysconf("SC_CLK_TCK")
SIZE = "256M"
DEPTHS = (1, 32)
#: A socket, and the process behind it.
Server = tuple[Path, int]
#: In the table, with the word for what is measured.
NAMES = ("halfwink", "nbdkit", "qemu-nbd")


@dataclass(frozen=True)
class Shot:
    """One run of fio."""

    iops: float
    p50_us: float
    p99_us: float
    cpu_us: float


def cpu_s(pid: int) -> float:
    """Processor time of a process, threads that have ended included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def found(name: str) -> str:
    program = programs.find(name)
    if program.path is None:
        raise SystemExit(program.missing)
    return program.path


@contextmanager
def peer(words: list[str], socket: Path) -> Generator[int]:
    process = subprocess.Popen(words)
    try:
        end = time.monotonic() + 20
        while not socket.exists():
            if process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"{words[0]} does not begin")
            time.sleep(0.01)
        yield process.pid
    finally:
        process.terminate()
        process.wait(20)


def shot(socket: Path, pid: int, depth: int, seconds: int, out: Path) -> Shot:
    words = [found("fio"), "--name=read", "--ioengine=nbd", "--rw=randread", "--bs=4k"]
    words += [f"--uri=nbd+unix:///?socket={socket}", f"--iodepth={depth}", f"--size={SIZE}"]
    words += ["--time_based", f"--runtime={seconds}", "--output-format=json", f"--output={out}"]
    before = cpu_s(pid)
    # It prints a line of its own before the document: hence a file.
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    spent = cpu_s(pid) - before
    read = json.loads(out.read_text())["jobs"][0]["read"]
    took = read["clat_ns"]["percentile"]
    p50, p99 = took["50.000000"] / 1e3, took["99.000000"] / 1e3
    return Shot(read["iops"], p50, p99, 1e6 * spent / read["total_ios"])


def measure(seconds: int, repeats: int, device: Device) -> dict[str, dict[int, Shot]]:
    """Medians of each server at each depth; ours has the policy and the rest of the device."""
    shots: dict[tuple[str, int], list[Shot]] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="halfwink-bench-")))
        sockets = {name: folder / name for name in NAMES}
        # Peers are not pinned either.
        own = Device(
            unix=sockets["halfwink"], ram=SIZE, policy=device.policy, rest=device.rest, pin=False
        )
        block = stack.enter_context(Block(own))
        kit = [found("nbdkit"), "-f", "-U", str(sockets["nbdkit"]), "memory", SIZE]
        # Memory of the kernel: a temporary file system if there is one.
        shared = Path("/dev/shm") if Path("/dev/shm").is_dir() else folder
        image = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=shared))) / "image"
        with image.open("wb") as file:
            file.truncate(256 << 20)
        qemu = [found("qemu-nbd"), "-f", "raw", "-t", "-e", "16", "-k", str(sockets["qemu-nbd"])]
        pids = {
            "halfwink": block.pid,
            "nbdkit": stack.enter_context(peer(kit, sockets["nbdkit"])),
            "qemu-nbd": stack.enter_context(peer([*qemu, str(image)], sockets["qemu-nbd"])),
        }
        for _ in range(repeats):
            for depth in DEPTHS:
                for name in NAMES:
                    one = shot(sockets[name], pids[name], depth, seconds, folder / "fio.json")
                    shots.setdefault((name, depth), []).append(one)
    names = Shot.__dataclass_fields__
    return {
        name: {
            depth: Shot(
                *(
                    statistics.median(getattr(s, field) for s in shots[name, depth])
                    for field in names
                )
            )
            for depth in DEPTHS
        }
        for name in NAMES
    }


def compared(seconds: int, repeats: int, names: list[str], rest: str) -> list[dict[str, object]]:
    """Our own policies beside each other: CPU per I/O, rates, and what stages take."""
    rows: list[dict[str, object]] = []
    for depth in DEPTHS:
        shots: dict[str, list[Shot]] = {name: [] for name in names}
        stages: dict[str, dict[str, float]] = {}
        for _ in range(repeats):
            for name in names:
                with tempfile.TemporaryDirectory(prefix="halfwink-bench-") as folder:
                    path = Path(folder) / "socket"
                    device = Device(unix=path, ram=SIZE, policy=name, rest=rest, pin=False)
                    with Block(device) as block:
                        out = Path(folder) / "fio.json"
                        shots[name].append(shot(path, block.pid, depth, seconds, out))
                        found = block.stop()["stages"]
                stages[name] = {stage: found[stage]["ns_per_io"] for stage in found}
        for name in names:
            fields = Shot.__dataclass_fields__
            middle = {f: statistics.median(getattr(s, f) for s in shots[name]) for f in fields}
            rows.append({"policy": name, "depth": depth, **middle, "stages_ns": stages[name]})
    return rows


#: Who serves a file how: in the cache, out of it at first, and past it.
FILE_CASES: dict[str, dict[str, Device | list[str]]] = {
    "cached": {
        "sync": Device(io="sync", pin=False),
        "uring": Device(io="uring", pin=False),
        "nbdkit": [],
        "qemu-nbd": ["--aio=io_uring", "--cache=writeback"],
    },
    "cold": {
        "sync": Device(io="sync", pin=False),
        "uring": Device(io="uring", pin=False),
        "nbdkit": [],
        "qemu-nbd": ["--aio=io_uring", "--cache=writeback"],
    },
    "past-cache": {
        "uring": Device(io="uring", direct=True, pin=False),
        "nbdkit": ["cache=none"],
        "qemu-nbd": ["--aio=io_uring", "--cache=none"],
    },
}


def file_server(stack: ExitStack, name: str, how: Device | list[str], image: Path) -> Server:
    """One that serves the image."""
    socket = image.parent / f"{image.name}-{name}"
    if isinstance(how, Device):
        block = stack.enter_context(Block(replace(how, unix=socket, file=image)))
        return socket, block.pid
    if name == "nbdkit":
        words = [found("nbdkit"), "-f", "-U", str(socket), "file", str(image), *how]
    else:
        words = [found("qemu-nbd"), "-f", "raw", "-t", "-e", "16", "-k", str(socket)]
        words += [*how, str(image)]
    return socket, stack.enter_context(peer(words, socket))


def forget(image: Path) -> None:
    """The kernel keeps nothing of a file in memory."""
    with image.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def files(seconds: int, repeats: int) -> list[dict[str, object]]:
    """A file served by calls, by io_uring and by peers, interleaved; medians."""
    rows: list[dict[str, object]] = []
    for case, servers in FILE_CASES.items():
        shots: dict[tuple[str, int], list[Shot]] = {}
        with ExitStack() as stack:
            # Not in a temporary file system: the page cache is what is looked at.
            made = tempfile.TemporaryDirectory(prefix="halfwink-bench-", dir="/var/tmp")
            folder = Path(stack.enter_context(made))
            image = folder / case
            with image.open("wb") as file:
                for _ in range(256):
                    file.write(os.urandom(1 << 20))
            forget(image)
            if case == "cached":
                image.read_bytes()
            at = {n: file_server(stack, n, how, image) for n, how in servers.items()}
            for _ in range(repeats):
                for depth in DEPTHS:
                    for name, (socket, pid) in at.items():
                        if case == "cold":
                            forget(image)
                        one = shot(socket, pid, depth, seconds, folder / "fio.json")
                        shots.setdefault((name, depth), []).append(one)
        fields = Shot.__dataclass_fields__
        for (name, depth), of in shots.items():
            middle = {f: statistics.median(getattr(s, f) for s in of) for f in fields}
            rows.append({"case": case, "server": name, "depth": depth, **middle})
    return rows


#: Who completes: who hears; a second interrupt there; two workers by turns.
WORKERS = ("single-thread", "same", "round-robin-socket")


def beside_model(seconds: int, repeats: int) -> list[dict[str, object]]:
    """Live and simulated, each as multiples of its own `single-thread`, whose CPU time for each I/O
    is what the simulated one is told of the live one, beside the line times; and the simulated one
    with one thing changed."""
    rows: list[dict[str, object]] = []
    told: tuple[float, float] | None = None
    for what, rest in (("live", "auto"), ("live, which does not gather", "own")):
        live, client_us = _workers(seconds, repeats, rest)
        told = told or (live["single-thread"]["cpu_us"], client_us)
        rows.append({"what": what, "client_us": client_us, **_multiples(live)})
    server_us, client_us = told or (0.0, 0.0)
    measured = block_advice.measure("0,1")
    values = block_loads.as_measured(measured, block_advice.Load(io_us=server_us))
    for what, (issuers, first, more) in _changes(client_us).items():
        played = _played(issuers, first, {**values, **more})
        rows.append({"what": f"simulated, {what}", **_multiples(played)})
    return rows


def _workers(seconds: int, repeats: int, rest: str) -> tuple[dict[str, dict[str, float]], float]:
    """Medians of each policy with two workers, and the client's CPU time for an I/O."""
    shots: dict[str, list[Shot]] = {}
    clients: list[float] = []
    for _ in range(repeats):
        for name in WORKERS:
            with tempfile.TemporaryDirectory(prefix="halfwink-bench-") as folder:
                path = Path(folder) / "socket"
                device = Device(unix=path, ram=SIZE, policy=name, rest=rest, cpus="0,1")
                with Block(device) as block:
                    before = _children_s()
                    one = shot(path, block.pid, 32, seconds, Path(folder) / "fio.json")
                    if name == "single-thread":
                        ios = one.iops * seconds
                        clients.append(1e6 * (_children_s() - before) / ios)
                shots.setdefault(name, []).append(one)
    fields = ("iops", "cpu_us")
    medians = {
        n: {f: statistics.median(getattr(s, f) for s in shots[n]) for f in fields} for n in shots
    }
    return medians, statistics.median(clients)


def _children_s() -> float:
    """Processor time of processes that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


#: Issuing CPUs, the first of them, and what is set.
Change = tuple[int, int, dict[str, Any]]


def _changes(client_us: float) -> dict[str, Change]:
    """Simulations: as at first, each with one thing changed, and with what moved anything."""
    client = {"block.direct_submit_us": client_us}
    batches = {"driver.batch": 32, "driver.coalesce": 32}
    # Second phases by interrupts, as in the described driver.
    interrupts = {"driver.ipi_send_us": 0.25, "driver.ipi_receive_us": 1.5}
    return {
        "the CPU that hears issues 32": (1, 0, interrupts),
        "both issue 16": (2, 0, interrupts),
        "the client's own time": (1, 0, {**interrupts, **client}),
        "I/Os in batches": (1, 0, {**interrupts, **batches}),
        "no table to share": (1, 0, {**interrupts, "driver.map.lines": 0}),
        "mailboxes for interrupts": (1, 0, {}),
        "the other CPU issues": (1, 1, interrupts),
        "the other CPU issues, client's time, mailboxes": (1, 1, client),
    }


def _played(issuers: int, first: int, values: dict[str, Any]) -> dict[str, dict[str, float]]:
    of: dict[str, list[dict[str, float]]] = {}
    for seed in (1, 2, 3):
        options = {"first_cpu": first, "depth": 32 // issuers, "ios": 50_000, "seed": seed}
        runs = compare(
            f"random-read@{issuers}",
            techniques=list(WORKERS),
            machine="westmere-ex",
            world="storage",
            set={**values, **options},
        ).runs
        for row in runs.to_dicts():
            found = {"iops": row["iops"], "cpu_us": row["driver_us_per_io"]}
            of.setdefault(row["technique"], []).append(found)
    return {n: {f: statistics.mean(r[f] for r in of[n]) for f in ("iops", "cpu_us")} for n in of}


def _multiples(of: dict[str, dict[str, float]]) -> dict[str, Any]:
    base = of["single-thread"]
    return {name: {f: of[name][f] / base[f] for f in base} | {"base": base} for name in of}


def ratios(shots: dict[str, dict[int, Shot]]) -> dict[str, float]:
    """Ours by nbdkit's, with the goals' names."""
    ours, kit = shots["halfwink"], shots["nbdkit"]
    return {
        "cpu_per_io_depth_32": ours[32].cpu_us / kit[32].cpu_us,
        "iops_depth_32": ours[32].iops / kit[32].iops,
        "p50_depth_1": ours[1].p50_us / kit[1].p50_us,
        "p50_depth_32": ours[32].p50_us / kit[32].p50_us,
    }


#: What is aimed at: at most, or at least, this much of nbdkit's.
GOALS = {"cpu_per_io_depth_32": 0.6, "iops_depth_32": 1.5, "p50_depth_1": 1.0}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="three turns of one second")
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--policy", default="single-thread")
    parser.add_argument("--rest", default="auto")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--policies", help="ours beside each other, separated by blanks")
    parser.add_argument("--files", action="store_true", help="a file, by calls and by io_uring")
    parser.add_argument("--model", action="store_true", help="workers, live beside simulated")
    given = parser.parse_args()
    seconds, repeats = (1, 3) if given.quick else (given.seconds, given.repeats)
    if given.model:
        json.dump(beside_model(seconds, repeats), sys.stdout, indent=2)
        print()
        return 0
    if given.files:
        rows = files(seconds, repeats)
        if given.json:
            json.dump(rows, sys.stdout, indent=2)
            print()
            return 0
        print(f"{'':12}{'':10}{'depth':>6}{'IOPS':>10}{'p50 us':>9}{'p99 us':>9}{'CPU us/IO':>11}")
        for row in rows:
            figures = f"{row['iops']:10,.0f}{row['p50_us']:9.1f}{row['p99_us']:9.1f}"
            print(
                f"{row['case']:12}{row['server']:10}{row['depth']:6}{figures}{row['cpu_us']:11.2f}"
            )
        return 0
    if given.policies:
        rows = compared(seconds, repeats, given.policies.split(), given.rest)
        json.dump(rows, sys.stdout, indent=2)
        print()
        return 0
    shots = measure(seconds, repeats, Device(policy=given.policy, rest=given.rest))
    found_ratios = ratios(shots)
    if given.json:
        document = {
            "servers": {n: {str(d): asdict(s) for d, s in by.items()} for n, by in shots.items()},
            "ratios": found_ratios,
            "goals": GOALS,
        }
        json.dump(document, sys.stdout, indent=2)
        print()
        return 0
    print(f"{'':10}{'depth':>6}{'IOPS':>10}{'p50 us':>9}{'p99 us':>9}{'CPU us/IO':>11}")
    for depth in DEPTHS:
        for name in NAMES:
            s = shots[name][depth]
            figures = f"{s.iops:10,.0f}{s.p50_us:9.1f}{s.p99_us:9.1f}{s.cpu_us:11.2f}"
            print(f"{name:10}{depth:6}{figures}")
    for name, ratio in found_ratios.items():
        goal = f"   goal {GOALS[name]:g}" if name in GOALS else ""
        print(f"{name:22} {ratio:5.2f} of nbdkit's{goal}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
