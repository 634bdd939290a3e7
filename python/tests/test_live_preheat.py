"""Preheating of real servers: what it is worth, and that nothing it is told brings them down."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from conftest import Halfwink, need, need_preheating, undisturbed, wait_until

from halfwink import RunError, programs
from halfwink.errors import HalfwinkError
from halfwink.live import native
from halfwink.live import preheat as live_preheat

COMMAND = [sys.executable, "-m", "halfwink", "live", "preheat"]
KEY = b"of a test, alone"
CLASSES = ["warm", "cold", "preheated", "sham"]


@pytest.fixture(autouse=True)
def _can_preheat() -> None:
    need_preheating()


def disorder(found: dict[str, Any]) -> str | None:
    """What is not as it should be about the learned set and the measured classes, if anything."""
    kinds = {kind["name"]: kind for kind in found["learned"]["kinds"]}
    if not all(kinds[name]["kept"] > 50 for name in ("kernel", "files", "memory")):
        return f"hardly any lines: {kinds}"
    for table in found["tables"]:
        p50 = {row["class"]: row["p50"]["value"] for row in table["classes"]}
        assert list(p50) == CLASSES
        if p50["warm"] >= p50["cold"]:
            return f"not warm < cold: {table}"
        # Of the second cache alone little is to be gained, and a busy machine hides it.
        if table["cold"] == "L2-cold":
            continue
        if not p50["warm"] < p50["preheated"] < p50["cold"]:
            return f"not warm < preheated < cold: {table}"
        if max(table["p_warm_preheated"], table["p_preheated_cold"]) >= 0.01:
            return f"p of 0.01 or more: {table}"
    ratio = found["rates_ns_per_line"]["ratio"]
    return f"lines take {ratio} times what they can" if ratio >= 3 else None


@pytest.mark.full("preheat")
@pytest.mark.parametrize("server", list(live_preheat.SERVERS))
def test_what_it_is_worth(server: str) -> None:
    need(live_preheat.SERVERS[server].program, *(["initdb"] if server == "postgres" else []))

    def trial() -> dict[str, Any]:
        found = live_preheat.self_test(server, rounds=150)
        assert [table["cold"] for table in found["tables"]] == native.PREHEAT_COLD
        kinds = found["learned"]["kinds"]
        assert all(kind["kept"] <= kind["common"] <= kind["first"] for kind in kinds)
        assert found["counts"]["heard"] >= 3 * 150
        assert found["counts"]["failed"] == 0
        return found

    undisturbed(trial, disorder, alone=True)


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file with the set of nginx, learned once for all tests."""
    need("nginx")
    lines = tmp_path_factory.mktemp("learned") / "nginx.hws"

    def learn() -> str | None:
        try:
            live_preheat.self_test("nginx", rounds=20, cold=["L2-cold"], set_out=lines)
        except (HalfwinkError, RunError) as error:
            # A neighbour's lines may have been learned, too.
            return str(error)
        return None

    undisturbed(learn, lambda said: said)
    return lines


