"""The live steering proxy: hand-overs, machines that fail, reload, drain, TLS, HTTP/2, TCP."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from conftest import Halfwink, need
from steer_bed import (
    Recorder,
    at_once,
    balanced,
    certificate,
    describe,
    free_port,
    get,
    nginx,
    settled,
    status,
    talk,
    wait_until,
)

from halfwink import replay
from halfwink.errors import HalfwinkError
from halfwink.live.steer import LiveSteer

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture
def pair() -> Generator[tuple[Recorder, Recorder]]:
    both = Recorder(), Recorder()
    yield both
    for one in both:
        one.close()


def slow(seconds: float) -> Callable[[bytes, socket.socket], None]:
    def answer(_request: bytes, peer: socket.socket) -> None:
        time.sleep(seconds)
        peer.sendall(OK)

    return answer


def load(address: str, workers: int, stop: threading.Event) -> list[Counter[int]]:
    """Clients that ask again and again, each by connections of some requests; starts them."""
    counts = [Counter[int]() for _ in range(workers)]

    def ask(mine: Counter[int], number: int) -> None:
        # Bursts and silences, so that the big machine is woken and sent to sleep all the time.
        while not stop.is_set():
            request = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n" * 2 + (
                b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
            )
            answer = talk(address, request)
            mine.update({200: answer.count(b"HTTP/1.1 200"), 0: 3 - answer.count(b"HTTP/1.1 ")})
            time.sleep(0.004 * number)

    threads = [threading.Thread(target=ask, args=(c, n)) for n, c in enumerate(counts)]
    for thread in threads:
        thread.start()
    stop.threads = threads  # pyright: ignore
    return counts


def big_has_worked(steer: LiveSteer, *, wakes: int, served: int) -> bool:
    """Whether the big machine was woken so often, and served so many."""
    big = steer.report()["machines"]["big"]
    return big["wakes"] >= wakes and big["served"] >= served


def test_hand_overs_of_a_stopped_nginx_lose_nothing(tmp_path: Path):
    with nginx(tmp_path, "small") as (small, _), nginx(tmp_path, "big") as (big, pid):
        path = describe(
            tmp_path,
            small,
            big,
            top="policy = 'hybrid:threshold=2'",
            big_more=f'power = {{ kind = "signal", pidfile = "{pid}" }}',
            health='path = "/"',
        )
        log = tmp_path / "log.jsonl"
        with LiveSteer(path, log=log) as steer:
            stop = threading.Event()
            counts = load(steer.address, 12, stop)
            worked = partial(big_has_worked, steer)
            wait_until(lambda: worked(wakes=15, served=40))
            # New limits and another threshold, under load.
            path.write_text(path.read_text().replace("retries = 2", "retries = 1"))
            steer.reload()
            wait_until(lambda: worked(wakes=21, served=51))
            stop.set()
            for thread in stop.threads:  # pyright: ignore
                thread.join()
            total = sum(counts, Counter())
            wait_until(lambda: steer.report()["machines"]["big"]["state"] == "asleep")
            # It stands still.
            number = int(pid.read_text())
            wait_until(lambda: "T (stopped)" in Path(f"/proc/{number}/status").read_text())
            steer.stop()
            report = steer.report()
        assert "T (stopped)" not in Path(f"/proc/{number}/status").read_text()
    assert total[0] == 0, total
    assert total[200] == report["requests"]["answered"] == report["statuses"]["2xx"]
    balanced(report)
    big_machine = report["machines"]["big"]
    assert big_machine["wakes"] > 20
    assert big_machine["served"] > 50
    assert report["log_dropped"] == 0
    assert replay(log).first_difference is None
    log.write_text(log.read_text().replace('"wake"', '"sleep"', 1))
    assert replay(log).first_difference is not None
    assert report["modelled"]["energy_j"] < report["modelled"]["always_on_j"]


def test_a_machine_that_dies_and_comes_back(tmp_path: Path):
    small = Recorder(slow(0.02))
    with nginx(tmp_path, "big") as (big, _):
        path = describe(tmp_path, small.address, big, top='policy = "always-big"')
        steer = LiveSteer(path)
        assert status(get(steer.address)) == 200
    # It is gone: what was meant for it goes to the small one.
    assert at_once(steer.address, 6) == {200: 6}
    wait_until(lambda: steer.report()["machines"]["big"]["state"] == "lost")
    port = int(big.rpartition(":")[2])
    back = subprocess.Popen([sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(port)])
    try:
        wait_until(lambda: steer.report()["machines"]["big"]["state"] == "on")
        assert status(get(steer.address)) == 200
    finally:
        back.kill()
        back.wait()
        steer.stop()
        small.close()
    report = steer.report()
    assert report["machines"]["big"]["losses"] == 1
    assert report["machines"]["small"]["served"] == 6
    balanced(report)


def test_a_machine_that_hangs_is_a_time_out(tmp_path: Path, pair: tuple[Recorder, Recorder]):
    over = threading.Event()
    pair[1].answer = lambda _r, _peer: over.wait(60) and None
    path = describe(
        tmp_path,
        pair[0].address,
        pair[1].address,
        top='policy = "always-big"',
        limits="response_timeout_ms = 1500",
    )
    with LiveSteer(path) as steer:
        assert status(get(steer.address)) == 504
        over.set()
        pair[1].answer = lambda _r, peer: peer.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab"
        )
        assert get(steer.address).endswith(b"\r\n\r\nab")
        report = settled(steer, 2)["requests"]
        assert (report["gateway_timeout"], report["answered"]) == (2, 0)


def test_a_machine_that_wakes_too_late(tmp_path: Path, pair: tuple[Recorder, Recorder]):
    lost = threading.Event()

    def answer(_request: bytes, peer: socket.socket) -> None:
        lost.wait(60)
        peer.sendall(OK)

    pair[0].answer = answer
    path = describe(
        tmp_path,
        pair[0].address,
        pair[1].address,
        top="policy = 'hybrid:threshold=2'",
        # All five have come by then.
        big_more="wake_timeout_ms = 2500\n"
        'power = { kind = "command", wake = ["sleep", "90"], sleep = ["true"] }',
    )
    log = tmp_path / "log.jsonl"
    with LiveSteer(path, log=log) as steer:
        wait_until(lambda: steer.report()["machines"]["big"]["state"] == "asleep")
        # Two at the small machine; the others wait for the big one, and then go to the small one.
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(at_once, steer.address, 5)
            wait_until(lambda: steer.report()["machines"]["big"]["losses"])
            lost.set()
            assert asked.result() == {200: 5}
        report = settled(steer, 5)
        assert report["machines"]["big"]["losses"] >= 1
        assert report["machines"]["big"]["resteered"] == 3
        assert report["machines"]["small"]["served"] == 5
    assert replay(log).first_difference is None
    balanced(steer.report())


def test_full_queues_say_when_to_come_again(tmp_path: Path, pair: tuple[Recorder, Recorder]):
    full = threading.Event()

    def answer(_request: bytes, peer: socket.socket) -> None:
        full.wait(60)
        peer.sendall(OK)

    pair[0].answer = answer
    path = describe(
        tmp_path,
        pair[0].address,
        pair[1].address,
        top='policy = "always-small"',
        small_more="queue = 1",
    )
    with LiveSteer(path) as steer, ThreadPoolExecutor(6) as pool:
        asked = [pool.submit(get, steer.address) for _ in range(6)]
        wait_until(lambda: steer.report()["requests"]["overloaded"] == 3)
        full.set()
        answers = [one.result() for one in asked]
        assert Counter(map(status, answers)) == {200: 3, 503: 3}
        assert all(b"Retry-After: 1" in a for a in answers if status(a) == 503)


def test_each_request_is_announced_before_it_is_sent(
    tmp_path: Path, pair: tuple[Recorder, Recorder]
):
    (tmp_path / "key").write_bytes(bytes(range(16)))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as daemon:
        daemon.bind(("127.0.0.1", 0))
        daemon.settimeout(60)
        to = "{}:{}".format(*daemon.getsockname())
        heard: list[bytes] = []

        def answer(_: bytes, peer: socket.socket) -> None:
            # It is there already: nothing is waited for here.
            daemon.setblocking(False)
            heard.append(daemon.recv(64))
            peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

        pair[0].answer = answer
        announce = f'announce = {{ to = "{to}", key = "key", port = 80, lead_us = 40 }}'
        path = describe(
            tmp_path,
            pair[0].address,
            pair[1].address,
            top='policy = "always-small"',
            small_more=announce,
        )
        with LiveSteer(path) as steer:
            assert [status(get(steer.address)) for _ in range(3)] == [200] * 3
        assert [(len(h), h[:4], int.from_bytes(h[6:8], "little")) for h in heard] == [
            (32, b"HWPA", 80)
        ] * 3
        sequences = [int.from_bytes(h[12:20], "little") for h in heard]
        assert sequences == sorted(set(sequences))
    (tmp_path / "key").write_bytes(b"short")
    with pytest.raises(HalfwinkError, match="found 5 bytes, expected 16"):
        LiveSteer(path)


def test_only_what_may_be_sent_twice_is(tmp_path: Path, pair: tuple[Recorder, Recorder]):
    pair[0].answer = b""  # Reads the request, and closes.
    path = describe(tmp_path, *(r.address for r in pair), top='policy = "always-small"')
    with LiveSteer(path) as steer:
        post = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nConnection: close\r\n\r\na"
        assert status(talk(steer.address, post)) == 502
        assert len(pair[0].seen) == 1
        pair[0].seen.clear()
        assert status(get(steer.address)) == 502
        assert len(pair[0].seen) == 3
        assert len({bytes(s) for s in pair[0].seen}) == 1


def test_drain_answers_what_is_under_way(tmp_path: Path, pair: tuple[Recorder, Recorder]):
    free = threading.Event()

    def answer(_request: bytes, peer: socket.socket) -> None:
        free.wait(60)
        peer.sendall(OK)

    pair[0].answer = answer
    path = describe(tmp_path, *(r.address for r in pair), top='policy = "always-small"')
    steer = LiveSteer(path)
    idle = socket.create_connection(("127.0.0.1", int(steer.address.rpartition(":")[2])), 60)
    with ThreadPoolExecutor(5) as pool:
        waiting = [pool.submit(get, steer.address, "/", "") for _ in range(4)]
        # Two are with the machine, two in its queue.
        wait_until(lambda: steer.report()["requests"]["received"] == 4)
        stopped = pool.submit(steer.stop)
        # Who has sent nothing is let go as soon as the drain has begun.
        assert idle.recv(1) == b""
        free.set()
        answers = [w.result() for w in waiting]
        stopped.result()
    assert [status(a) for a in answers] == [200] * 4
    assert all(b"Connection: close" in a for a in answers)
    idle.close()
    balanced(steer.report())


def test_plain_tcp(tmp_path: Path):
    server = need("redis-server")
    ports = free_port(), free_port()
    folder = str(tmp_path)
    quiet = ["--save", "", "--dir", folder, "--loglevel", "warning", "--logfile", "/dev/null"]
    both = [
        subprocess.Popen([server, "--port", str(p), "--bind", "127.0.0.1", *quiet]) for p in ports
    ]
    path = describe(
        tmp_path,
        *(f"127.0.0.1:{p}" for p in ports),
        top='mode = "tcp"\npolicy = "hybrid:threshold=1"',
        big_more=f'power = {{ kind = "signal", pid = {both[1].pid} }}',
    )
    try:
        for port in ports:
            wait_until(lambda port=port: _speaks(port))
        log = tmp_path / "log.jsonl"
        with LiveSteer(path, log=log) as steer:
            with ThreadPoolExecutor(8) as pool:
                ping = b"PING\r\n" * 100 + b"QUIT\r\n"
                answers = list(pool.map(lambda _: talk(steer.address, ping), range(24)))
            assert answers == [b"+PONG\r\n" * 100 + b"+OK\r\n"] * 24
            wait_until(lambda: steer.report()["connections"] == 0)
            report = steer.report()
            balanced(report)
            assert report["machines"]["big"]["served"] > 0
        assert replay(log).first_difference is None
    finally:
        for process in both:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()


def _speaks(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 60).close()
    except OSError:
        return False
    return True


def curl(*words: str) -> str:
    program = need("curl")
    done = subprocess.run([program, "-sk", *words], capture_output=True, text=True, check=False)
    return done.stdout


def test_tls_http2_and_another_certificate(tmp_path: Path, pair: tuple[Recorder, Recorder]):
    certificate(tmp_path, "one")
    path = describe(
        tmp_path,
        *(r.address for r in pair),
        top='policy = "always-small"\ntls = { cert = "cert.pem", key = "key.pem" }',
    )
    with LiveSteer(path) as steer:
        url = f"https://{steer.address}/x"
        shown = ["-o", "/dev/null", "-w", "%{http_version} %{response_code}"]
        assert curl(*shown, "--http2", url) == "2 200"
        assert curl(*shown, "--http1.1", url) == "1.1 200"
        body = tmp_path / "body"
        body.write_bytes(b"z" * 300_000)
        pair[0].seen.clear()
        assert curl("--http2", "--data-binary", f"@{body}", "-H", "Cookie: a=b", url) == "ok"
        head, _, sent = pair[0].seen[0].partition(b"\r\n\r\n")
        assert sent == body.read_bytes()
        assert b"\r\nVia: 2 halfwink\r\n" in head
        assert b"\r\nX-Forwarded-Proto: https\r\n" in head
        assert b"\r\ncookie: a=b" in head
        pair[0].answer = lambda _r, peer: peer.sendall(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n186a0\r\n"
            + b"q" * 100_000
            + b"\r\n0\r\n\r\n"
        )
        assert curl("--http2", url) == "q" * 100_000
        assert "subject: CN=one" in _handshake(steer.address)
        certificate(tmp_path, "two")
        steer.reload()
        assert "subject: CN=two" in _handshake(steer.address)
        (tmp_path / "cert.pem").write_text("no certificate")
        with pytest.raises(Exception, match=r"cert\.pem"):
            steer.reload()
        assert "subject: CN=two" in _handshake(steer.address)
        assert talk(steer.address, b"GET / HTTP/1.1\r\n\r\n", timeout=1) != b"HTTP"
        # The books are written after the peer has seen its connection end.
        wait_until(lambda: steer.report()["requests"]["tls_failed"] == 1)
    balanced(steer.report())


def _handshake(address: str) -> str:
    program = need("curl")
    done = subprocess.run(
        [program, "-skv", f"https://{address}/"], capture_output=True, text=True, check=False
    )
    return done.stderr.replace("subject: CN = ", "subject: CN=")


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return (
        len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload
    )


def kinds(data: bytes) -> set[int]:
    """Kinds of the frames that have come whole: 1 for headers, 3 and 7 for a stream or a connection
    that ends."""
    found: set[int] = set()
    while len(data) >= 9 and len(data) >= 9 + int.from_bytes(data[:3], "big"):
        found.add(data[3])
        data = data[9 + int.from_bytes(data[:3], "big") :]
    return found


def literal(name: bytes, value: bytes) -> bytes:
    """A field of HPACK, without index and without Huffman's code."""
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


