"""Preheating for unmodified servers on this machine.

from halfwink.live import preheat as live_preheat

found = live_preheat.self_test("nginx", rounds=400)
found["tables"][0]["classes"]
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from halfwink import installed, programs
from halfwink.errors import HalfwinkError
from halfwink.live import native

#: Leads of the deadline curve, in microseconds.
LEADS_US = (0.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 50.0, 100.0, 200.0, 500.0)
#: From preparing the machine to the request, in microseconds (Gottschlag 2016, Sec 5.1).
LEAD_US = 500.0
#: Requests that must have used a line.
REQUESTS = 3
#: Pairs of servers that are started to compare them: the true median is between the least and the
#: most of 8 with 1 - 2 / 2**8.
STARTS = 8
#: How long a server may take to answer for the first time.
START_S = 60.0


def preload_library() -> Path:
    """The library that a server is made to load.

    Raises:
        HalfwinkError: the library has not been built.
    """
    return installed.preload_library("libhalfwink_preheat_preload.so")


def environment(shared: Path) -> dict[str, str]:
    """Returns the environment in which a server reports in ``shared``."""
    before = os.environ.get("LD_PRELOAD")
    library = str(preload_library())
    preload = f"{library}:{before}" if before else library
    return {"LD_PRELOAD": preload, native.PREHEAT_VARIABLE: str(shared)}


@dataclass(frozen=True)
class Running:
    """A server that answers.

    Attributes:
        process: process of the server.
        address: address that it listens on.
        pid: the process that answers; 0 for the one that says so when greeted.
    """

    process: subprocess.Popen[bytes]
    address: str
    pid: int


@dataclass(frozen=True)
class Server:
    """Start of a server for a measurement, and the requests that it gets.

    Attributes:
        program: name of the program in ``halfwink.programs``.
        greeting: sent once on each connection.
        request: sent to be measured; without effects, its answer always as long.
        command: command line, from a folder and a port, after writing the files that it needs
            there.
        user: user that it runs as; the present one by default.
        pid: number of the process that answers, from the started one.
    """

    program: str
    greeting: bytes
    request: bytes
    command: Callable[[Path, int], list[str]]
    user: str | None = None
    pid: Callable[[int], int] = lambda pid: pid


def _nginx(folder: Path, port: int) -> list[str]:
    site = folder / "site"
    site.mkdir()
    (site / "index.html").write_text("<p>" + "forty winks " * 50 + "</p>\n")
    temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    paths = "".join(f"{name}_temp_path {folder}/{name};" for name in temporary)
    conf = folder / "nginx.conf"
    conf.write_text(
        f"daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/errors;\n"
        "events { worker_connections 64; }\n"
        "http { access_log off; keepalive_requests 1000000000; keepalive_timeout 1h;"
        f" {paths} server {{ listen 127.0.0.1:{port}; root {site}; }} }}\n"
    )
    return ["-c", str(conf), "-p", str(folder)]


def _memcached(folder: Path, port: int) -> list[str]:
    user = ["-u", "nobody"] if os.geteuid() == 0 else []
    return ["-l", "127.0.0.1", "-p", str(port), "-U", "0", "-t", "1", *user]


def _postgres(folder: Path, port: int) -> list[str]:
    initdb = programs.find("initdb")
    if initdb.path is None:
        raise HalfwinkError(initdb.missing)
    data = folder / "data"
    user = "postgres" if os.geteuid() == 0 else None
    if user:
        shutil.chown(folder, user)
    words = [initdb.path, "-D", str(data), "-U", "postgres", "-A", "trust", "--no-sync"]
    done = subprocess.run(words, cwd=folder, user=user, capture_output=True, check=False)
    if done.returncode:
        raise HalfwinkError(f"initdb: {done.stderr.decode(errors='replace').strip()[-200:]}")
    settings = {
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": "",
        "shared_buffers": "16MB",
        "fsync": "off",
        "autovacuum": "off",
    }
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    return ["-D", str(data), "-p", str(port), *options]


def _startup() -> bytes:
    words = b"user\0postgres\0database\0postgres\0\0"
    return struct.pack("!II", len(words) + 8, 3 << 16) + words


def _query(text: bytes) -> bytes:
    return b"Q" + struct.pack("!I", len(text) + 5) + text + b"\0"


def _child(pid: int) -> int:
    """The only child of a process."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(children[0])


