"""Hostile clients of the steering proxy beside honest ones: windows of 0, slow readers, half-sent
bodies, silent collectors of metrics. Attackers come from 127.0.0.2, honest clients from 127.0.0.1.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from conftest import undisturbed, wait_until
from steer_bed import Recorder, describe, get, status, talk
from test_daemons import binary

from halfwink.live.steer import LiveSteer

BODY = bytes(4 << 20)
HONEST = 200
#: What attackers have not taken is not waited for at the end.
BRIEF = "drain_ms = 100"


def answer(request: bytes, peer: socket.socket) -> None:
    """As many bytes as the path says."""
    count = int(request.split(b" ", 2)[1][1:] or b"2")
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {count}\r\n\r\n".encode()
    peer.sendall(head + BODY[:count])


@pytest.fixture
def pair() -> Generator[tuple[Recorder, Recorder]]:
    with Recorder(answer) as small, Recorder(answer) as big:
        yield small, big


@pytest.fixture
def attackers() -> Generator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


def attacker(address: str, buffer: int | None = None) -> socket.socket:
    """A connection of an attacker, which takes little at a time if ``buffer`` is small."""
    peer = socket.socket()
    if buffer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    peer.bind(("127.0.0.2", 0))
    host, _, port = address.rpartition(":")
    peer.connect((host, int(port)))
    peer.settimeout(60)
    return peer


def frame(kind: int, flags: int, stream: int, body: bytes = b"") -> bytes:
    return len(body).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + body


def http2(window: int) -> bytes:
    """Preface and settings: the window of each stream."""
    setting = (4).to_bytes(2, "big") + window.to_bytes(4, "big")
    return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, setting)


def headers(stream: int, path: bytes, *, method: int = 0x82, ends: bool = True) -> bytes:
    """A request by HPACK: method, scheme, path, authority. 0x82 is GET, 0x83 POST."""
    fields = bytes((method, 0x86, 0x04, len(path))) + path + bytes((0x41, 1)) + b"h"
    return frame(1, 5 if ends else 4, stream, fields)


def answered(address: str) -> None:
    assert status(get(address)) == 200


def answered_by_tcp(address: str) -> None:
    """The machine does not close the connection: its client does."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), 60) as peer:
        peer.sendall(b"GET /2 HTTP/1.1\r\nHost: h\r\n\r\n")
        assert status(peer.recv(1 << 16)) == 200


def times(address: str, count: int = HONEST, ask: Callable[[str], None] = answered) -> list[float]:
    """How long honest requests take, one after the other; all are answered."""
    took: list[float] = []
    for _ in range(count):
        begun = time.monotonic()
        ask(address)
        took.append(time.monotonic() - begun)
    return sorted(took)