GOOD = [(b":method", b"GET"), (b":scheme", b"http"), (b":authority", b"h"), (b":path", b"/")]
NONSENSE: dict[str, tuple[list[tuple[bytes, bytes]], bytes]] = {
    "line end in a value": ([*GOOD, (b"x", b"a\r\nB: c")], b""),
    "NUL in a value": ([*GOOD, (b"x", b"a\0b")], b""),
    "line end in a name": ([*GOOD, (b"x\r\ny", b"a")], b""),
    "line end in the path": ([*GOOD[:3], (b":path", b"/ HTTP/1.1\r\nX: y\r\n\r\n")], b""),
    "blank in the path": ([*GOOD[:3], (b":path", b"/a b")], b""),
    "line end in the host": ([*GOOD[:2], (b":authority", b"h\r\nX: y"), GOOD[3]], b""),
    "line end in the method": ([(b":method", b"GET / HTTP/1.1\r\nX: y"), *GOOD[1:]], b""),
    "two paths": ([*GOOD, (b":path", b"/b")], b""),
    "no path": (GOOD[:3], b""),
    "no method": (GOOD[1:], b""),
    "an unknown pseudo-header": ([*GOOD, (b":x", b"y")], b""),
    "a pseudo-header last": ([(b"x", b"y"), *GOOD], b""),
    "capitals": ([*GOOD, (b"X-Y", b"z")], b""),
    "connection": ([*GOOD, (b"connection", b"close")], b""),
    "transfer coding": ([*GOOD, (b"transfer-encoding", b"chunked")], b"0\r\n\r\n"),
    "another host": ([*GOOD, (b"host", b"i")], b""),
    "a length too long": ([*GOOD, (b"content-length", b"9")], b"abc"),
    "a length too short": ([*GOOD, (b"content-length", b"1")], b"abc"),
    "two lengths": ([*GOOD, (b"content-length", b"3"), (b"content-length", b"4")], b"abc"),
    "CONNECT": ([(b":method", b"CONNECT"), (b":authority", b"h:1")], b""),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_http2_nonsense_reaches_nobody(tmp_path: Path, pair: tuple[Recorder, Recorder], name: str):
    fields, body = NONSENSE[name]
    path = describe(tmp_path, *(r.address for r in pair), top='policy = "always-small"')

    def ask(fields: list[tuple[bytes, bytes]], body: bytes) -> bytes:
        block = b"".join(literal(*field) for field in fields)
        sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"")
        sent += frame(1, 4 if body else 5, 1, block)
        sent += frame(0, 1, 1, body) if body else b""
        return talk(steer.address, sent, until=lambda data: kinds(data) & {1, 3, 7})

    with LiveSteer(path) as steer:
        # Status 200 stands in HPACK's static table.
        assert b"\x88" in ask(GOOD, b"")
        assert len(pair[0].seen) == 1
        pair[0].seen.clear()
        assert b"\x88" not in ask(fields, body)
        assert pair[0].seen == []
    balanced(steer.report())