SERVERS = {
    "nginx": Server("nginx", b"", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", _nginx, pid=_child),
    "memcached": Server(
        "memcached",
        b"set forty 0 0 500\r\n" + b"w" * 500 + b"\r\n",
        b"get forty\r\n",
        _memcached,
    ),
    "postgres": Server(
        "postgres",
        _startup(),
        _query(b"select relname, relkind from pg_class where oid = 1259"),
        _postgres,
        "postgres",
        lambda pid: 0,
    ),
}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def cpus() -> tuple[int, int]:
    """CPUs for a server and for its client.

    Raises:
        HalfwinkError: fewer than two CPUs are allowed.
    """
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        raise HalfwinkError(
            f"measuring needs two CPUs; this process may use {len(allowed)} (see taskset -p $$)"
        )
    return allowed[0], allowed[-1]


@contextmanager
def serving(
    name: str, folder: Path, cpu: int, extra: dict[str, str]
) -> Generator[Running, None, None]:
    """Starts a server of our own in a folder, on one CPU, and ends it.

    Raises:
        HalfwinkError: there is no such server, or it does not answer.
    """
    server = SERVERS[name]
    program = programs.find(server.program)
    path = program.path
    if path is None:
        raise HalfwinkError(program.missing)
    folder.mkdir(mode=0o755)
    port = _free_port()
    command = [path, *server.command(folder, port)]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=os.environ | extra,
        user=server.user if os.geteuid() == 0 else None,
        preexec_fn=lambda: os.sched_setaffinity(0, {cpu}),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _until_it_listens(name, process, port)
        yield Running(process, f"127.0.0.1:{port}", server.pid(process.pid))
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _until_it_listens(name: str, process: subprocess.Popen[bytes], port: int) -> None:
    until = time.monotonic() + START_S
    while True:
        if process.poll() is not None:
            raise HalfwinkError(f"{name} ended with status {process.returncode}")
        try:
            with socket.create_connection(("127.0.0.1", port), 1):
                break
        except OSError as error:
            if time.monotonic() > until:
                raise HalfwinkError(f"{name} does not listen within {START_S:.0f} s") from error
            time.sleep(0.05)
    # What listens may not serve yet (processes that are forked after that).
    time.sleep(0.3)


@contextmanager
def shared_file(*, measures: bool = False) -> Generator[Path, None, None]:
    """A file in which servers report, in a folder that any server of ours may enter.

    Args:
        measures: caches may be flushed through it.
    """
    with tempfile.TemporaryDirectory(prefix="halfwink-preheat-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        path = folder / "shared"
        native.preheat_share(str(path), measures)
        path.chmod(0o666)
        yield path


def self_test(
    name: str,
    *,
    rounds: int = 400,
    cold: Sequence[str] | None = None,
    deadline: bool = False,
    beside: bool = False,
    set_out: Path | None = None,
) -> dict[str, Any]:
    """Starts a server, learns its set, and measures warm, cold, preheated and sham requests.

    Args:
        name: one of ``SERVERS``.
        rounds: requests of each class, for each kind of cold.
        cold: kinds, of ``native.PREHEAT_COLD``; all by default.
        deadline: also with leads of ``LEADS_US``, a quarter of the rounds each.
        beside: also what the preload library costs (see :func:`without_library`).
        set_out: file for the set.

    Returns:
        Tables, rates and counts; times in microseconds unless their names say otherwise.

    Raises:
        HalfwinkError: the machine does not allow it, or the server cannot be started.
    """
    with _alone(name) as (server, running, shared, two):
        harness = native.PreheatHarness(
            str(shared), running.address, server.greeting, server.request, running.pid, two
        )
        found: dict[str, Any] = {"server": name, "rounds": rounds, "lead_us": LEAD_US}
        found["learned"] = harness.learn(REQUESTS)
        if set_out is not None:
            harness.write_set(str(set_out))
        found["rates_ns_per_line"] = harness.rates()
        harness.announce()
        found["announcement_to_first_load_us"] = harness.latency(min(rounds, 300))
        kinds = native.PREHEAT_COLD if cold is None else cold
        found["tables"] = [harness.measure(kind, rounds, LEAD_US) for kind in kinds]
        if deadline:
            found["deadline"] = [
                {"lead_us": lead} | harness.measure(kinds[0], max(rounds // 4, 50), lead)
                for lead in LEADS_US
            ]
        found["counts"] = harness.counts()
    if beside:
        found["beside"] = without_library(name)
    return found


def without_library(name: str, *, starts: int = STARTS, rounds: int = 1000) -> dict[str, Any]:
    """Compares a server with the preload library, but without announcements, with one that has no
    library, and for comparison two without: warm requests, by turns.

    Two starts of one program differ, by where the kernel puts their memory: what a start gives is
    one measurement, and there are several.

    Args:
        name: one of ``SERVERS``.
        starts: number of starts of each pair of servers.
        rounds: pairs of requests of each start.

    Returns:
        Measured ``ratios`` for ``library`` and ``none``, one of each start, their ``median`` and
        the range from ``low`` to ``high`` that holds the true one (with 8 starts, with 99 %); and
        how often threads of the library woke.

    Raises:
        HalfwinkError: the machine does not allow it, or the server cannot be started.
    """
    server = _known(name)
    pair = cpus()
    found: dict[str, Any] = {}
    wakes = 0
    ratios: dict[str, list[float]] = {"library": [], "none": []}
    for start in range(2 * starts):
        # In turn: what else the machine does comes to both alike.
        kind = ("library", "none")[start % 2]
        with ExitStack() as stack:
            shared = stack.enter_context(shared_file())
            extra = environment(shared) if kind == "library" else {}
            # Either is the first to be started as often.
            folders = ["here", "there"][:: 1 if start // 2 % 2 else -1]
            running = {
                folder: stack.enter_context(
                    serving(
                        name, shared.parent / folder, pair[0], extra if folder == "here" else {}
                    )
                )
                for folder in folders
            }
            here, there = running["here"], running["there"]
            stack.callback(os.sched_setaffinity, 0, os.sched_getaffinity(0))
            stack.callback(_ordinary)
            beside = native.preheat_beside(
                str(shared),
                ((here.address, here.pid), (there.address, there.pid)),
                server.greeting,
                server.request,
                pair,
                rounds,
            )
        ratios[kind].append(beside["ratio"]["value"])
        wakes += beside["wakes"]
    for kind, all_ratios in ratios.items():
        found[kind] = {
            "ratios": all_ratios,
            "median": statistics.median(all_ratios),
            "low": min(all_ratios),
            "high": max(all_ratios),
        }
    return found | {"starts": starts, "rounds": rounds, "wakes": wakes}


def pages_self_test(
    name: str,
    *,
    rounds: int = 200,
    drops: Sequence[str] | None = None,
    set_out: Path | None = None,
) -> dict[str, Any]:
    """Starts a server, drops its pages, records a request's, and measures what putting them back
    before the next one is worth (after REAP: Ustiugov 2021).

    Args:
        name: one of ``SERVERS``.
        rounds: requests of each class, for each kind of drop.
        drops: kinds, of ``native.PREHEAT_DROPS``; all by default.
        set_out: file for the set of pages.

    Returns:
        Numbers of dropped and recorded pages; tables, in microseconds.

    Raises:
        HalfwinkError: the machine does not allow it, or the server cannot be started.
    """
    with _alone(name) as (server, running, shared, two):
        pages = native.PreheatPages(
            str(shared),
            running.address,
            server.greeting,
            server.request,
            running.pid,
            two,
            str(shared.parent),
        )
        found: dict[str, Any] = {"server": name, "rounds": rounds, "lead_us": LEAD_US}
        found["recorded"] = pages.record()
        if set_out is not None:
            pages.write_set(str(set_out))
        kinds = native.PREHEAT_DROPS if drops is None else drops
        found["tables"] = [pages.measure(kind, rounds, LEAD_US) for kind in kinds]
        found["loads"] = pages.loads()
        return found


@contextmanager
def _alone(name: str) -> Generator[tuple[Server, Running, Path, tuple[int, int]], None, None]:
    """A server of our own on one CPU, for a client on another: what it serves, its process, the
    file in which it reports, both CPUs. What measuring changes of the calling thread is undone.
    """
    server, two = _known(name), cpus()
    own = os.sched_getaffinity(0)
    with shared_file(measures=True) as shared:
        folder = shared.parent / "server"
        with serving(name, folder, two[0], environment(shared)) as running:
            try:
                yield server, running, shared, two
            finally:
                _ordinary()
                os.sched_setaffinity(0, own)


def _known(name: str) -> Server:
    if name not in SERVERS:
        known = ", ".join(SERVERS)
        raise HalfwinkError(f"--server {name}: expected one of {known}")
    return SERVERS[name]


def _ordinary() -> None:
    """The calling thread, which ran before all others while it measured, does so no more."""
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