def unhurt(
    address: str, attack: Callable[[], object], ask: Callable[[str], None] = answered
) -> None:
    """Honest requests take no longer beside an attack: nine of ten are below twice the time in
    which 99 of 100 are answered without it."""

    def trial() -> tuple[float, float]:
        quiet = times(address, ask=ask)[HONEST * 99 // 100]
        attack()
        return quiet, times(address, ask=ask)[HONEST * 9 // 10]

    def wrong(found: tuple[float, float]) -> str | None:
        quiet, beside = found
        return None if beside < 2 * quiet else f"{beside:.4f} s, {quiet:.4f} s without the attack"

    undisturbed(trial, wrong)


def in_service(steer: LiveSteer) -> int:
    return sum(machine["in_service"] for machine in steer.report()["machines"].values())


def cuts_holding(steer: LiveSteer) -> int:
    """Clients that were cut off for what they held. They lose time only while others wait, which
    this does, too: attackers may have got their machines after the honest requests before it."""
    assert status(get(steer.address)) == 200
    return steer.report()["memory"]["cut_holding"]


@pytest.mark.parametrize("size", [2, 1 << 20])
def test_window_0_holds_no_machine(
    tmp_path: Path, pair: tuple[Recorder, Recorder], attackers: contextlib.ExitStack, size: int
):
    path = describe(tmp_path, *(r.address for r in pair), limits=BRIEF)
    requests = [headers(1 + 2 * n, b"/%d" % size) for n in range(128)]
    with LiveSteer(path) as steer:

        def attack() -> None:
            peer = attackers.enter_context(attacker(steer.address))
            peer.sendall(http2(0) + b"".join(requests))

        unhurt(steer.address, attack)
        # Of large answers as many wait as the client's part of the memory holds.
        if size > 2:
            wait_until(lambda: cuts_holding(steer) > 0)
        # Nobody has read a byte, and no machine waits for it.
        wait_until(lambda: in_service(steer) == 0)
        memory = steer.report()["memory"]
        assert (memory["cut_holding"] > 0) == (size > 2), memory
        assert memory["peak_bytes"] <= (32 << 20) + (64 << 10)


def test_slow_readers_hold_no_machine(
    tmp_path: Path, pair: tuple[Recorder, Recorder], attackers: contextlib.ExitStack
):
    path = describe(tmp_path, *(r.address for r in pair), limits=BRIEF)
    ends = threading.Event()
    with LiveSteer(path) as steer:

        def attack() -> None:
            peers = [attackers.enter_context(attacker(steer.address, 4096)) for _ in range(40)]
            for peer in peers:
                peer.sendall(b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n" % len(BODY))
                peer.setblocking(False)
            threading.Thread(target=drip, args=(peers, ends), daemon=True).start()

        unhurt(steer.address, attack)
        wait_until(lambda: cuts_holding(steer) > 0)
        ends.set()


def drip(peers: list[socket.socket], ends: threading.Event) -> None:
    """Reads a little of each, now and again."""
    while not ends.wait(0.1):
        for peer in peers:
            with contextlib.suppress(OSError):
                peer.recv(1024)


def test_slow_senders_hold_no_machine(
    tmp_path: Path, pair: tuple[Recorder, Recorder], attackers: contextlib.ExitStack
):
    path = describe(tmp_path, *(r.address for r in pair), limits=f"{BRIEF}\nbuffer_bytes = 0")
    head = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n"
    with LiveSteer(path) as steer:

        def attack() -> None:
            for _ in range(20):
                attackers.enter_context(attacker(steer.address)).sendall(head + b"x")
            # What each takes once it has a machine is its client's time, not that of others.
            wait_until(lambda: steer.report()["memory"]["cut_holding"] > 0)

        unhurt(steer.address, attack)


@pytest.mark.parametrize(
    "said",
    [b"", b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n" % len(BODY)],
    ids=["nothing said", "nothing taken"],
)
def test_silent_connections_hold_no_machine_of_plain_tcp(
    tmp_path: Path, pair: tuple[Recorder, Recorder], attackers: contextlib.ExitStack, said: bytes
):
    """They say nothing, or take nothing of what they have asked for."""
    path = describe(tmp_path, *(r.address for r in pair), top='mode = "tcp"', limits=BRIEF)
    with LiveSteer(path) as steer:

        def attack() -> None:
            for _ in range(40):
                attackers.enter_context(attacker(steer.address, 4096)).sendall(said)

        unhurt(steer.address, attack, answered_by_tcp)
        assert steer.report()["memory"]["cut_holding"] > 0


def test_a_silent_connection_of_plain_tcp_may_stay_while_nobody_waits(
    tmp_path: Path, pair: tuple[Recorder, Recorder]
):
    limits = f"{BRIEF}\nhold_ms = 0"
    path = describe(tmp_path, *(r.address for r in pair), top='mode = "tcp"', limits=limits)
    with LiveSteer(path) as steer, attacker(steer.address) as peer:
        wait_until(lambda: in_service(steer) == 1)
        for _ in range(20):
            answered_by_tcp(steer.address)
            # Those that are over but not yet closed would make others wait on a busy machine.
            wait_until(lambda: in_service(steer) == 1)
        peer.sendall(b"GET /7 HTTP/1.1\r\nHost: h\r\n\r\n")
        assert peer.recv(1 << 16).startswith(b"HTTP/1.1 200 OK")
        assert steer.report()["memory"]["cut_holding"] == 0


def test_whoever_is_alone_with_a_machine_may_be_slow(
    tmp_path: Path, pair: tuple[Recorder, Recorder]
):
    limits = "answer_bytes = 65536\nhold_ms = 0"
    path = describe(tmp_path, *(r.address for r in pair), limits=limits)
    with LiveSteer(path) as steer, attacker(steer.address, 4096) as peer:
        peer.sendall(b"GET /%d HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n" % len(BODY))
        wait_until(lambda: in_service(steer) == 1)
        assert status(get(steer.address)) == 200
        read = sum(len(piece) for piece in pieces(peer))
        memory = steer.report()["memory"]
    assert read > len(BODY)
    assert (memory["cut_holding"], memory["cut_slow"]) == (0, 0)


def pieces(peer: socket.socket) -> Iterator[bytes]:
    while piece := peer.recv(1 << 16):
        yield piece


def test_answers_without_bytes_end_at_once(tmp_path: Path, pair: tuple[Recorder, Recorder]):
    path = describe(tmp_path, *(r.address for r in pair))
    with LiveSteer(path) as steer, attacker(steer.address) as peer:
        peer.sendall(b"GET /0 HTTP/1.1\r\nHost: h\r\n\r\n" * 2)
        data = b""
        # The machine says nothing between the two.
        while data.count(b"Content-Length: 0") < 2:
            data += (more := peer.recv(1 << 16))
            assert more
        assert in_service(steer) == 0


def test_a_rate_floor_drops_who_takes_too_little(tmp_path: Path, pair: tuple[Recorder, Recorder]):
    # Longer than the slack by the floor; shorter by far at what it is read with.
    limits = "response_timeout_ms = 300\nclient_bytes_per_s = 1000000"
    path = describe(tmp_path, *(r.address for r in pair), limits=limits)
    request = b"GET /%d HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n" % len(BODY)
    with LiveSteer(path) as steer:
        with attacker(steer.address, 4096) as idle, attacker(steer.address) as eager:
            idle.sendall(request)
            eager.sendall(request)
            assert sum(len(piece) for piece in pieces(eager)) > len(BODY)
            wait_until(lambda: steer.report()["memory"]["cut_slow"] == 1)
            with contextlib.suppress(ConnectionResetError):
                assert sum(len(piece) for piece in pieces(idle)) < len(BODY)
        wait_until(lambda: steer.report()["memory"]["bytes"] == 0)


def test_connections_of_one_client_are_limited(tmp_path: Path, pair: tuple[Recorder, Recorder]):
    path = describe(tmp_path, *(r.address for r in pair), limits="client_connections = 5")
    with LiveSteer(path) as steer, contextlib.ExitStack() as open_ones:
        for _ in range(5):
            open_ones.enter_context(attacker(steer.address))
        wait_until(lambda: steer.report()["connections"] == 5)
        assert status(attacker(steer.address).recv(1000)) == 503
        assert status(get(steer.address)) == 200


@contextlib.contextmanager
def running(path: Path, folder: Path) -> Generator[tuple[subprocess.Popen[str], str, str]]:
    """The binary: its process, where it listens, where its metrics are."""
    words = ["--config", str(path), "--metrics", "127.0.0.1:0"]
    process = subprocess.Popen(
        [binary("halfwink-steer"), *words], stderr=subprocess.PIPE, text=True, cwd=folder
    )
    assert process.stderr is not None
    said: list[str] = []
    try:
        while not said or not said[-1].endswith("ready\n"):
            said.append(process.stderr.readline())
            assert said[-1], "".join(said)
        address = next(line.split()[-1] for line in said if "listening at" in line)
        metrics = next(line.split()[-1] for line in said if "metrics:" in line)
        yield process, address, metrics.removeprefix("http://").removesuffix("/metrics")
    finally:
        process.kill()
        process.communicate()


def sample(metrics: str, name: str) -> float:
    """A value of the page of metrics."""
    lines = get(metrics, "/metrics").decode().splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith(f"{name} "))


def memory_kb(process: subprocess.Popen[str]) -> int:
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def open_window(peer: socket.socket) -> None:
    """Begins HTTP/2, and waits until the proxy has opened the window of the connection."""
    peer.sendall(http2(65535) + frame(4, 1, 0))
    with peer.makefile("rb") as frames:
        while (head := frames.read(9))[3] != 8:
            frames.read(int.from_bytes(head[:3], "big"))


def half_sent(address: str, kind: str) -> list[socket.socket]:
    """120 clients, each with all of its bodies but the last byte."""
    peers: list[socket.socket] = []
    for _ in range(120):
        peer = attacker(address)
        peers.append(peer)
        with contextlib.suppress(OSError):
            if kind == "http1":
                peer.sendall(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3000000\r\n\r\n")
                peer.sendall(BODY[:2_999_999])
            else:
                open_window(peer)
                for n in range(15):
                    stream = 1 + 2 * n
                    peer.sendall(headers(stream, b"/", method=0x83, ends=False))
                    peer.sendall(frame(0, 0, stream, BODY[:16000]))
    return peers


@pytest.mark.parametrize("kind", ["http1", "http2"])
def test_half_sent_bodies_have_a_budget_and_give_memory_back(
    tmp_path: Path, pair: tuple[Recorder, Recorder], kind: str
):
    most = 16 << 20
    limits = f"memory_bytes = {2 * most}\nclient_memory_bytes = {most}\nbuffer_bytes = 4000000\n"
    limits += "body_timeout_ms = 600000"
    path = describe(tmp_path, *(r.address for r in pair), limits=limits)

    def trial() -> tuple[int, int]:
        with running(path, tmp_path) as (process, address, metrics):
            times(address, 20)
            before = memory_kb(process)
            peers = half_sent(address, kind)
            wait_until(lambda: sample(metrics, "halfwink_steer_memory_refused_total") > 0)
            # An honest client has a part of its own.
            body = BODY[: 1 << 20]
            head = b"POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
            assert status(talk(address, head % len(body) + body)) == 200
            assert times(address, 20)
            assert sample(metrics, "halfwink_steer_waiting_peak_bytes") <= most + (2 << 20)
            # Twice the budget, for the vectors that grow, and what connections have of their own.
            wait_until(lambda: memory_kb(process) - before < 3 * most >> 10)
            grown = memory_kb(process) - before
            for peer in peers:
                peer.close()
            wait_until(lambda: sample(metrics, "halfwink_steer_waiting_bytes") == 0)
            # Of 360 MB that were sent; what had been returned before is not in `grown`.
            most_kb = max(grown // 4, 6000)
            with contextlib.suppress(AssertionError):
                wait_until(lambda: memory_kb(process) - before < most_kb, 20)
            return memory_kb(process) - before, most_kb

    # Beside busy neighbours memory sometimes stays, for a reason that is not known yet.
    undisturbed(
        trial,
        lambda found: None if found[0] < found[1] else f"{found[0]} kB stay, of {found[1]}",
    )


def test_silent_collectors_delay_neither_metrics_nor_the_end(
    tmp_path: Path, pair: tuple[Recorder, Recorder], attackers: contextlib.ExitStack
):
    path = describe(tmp_path, *(r.address for r in pair), limits="drain_ms = 1")
    with running(path, tmp_path) as (process, _, metrics):
        silent = [attackers.enter_context(attacker(metrics)) for _ in range(40)]
        for peer in silent:
            peer.sendall(b"G")
        ends = threading.Event()
        threading.Thread(target=send_slowly, args=(silent, ends), daemon=True).start()
        for _ in range(20):
            assert status(get(metrics, "/metrics")) == 200
        begun = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        # Its deadline for one client is longer.
        assert time.monotonic() - begun < 5
        ends.set()


def send_slowly(peers: list[socket.socket], ends: threading.Event) -> None:
    """A byte of a request on each, now and again."""
    while not ends.wait(0.05):
        for peer in peers:
            with contextlib.suppress(OSError):
                peer.sendall(b"E")


def test_metrics_are_there_while_it_drains(tmp_path: Path, pair: tuple[Recorder, Recorder]):
    never = threading.Event()

    def hang(_: bytes, _peer: socket.socket) -> None:
        never.wait(60)

    for one in pair:
        one.answer = hang
    path = describe(tmp_path, *(r.address for r in pair), limits="drain_ms = 60000")
    with running(path, tmp_path) as (process, address, metrics), attacker(address) as peer:
        peer.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        wait_until(lambda: any(one.seen for one in pair))
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: refuses(address))
        # Those that looked whether it refuses go in a moment.
        wait_until(lambda: sample(metrics, "halfwink_steer_connections") == 1)
        assert process.poll() is None
        never.set()


def refuses(address: str) -> bool:
    """Whether nothing listens there any more."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 60).close()
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:
        # It came while the listener was closed.
        return False
    return False
