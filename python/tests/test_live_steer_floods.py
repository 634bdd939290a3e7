"""Floods of HTTP/2 frames beside honest clients: each connection that floods is cut off by count,
and honest requests are answered as if it were not there."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Generator
from pathlib import Path

import pytest
from conftest import need, wait_until
from steer_bed import Recorder, describe, get, status
from test_live_steer_hostile import answer, attacker, frame, headers, http2

from halfwink.live.steer import LiveSteer

#: Frames of a flood.
MANY = 50_000
#: Frames that a connection may send beyond what its requests and its data earn.
MOST = 1000
CALM = 11
POST = headers(1, b"/2", method=0x83, ends=False)
#: A field of 3,000 bytes for the dynamic table, and 12,000 bytes that each repeat it.
BOMB = b"\x82\x86\x04\x01/\x41\x01h\x40\x01x\x7f\xb9\x16" + b"y" * 3000 + b"\xbe" * 12_000
RESETS = b"".join(
    headers(stream, b"/2") + frame(3, 0, stream, (8).to_bytes(4, "big"))
    for stream in range(1, 20_001, 2)
)
FLOODS = {
    "ping": frame(6, 0, 0, bytes(8)) * MANY,
    "pong": frame(6, 1, 0, bytes(8)) * MANY,
    "settings": frame(4, 0, 0) * MANY,
    "window": frame(8, 0, 0, (1).to_bytes(4, "big")) * MANY,
    "priority": frame(2, 0, 1, bytes((0, 0, 0, 3, 0))) * MANY,
    "unknown": frame(0x77, 0, 0, b"x") * MANY,
    "empty data": POST + frame(0, 0, 1) * MANY,
    "continuation": frame(1, 0, 1, b"\x82\x86") + frame(9, 0, 1) * MANY,
    "header bomb": frame(1, 5, 1, BOMB),
    "reset": RESETS,
}


@pytest.fixture
def steer(tmp_path: Path) -> Generator[LiveSteer]:
    with Recorder(answer) as small, Recorder(answer) as big:
        path = describe(tmp_path, small.address, big.address, limits="drain_ms = 100")
        with LiveSteer(path) as steer:
            yield steer


def floods(steer: LiveSteer) -> int:
    return steer.report()["memory"]["cut_flood"]


def flood(address: str, frames: bytes) -> dict[int, int]:
    """Sends a flood, and counts what comes back by type of frame, until the proxy closes."""
    found: dict[int, int] = {}
    with contextlib.closing(attacker(address)) as peer:

        def read() -> None:
            with contextlib.suppress(OSError), peer.makefile("rb") as back:
                while len(head := back.read(9)) == 9:
                    body = back.read(int.from_bytes(head[:3], "big"))
                    found[head[3]] = found.get(head[3], 0) + 1
                    if head[3] == 7:
                        found[-1] = int.from_bytes(body[4:8], "big")

        reader = threading.Thread(target=read)
        reader.start()
        with contextlib.suppress(OSError):
            peer.sendall(http2(65535) + frames)
        reader.join(60)
        assert not reader.is_alive(), "the connection is still open"
    return found


@pytest.mark.parametrize("kind", FLOODS)
def test_a_flood_is_cut_off_by_count(steer: LiveSteer, kind: str):
    found = flood(steer.address, FLOODS[kind])
    wait_until(lambda: floods(steer) == 1)
    # A reset may overtake the last frame, which says why.
    assert found.get(-1, CALM) == CALM
    # Answers to PING and SETTINGS: no more than frames that were let through.
    assert found.get(6, 0) <= MOST
    assert found.get(4, 0) <= MOST + 2
    assert status(get(steer.address, "/2")) == 200
    wait_until(lambda: steer.report()["connections"] == 0)
    assert 'halfwink_steer_cut_total{why="flood"} 1\n' in steer.metrics()


@pytest.mark.parametrize("kind", FLOODS)
def test_honest_clients_do_not_notice_floods(steer: LiveSteer, kind: str):
    stop = threading.Event()
    sent = [0] * 4

    def attack(number: int) -> None:
        while not stop.is_set():
            flood(steer.address, FLOODS[kind])
            sent[number] += 1

    threads = [threading.Thread(target=attack, args=(number,)) for number in range(len(sent))]
    for thread in threads:
        thread.start()
    try:
        # All of them are answered while each attacker comes again and again.
        answered = 0
        while min(sent) < 3:
            assert status(get(steer.address, "/2")) == 200
            answered += 1
        assert answered > 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    wait_until(lambda: floods(steer) == sum(sent))
    report = steer.report()
    assert report["requests"]["connections_refused"] == 0
    assert report["statuses"]["5xx"] == 0


def test_honest_streams_earn_their_frames(steer: LiveSteer):
    program = need("h2load")
    # No more long answers at once than machines have workers: nothing waits for a slow client.
    for path, requests, streams in (("/2", 20_000, 50), ("/1000000", 100, 1)):
        words = [program, "-n", str(requests), "-c", "2", "-m", str(streams), "-w", "16"]
        words += ["-W", "16", f"http://{steer.address}{path}"]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        assert floods(steer) == 0
        assert f"{requests} succeeded, 0 failed" in done.stdout, done.stdout


def test_a_client_that_pings_now_and_then_stays(steer: LiveSteer):
    """More PINGs than the budget, but with requests between: each earns four."""
    with contextlib.closing(attacker(steer.address)) as peer, peer.makefile("rb") as back:
        peer.sendall(http2(65535) + frame(4, 1, 0))
        for number in range(500):
            stream = 1 + 2 * number
            peer.sendall(frame(6, 0, 0, bytes(8)) * 4 + headers(stream, b"/2"))
            ends = False
            while not ends:
                head = back.read(9)
                assert len(head) == 9, number
                assert head[3] != 7, number
                back.read(int.from_bytes(head[:3], "big"))
                ends = head[3] == 0 and head[4] == 1
    assert floods(steer) == 0