@contextmanager
def preheated(
    lines: Path, folder: Path, *extra: str
) -> Generator[tuple[live_preheat.Running, subprocess.Popen[bytes], str], None, None]:
    """A real nginx with its set, and the daemon as a process of its own."""
    need("nginx")
    cpu, _ = live_preheat.cpus()
    key = folder / "key"
    key.write_bytes(KEY)
    with ExitStack() as stack:
        shared = stack.enter_context(live_preheat.shared_file())
        environment = live_preheat.environment(shared)
        server = live_preheat.serving("nginx", shared.parent / "server", cpu, environment)
        running = stack.enter_context(server)
        port = running.address.rpartition(":")[2]
        words = ["--port", port, "--set", str(lines), "--shared", str(shared), "--key", str(key)]
        daemon = subprocess.Popen(
            [*COMMAND, "run", *words, "--listen", "127.0.0.1:0", *extra],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        stack.callback(daemon.kill)
        assert daemon.stderr is not None
        said = daemon.stderr.readline().decode()
        assert said.startswith("hears announcements at "), said
        yield running, daemon, said.split()[3].rstrip(";")


def answers(running: live_preheat.Running) -> bool:
    with urllib.request.urlopen(f"http://{running.address}/", timeout=120) as answer:
        return answer.status == 200 and b"forty winks" in answer.read()


def ended(daemon: subprocess.Popen[bytes]) -> dict[str, Any]:
    daemon.send_signal(signal.SIGTERM)
    out, _ = daemon.communicate(timeout=120)
    return dict(json.loads(out))


def waiting_bytes(port: int) -> int:
    """Bytes that a UDP socket has not read yet."""
    for line in Path("/proc/net/udp").read_text().splitlines()[1:]:
        words = line.split()
        if int(words[1].rpartition(":")[2], 16) == port:
            return int(words[4].rpartition(":")[2], 16)
    pytest.fail(f"no UDP socket at port {port}")


def test_garbage_and_announcements(learned: Path, tmp_path: Path) -> None:
    with preheated(learned, tmp_path) as (running, daemon, to):
        host, _, number = to.rpartition(":")
        port = int(running.address.rpartition(":")[2])
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
            for n in range(1000):
                out.sendto(os.urandom(n % 80), (host, int(number)))
                if n % 50 == 0:
                    wait_until(lambda: not waiting_bytes(int(number)))
        for n in range(20):
            native.preheat_announce(to, KEY, port, sequence=n + 1, lead_us=500)
            wait_until(lambda: not waiting_bytes(int(number)))
            time.sleep(0.003)
            assert answers(running)
        native.preheat_announce(to, KEY, port, sequence=3, lead_us=500)
        native.preheat_announce(to, b"another's key...", port, sequence=99, lead_us=500)
        wait_until(lambda: not waiting_bytes(int(number)))
        counts = ended(daemon)
    assert counts["refused"]["malformed"] == 1000
    assert counts["refused"]["forged"] == 1
    assert counts["refused"]["replayed"] == 1
    assert counts["heard"] == 20
    # One that a busy machine heard only after its request was due is not loaded for.
    assert 0 < counts["loads"] <= 20
    assert counts["kernel_lines"] > 0


def test_handshakes_announce(learned: Path, tmp_path: Path) -> None:
    with preheated(learned, tmp_path, "--syn-us", "200") as (running, daemon, _):
        for _ in range(10):
            assert answers(running)
            time.sleep(0.005)
        counts = ended(daemon)
    assert counts["handshakes"] >= 10
    assert counts["loads"] > 0


def test_ends_of_all_kinds(learned: Path, tmp_path: Path) -> None:
    with preheated(learned, tmp_path, "--every-ms", "2") as (running, daemon, _):
        assert answers(running)
        # The worker dies, and nginx forks another, while lines are loaded.
        os.kill(running.pid, signal.SIGKILL)
        wait_until(lambda: _worker(running) not in (0, running.pid))
        assert answers(running)
        # It reads its configuration again: another worker, the old one goes.
        before = _worker(running)
        running.process.send_signal(signal.SIGHUP)
        wait_until(lambda: _worker(running) not in (0, before))
        wait_until(lambda: answers(running))
        daemon.kill()
        daemon.wait()
        assert answers(running)
        assert running.process.poll() is None


def _worker(running: live_preheat.Running) -> int:
    pid = running.process.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(children[0]) if len(children) == 1 else 0


def test_damaged_sets_and_keys_are_one_line(
    learned: Path, tmp_path: Path, halfwink: Halfwink
) -> None:
    lines, key = tmp_path / "nginx.hws", tmp_path / "key"
    key.write_bytes(KEY)
    good = learned.read_bytes()
    shared = tmp_path / "shared"
    words = ["--port", "80", "--shared", str(shared), "--key", str(key), "--seconds", "0.1"]
    run = ["live", "preheat", "run", "--listen", "127.0.0.1:0", *words, "--set"]
    changed = bytes([*good[:100], good[100] ^ 1, *good[101:]])
    for content in (good[:100], b"", b"garbage" * 10, changed):
        lines.write_bytes(content)
        done = halfwink(*run, str(lines))
        assert done.status == 2
        assert done.complaint.startswith(f"--set: {lines}: "), done
        assert done.complaint.count("\n") == 0
    key.write_bytes(b"short")
    lines.write_bytes(good)
    done = halfwink(*run, str(lines))
    assert done.status == 2
    assert "a key of 5 bytes: expected 16" in done.complaint


def test_wrong_words_are_refused_with_the_allowed(halfwink: Halfwink) -> None:
    for words, expected in (
        ([], "expected --self-test"),
        (["--self-test", "--server", "apache"], "expected one of nginx"),
        (["--self-test", "-n", "3"], "expected 20 to"),
        (["--self-test", "--cold", "ice"], "expected one of L2-cold"),
    ):
        done = halfwink("live", "preheat", *words)
        assert done.status == 2
        assert expected in done.complaint


def instructions(folder: Path, requests: int, extra: dict[str, str]) -> int:
    """What nginx runs in user mode for so many requests, start and end included."""
    folder.mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    words = live_preheat.SERVERS["nginx"].command(folder, port)
    count = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    server = subprocess.Popen(
        [*count, programs.find("nginx").path or "", *words, "-g", "master_process off;"],
        env=os.environ | extra,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )

    def connected() -> socket.socket | None:
        try:
            return socket.create_connection(("127.0.0.1", port), 5)
        except OSError:
            return None

    try:
        client = wait_until(connected)
        with client:
            for _ in range(requests):
                client.sendall(live_preheat.SERVERS["nginx"].request)
                answer = b""
                while not answer.endswith(b"</p>\n"):
                    answer += client.recv(4096)
    finally:
        said = _ended(server)
    found = re.search(rb"I\s+refs:\s+([\d,]+)", said)
    assert found is not None, said
    return int(found[1].replace(b",", b""))


def _ended(server: subprocess.Popen[bytes]) -> bytes:
    """What a server said on standard error until it ended.

    A signal that comes just before nginx waits for events is not looked at until there is one:
    then another.
    """
    for _ in range(30):
        server.terminate()
        with suppress(subprocess.TimeoutExpired):
            return server.communicate(timeout=2)[1]
    server.kill()
    pytest.fail(f"goes on: {server.args}")


def test_the_library_adds_no_instruction_to_a_request(tmp_path: Path) -> None:
    need("nginx")
    need("valgrind")
    with live_preheat.shared_file() as shared:
        library = live_preheat.environment(shared)

        def of_a_request(name: str, extra: dict[str, str]) -> float:
            few = instructions(tmp_path / f"{name}-few", 200, extra)
            return (instructions(tmp_path / f"{name}-many", 1200, extra) - few) / 1000

        # nginx writes down the time each second: what a run takes longer, it counts more.
        least = {"with": math.inf, "without": math.inf}
        for attempt in range(4):
            for name, extra in (("with", library), ("without", {})):
                least[name] = min(least[name], of_a_request(f"{name}-{attempt}", extra))
            # Fewer, by what the time of day cost the others.
            if least["with"] <= least["without"] * 1.001:
                return
    raise AssertionError(least)


@pytest.mark.full("preheat")
def test_what_the_library_costs_a_server_that_is_never_announced() -> None:
    need("memcached")

    def trial() -> dict[str, Any]:
        found = live_preheat.without_library("memcached", starts=4, rounds=400)
        assert found["wakes"] == 0
        assert len(found["library"]["ratios"]) == len(found["none"]["ratios"]) == 4
        return found

    def wrong(found: dict[str, Any]) -> str | None:
        apart = found["library"]["median"] - found["none"]["median"]
        return None if abs(apart) < 0.05 else f"{found}"

    undisturbed(trial, wrong, alone=True)


def test_decisions_are_logged_and_replay(learned: Path, tmp_path: Path, halfwink: Halfwink) -> None:
    log = tmp_path / "events"
    with preheated(learned, tmp_path, "--log", str(log)) as (running, daemon, to):
        port = int(running.address.rpartition(":")[2])
        for n in range(10):
            native.preheat_announce(to, KEY, port, sequence=n + 1, lead_us=500)
            time.sleep(0.003)
            assert answers(running)
        counts = ended(daemon)
    done = halfwink("replay", str(log), "--json")
    assert done.status == 0, done
    told = done.json()["facts"]
    assert told["first_difference"] is None
    assert told["header"]["world"] == "live preheat"
    assert "whole" in told["ended"]
    text = log.read_text()
    assert text.count('{"load":{') == counts["loads"] > 0
    # A load that was due at another time.
    # Its last digit: no number of JSON begins with a zero.
    changed = re.sub(r'("until_ps":\d*)(\d)\b', lambda m: f"{m[1]}{9 - int(m[2])}", text, count=1)
    assert changed != text
    log.write_text(changed)
    done = halfwink("replay", str(log), "--json")
    assert done.status == 1
    assert "announced" in done.json()["facts"]["first_difference"]["event"]