def test_command_line(tmp_path: Path, halfwink: Halfwink):
    both = Recorder(), Recorder()
    path = describe(tmp_path, *(r.address for r in both), top='threads = 2\npolicy = "hybrid"')
    out, log = tmp_path / "out.json", tmp_path / "log.jsonl"
    words = [
        "live",
        "steer",
        str(path),
        "--metrics",
        "127.0.0.1:0",
        "--log",
        str(log),
        "-o",
        str(out),
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "halfwink", *words, "--samples", str(tmp_path / "s")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"XDG_CACHE_HOME": str(tmp_path)},
    )
    assert process.stderr is not None
    said = [process.stderr.readline() for _ in range(3)]
    address = said[0].split()[-1]
    assert said[2] == "ready\n"
    assert at_once(address, 8) == {200: 8}
    process.send_signal(signal.SIGHUP)
    assert "again" in process.stderr.readline()
    page = said[1].split("//")[1].split("/")[0]
    counted = b'halfwink_steer_requests_total{what="answered"} 8\n'
    # The books are written after a client has its answer.
    wait_until(lambda: counted in get(page, "/metrics", "Connection: close\r\n"))
    process.send_signal(signal.SIGTERM)
    shown, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert "machine" in shown
    report = json.loads(out.read_text())
    assert report["requests"]["answered"] == 8
    balanced(report)
    assert replay(log).first_difference is None
    for one in both:
        one.close()
    path.write_text(path.read_text().replace("schema = 1", "schema = 3"))
    done = halfwink("live", "steer", str(path))
    assert done.status == 2
    assert done.complaint == f"{path}:1: schema: found 3, expected 1"


def test_many_streams(tmp_path: Path, pair: tuple[Recorder, Recorder]):
    program = need("h2load")
    path = describe(tmp_path, *(r.address for r in pair))
    with LiveSteer(path) as steer:
        words = [program, "-n", "200", "-c", "4", "-m", "10", f"http://{steer.address}/"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert "200 succeeded, 0 failed" in done.stdout, done.stdout
    balanced(steer.report())
