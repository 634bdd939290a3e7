"""What the steering proxy lives through: no descriptors, dead machines, silent clients, a kill."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from steer_bed import (
    Recorder,
    at_once,
    balanced,
    certificate,
    dead_port,
    describe,
    get,
    settled,
    status,
    wait_until,
)

from halfwink import replay
from halfwink.live.steer import LiveSteer

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture
def pair() -> Generator[tuple[Recorder, Recorder]]:
    both = Recorder(), Recorder()
    yield both
    for one in both:
        one.close()


@contextlib.contextmanager
def command(path: Path, *words: str) -> Generator[tuple[subprocess.Popen[str], str]]:
    """The program of the command line, in a process of its own: it, and where it listens."""
    process = subprocess.Popen(
        [sys.executable, "-m", "halfwink", "live", "steer", str(path), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"XDG_CACHE_HOME": str(path.parent)},
    )
    assert process.stderr is not None
    try:
        said = process.stderr.readline()
        assert "listening" in said, said
        yield process, said.split()[-1]
    finally:
        process.kill()
        process.communicate()


def test_no_descriptors_lose_no_machine(tmp_path: Path, pair: tuple[Recorder, Recorder]):
    for one in pair:
        # With a connection for each request.
        one.answer = OK
    path = describe(tmp_path, *(r.address for r in pair), limits="connect_timeout_ms = 1000")
    out = tmp_path / "out.json"
    with command(path, "-o", str(out)) as (process, address):
        host, _, port = address.rpartition(":")
        with socket.create_connection((host, int(port)), 60) as client:
            client.sendall(b"GET /1 HTTP/1.1\r\nHost: h\r\n\r\n")
            assert status(client.recv(1 << 16)) == 200
            # From here on nothing can be opened, neither by health checks nor for requests.
            before = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
            resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (3, before[1]))
            time.sleep(0.5)
            client.sendall(b"GET /2 HTTP/1.1\r\nHost: h\r\n\r\n")
            answer = client.recv(1 << 16)
            assert status(answer) == 503
            assert b"Retry-After: " in answer
            # Clients that cannot be taken wait in the kernel's queue, which costs no time.
            with socket.create_connection((host, int(port)), 60) as late:
                late.sendall(b"GET /3 HTTP/1.1\r\nHost: h\r\n\r\n")
                spent, begun = cpu_s(process.pid), time.monotonic()
                time.sleep(0.5)
                assert cpu_s(process.pid) - spent < 0.3 * (time.monotonic() - begun)
                resource.prlimit(process.pid, resource.RLIMIT_NOFILE, before)
                late.settimeout(60)
                assert status(late.recv(1 << 16)) == 200
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=120)
    report = json.loads(out.read_text())
    assert [m["losses"] for m in report["machines"].values()] == [0, 0], said
    assert said.count("Too many open files") == 1
    assert (report["requests"]["answered"], report["requests"]["overloaded"]) == (2, 1)
    balanced(report)


def cpu_s(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_more_connections_than_descriptors_are_refused(
    tmp_path: Path, pair: tuple[Recorder, Recorder]
):
    path = describe(tmp_path, *(r.address for r in pair), limits="connections = 400")
    done = subprocess.run(
        [sys.executable, "-m", "halfwink", "live", "steer", str(path), "--seconds", "0.1"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"XDG_CACHE_HOME": str(tmp_path)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (100, 256)),
    )
    assert done.returncode == 2
    line = path.read_text().splitlines().index("connections = 400") + 1
    assert f"{path}:{line}: limits.connections: found 400, expected at most 190: " in done.stderr
    path.write_text(path.read_text().replace("connections = 400", "connections = 190"))
    script = (
        "import resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (100, 256))\n"
        "from halfwink.live.steer import LiveSteer\n"
        "with LiveSteer(sys.argv[1]):\n"
        "    print(resource.getrlimit(resource.RLIMIT_NOFILE))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True
    )
    # Its own soft limit is raised to what it needs.
    assert done.stdout == "(256, 256)\n"


def test_two_dead_machines_are_an_answer_at_once(tmp_path: Path):
    big_is_dead = contextlib.ExitStack()
    with dead_port() as small, big_is_dead:
        big = big_is_dead.enter_context(dead_port())
        machines = (f"127.0.0.1:{port}" for port in (small, big))
        path = describe(tmp_path, *machines, limits="queue_timeout_ms = 60000")
        with LiveSteer(path) as steer:
            # A machine that a request keeps from going down fails once, and sleeps then: it is lost
            # only when it is wanted again.
            wait_until(lambda: steer.report()["machines"]["big"]["state"] == "asleep")
            answer = get(steer.address)
            assert status(answer) == 503
            assert b"Retry-After: " in answer
            assert answer.endswith(b"\r\n\r\nService Unavailable: no machine can be reached\n")

            def lost() -> list[str]:
                machines = steer.report()["machines"]
                return [name for name, machine in machines.items() if machine["state"] == "lost"]

            # Whether or not that is known already; no time-out of a queue was waited for.
            wait_until(lambda: len(lost()) == 2)
            assert at_once(steer.address, 20) == {503: 20}
            big_is_dead.close()
            with Recorder(port=big):
                wait_until(lambda: lost() == ["small"])
                assert at_once(steer.address, 20) == {200: 20}
            report = settled(steer, 41)
    assert report["machines"]["small"]["served"] == 0
    assert (report["requests"]["unreachable"], report["requests"]["answered"]) == (21, 20)
    balanced(report)


def test_silent_clients_hold_up_nobody(tmp_path: Path, pair: tuple[Recorder, Recorder]):
    silent = 2000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < silent + 500:
        pytest.skip(f"needs {silent + 500} descriptors, and may have {hard}")
    path = describe(
        tmp_path,
        *(r.address for r in pair),
        limits="connections = 2300\nclient_connections = 2300\n"
        "idle_timeout_ms = 3000\nheader_timeout_ms = 3000",
    )
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, silent + 500), hard))
    try:
        with command(path) as (process, address), contextlib.ExitStack() as clients:
            host, _, port = address.rpartition(":")
            threads = Path(f"/proc/{process.pid}/task")
            before = len(list(threads.iterdir()))
            all_of_them: list[socket.socket] = []
            for n in range(silent):
                one = clients.enter_context(socket.create_connection((host, int(port)), 60))
                # Nothing at all, or a head that never ends.
                one.sendall((b"", b"GET / HTTP/1.1\r\nHost: h\r\nA: ", b"PRI * HT")[n % 3])
                all_of_them.append(one)
                if n % 100 == 0:
                    assert status(get(address)) == 200
            assert at_once(address, 20) == {200: 20}
            assert len(list(threads.iterdir())) == before
            # All are let go, those in the middle of a head with a word.
            said = Counter(one.recv(100)[:12] for one in all_of_them)
            assert said[b""] >= silent // 3
            assert said[b"HTTP/1.1 408"] >= silent // 3
            assert said.total() == silent
            assert status(get(address)) == 200
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_log_is_there_after_a_kill(tmp_path: Path, pair: tuple[Recorder, Recorder]):
    path = describe(tmp_path, *(r.address for r in pair))
    log = tmp_path / "log.jsonl"
    with command(path, "--log", str(log)) as (process, address):
        assert at_once(address, 8) == {200: 8}
        # It is streamed, a few milliseconds behind.
        wait_until(lambda: log.read_text().count('"finish"') == 8)
        process.kill()
        process.wait()
    assert log.read_text().count('"finish"') == 8
    found = replay(log)
    assert found.first_difference is None


def test_secrets_that_others_may_read_and_foreign_texts(
    tmp_path: Path, pair: tuple[Recorder, Recorder]
):
    certificate(tmp_path, "one")
    top = 'tls = { cert = "cert.pem", key = "key.pem" }'
    path = describe(tmp_path, *(r.address for r in pair), top=top)
    key = tmp_path / "key.pem"
    program = [sys.executable, "-m", "halfwink", "live", "steer", str(path), "--seconds", "0.1"]

    def said() -> str:
        env = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
        done = subprocess.run(program, capture_output=True, text=True, check=False, env=env)
        return done.stderr

    for mode, who in ((0o600, None), (0o640, "its group"), (0o644, "everybody")):
        key.chmod(mode)
        warned = f"{key}: a secret that {who} may read (mode {mode:03o})"
        assert (warned in said()) == (who is not None), oct(mode)
    path.write_text(path.read_text().replace("[small]", '"\\u001b[2J\\u202e" = 1\n[small]'))
    refused = said()
    assert "unknown field" in refused
    assert "\x1b" not in refused
    assert "\u202e" not in refused


def test_idle_http2_clients_are_let_go_though_they_answer_pings(
    tmp_path: Path, pair: tuple[Recorder, Recorder]
):
    path = describe(tmp_path, *(r.address for r in pair), limits="idle_timeout_ms = 300")
    with LiveSteer(path) as steer:
        host, _, port = steer.address.rpartition(":")
        with socket.create_connection((host, int(port)), 60) as client:
            client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
            kinds: list[int] = []
            with client.makefile("rb") as frames:
                while kinds.count(6) < 4 and len(head := frames.read(9)) == 9:
                    body = frames.read(int.from_bytes(head[:3], "big"))
                    kinds.append(head[3])
                    if head[3] == 6 and head[4] == 0:
                        client.sendall(head[:4] + b"\x01" + head[5:] + body)
        assert kinds.count(6) == 1
        # It goes away, which tells a client that it may ask again elsewhere.
        assert kinds[-1] == 7


def test_metrics_hold_histograms_and_as_many_series_whatever_was_in_service(
    tmp_path: Path, pair: tuple[Recorder, Recorder]
):
    from prometheus_client.openmetrics.parser import text_string_to_metric_families

    with LiveSteer(describe(tmp_path, *(r.address for r in pair))) as steer:
        quiet = steer.metrics()
        assert at_once(steer.address, 8)[200] == 8
        report, text = settled(steer, 8), steer.metrics()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    total = families["halfwink_steer_total_seconds"]
    assert total.type == "histogram"
    samples = {(s.name, s.labels.get("le")): s.value for s in total.samples}
    assert samples["halfwink_steer_total_seconds_count", None] == report["total"]["count"] >= 8
    within = [value for (name, _), value in samples.items() if name.endswith("_bucket")]
    assert within == sorted(within)
    assert within[-1] == report["total"]["count"]
    mean_s = report["total"]["mean_us"] * 1e-6
    sum_s = samples["halfwink_steer_total_seconds_sum", None]
    assert sum_s / report["total"]["count"] == pytest.approx(mean_s, rel=1e-3)
    states = families["halfwink_machine_state_seconds"].samples
    assert len(states) == 2 * 5
    served = sum(s.value for s in families["halfwink_machine_service_seconds"].samples)
    # Both are sums of the same numbers in another order: they may differ in the last place.
    assert 0 < served <= sum_s * (1 + 1e-9)
    # A series for each number of requests in service would grow without a bound.
    assert len(quiet.splitlines()) == len(text.splitlines())


@pytest.mark.parametrize(
    ("bounds", "real"),
    [("", None), ("sleeps_per_day = 2", 2), ("least_awake_ms = 3600000", 0)],
)
def test_sleeps_are_bounded_whatever_the_policy_wants(
    tmp_path: Path, bounds: str, real: int | None
):
    def answer(_request: bytes, peer: socket.socket) -> None:
        time.sleep(0.02)
        peer.sendall(OK)

    done = tmp_path / "done"
    done.touch()
    words = {what: f'["sh", "-c", "echo {what} >> {done}"]' for what in ("sleep", "wake")}
    power = ", ".join(f"{what} = {command}" for what, command in words.items())
    with Recorder(answer) as small, Recorder(answer) as big:
        path = describe(
            tmp_path,
            small.address,
            big.address,
            top="policy = 'hybrid:threshold=1'",
            big_more=f'power = {{ kind = "command", {power} }}\n{bounds}',
        )
        log = tmp_path / "log.jsonl"
        with LiveSteer(path, log=log) as steer:

            def down() -> int:
                return done.read_text().split().count("sleep")

            def rests() -> dict[str, Any] | None:
                """The big machine, once the policy wants it asleep and it is, or stays on."""
                now = steer.report()["machines"]["big"]
                state = "asleep" if real is None or now["sleeps"] <= real else "on"
                wanted = now["sleeps"] == now["wakes"] + 1 and now["state"] == state
                return now if wanted and now["in_service"] == now["waiting"] == 0 else None

            machine = wait_until(rests)
            # A burst wakes it once, or more often where its requests come apart.
            while machine["sleeps"] < 7:
                assert at_once(steer.address, 6) == {200: 6}
                machine = wait_until(rests)
            text = steer.metrics()
            assert down() == (machine["sleeps"] if real is None else real)
    # The last one is put off still.
    assert machine["spared"] == (0 if real is None else machine["sleeps"] - real - 1)
    assert f'halfwink_machine_spared_total{{machine="big"}} {machine["spared"]}\n' in text
    assert (machine["residency"]["asleep_s"] > 0) == (real != 0)
    assert replay(log).first_difference is None
