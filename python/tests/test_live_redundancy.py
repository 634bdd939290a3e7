"""Two live routers at the ends of a link that carries nothing twice."""

from __future__ import annotations

import json
import random
import signal
import struct
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import need_bed, undisturbed

from halfwink.bed import Bed, Live, Process
from halfwink.bed.places import python

FRAMES, PAYLOAD = 600, 1000
#: Ethernet, IPv4, UDP.
HEADERS = 14 + 20 + 8

#: Both ends of the link: a wire that loses every so many frames of those that go forward, and
#: counts their bytes. It ends, and says so, when it is told to.
WIRE = """
import json, select, signal, socket, sys
every = int(sys.argv[1])
ends = []
for name in ("w0", "w1"):
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    end.setsockopt(socket.SOL_SOCKET, 33, 1 << 23)  # SO_RCVBUFFORCE
    end.bind((name, 0))
    ends.append(end)
count = {"frames": 0, "bytes": 0, "lost": 0}
def stop(*_):
    print(json.dumps(count), flush=True)
    sys.exit()
signal.signal(signal.SIGTERM, stop)
print("ready", flush=True)
while True:
    for end in select.select(ends, [], [])[0]:
        frame, address = end.recvfrom(2048)
        if address[2] == socket.PACKET_OUTGOING:
            continue
        if end is ends[0] and len(frame) > 60:
            count["frames"] += 1
            count["bytes"] += len(frame)
            if every and count["frames"] % every == 0:
                count["lost"] += 1
                continue
        ends[end is ends[0]].send(frame)
"""


@pytest.fixture(scope="module")
def bed() -> Generator[Bed]:
    need_bed()
    with Bed() as made:
        # rt0 [near] link0 = w0 (the wire) w1 = link1 [far] rt1
        for n in (0, 1):
            made.router.shell(
                f"ip link add link{n} type veth peer name w{n}\n"
                f"for port in link{n} w{n}; do\n"
                "echo 1 >/proc/sys/net/ipv6/conf/$port/disable_ipv6\n"
                "ip link set $port up\nethtool -K $port tx off rx off tso off gso off gro off "
                ">/dev/null 2>&1\ndone"
            )
        yield made


def router(ports: list[tuple[str, str]], app: str) -> str:
    lines = ["schema = 1", "workers = 2", 'routes = "routes.txt"']
    for interface, address in ports:
        lines += ["[[port]]", f'interface = "{interface}"', 'io = "af-packet"']
        lines += [f'addresses = ["{address}"]']
    return "\n".join([*lines, "[app]", app, ""])


def end(link: str, peer: str) -> str:
    return f'kind = "redundancy"\nlink = "{link}"\npeer = "{peer}"\nkey = 2012\nsample_bits = 4'


@contextmanager
def routers(bed: Bed, app: bool) -> Generator[tuple[Live, Live]]:
    """Both routers; without the application they only route."""
    route = 'kind = "route"'
    near = router(
        [("rt0", "10.1.0.1/24"), ("link0", "10.9.0.1/24")],
        end("link0", "10.9.0.2") if app else route,
    )
    far = router(
        [("link1", "10.9.0.2/24"), ("rt1", "10.2.0.1/24")],
        end("link1", "10.9.0.1") if app else route,
    )
    there, back = "198.18.0.0/15 via 10.9.0.2\n", "10.1.0.0/24 via 10.9.0.1\n"
    with (
        Live(bed, near, route_lines=there) as first,
        Live(bed, far, route_lines="198.18.0.0/15 via 10.2.0.2\n" + back) as second,
    ):
        yield first, second


@contextmanager
def wire(bed: Bed, lose_every: int) -> Generator[Process]:
    pipes = {"stdout": -1, "text": True}
    process = bed.router.start([python(), "-c", WIRE, str(lose_every)], **pipes)
    assert process.popen.stdout is not None
    assert process.popen.stdout.readline() == "ready\n"
    try:
        yield process
    finally:
        process.stop()
        process.popen.stdout.close()


def packets() -> list[bytes]:
    """UDP packets; two in three have parts of earlier ones, at other places."""
    chance = random.Random(7)
    made: list[bytes] = []
    bodies: list[bytes] = []
    for n in range(FRAMES):
        body = bytearray(chance.randbytes(PAYLOAD))
        if n % 3 and bodies:
            old, length = chance.choice(bodies[-100:]), chance.randrange(300, 800)
            at, to = (chance.randrange(PAYLOAD - length) for _ in range(2))
            body[to : to + length] = old[at : at + length]
        bodies.append(bytes(body))
        made.append(struct.pack(">4H", 20_000 + n % 20, 9, 8 + PAYLOAD, 0) + bodies[-1])
    return made


def write(path: Path, udp: list[bytes]) -> None:
    """A pcap file of such packets from the generator to behind the sink."""
    ends = bytes([10, 1, 0, 2, 198, 18, 0, 7])
    with path.open("wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for n, body in enumerate(udp):
            head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(body), n, 0, 64, 17, 0) + ends
            total = sum(struct.unpack(">10H", head))
            total = (total & 0xFFFF) + (total >> 16)
            head = head[:10] + struct.pack(">H", ~total & 0xFFFF) + head[12:]
            frame = bytes(12) + b"\x08\x00" + head + body
            out.write(struct.pack("<IIII", 1, n, len(frame), len(frame)) + frame)


def captured(path: Path) -> list[bytes]:
    """UDP packets of a pcap file, whose IPv4 headers are good."""
    data = path.read_bytes()
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    found: list[bytes] = []
    at = 24
    while at < len(data):
        length = struct.unpack_from(order + "I", data, at + 8)[0]
        frame = data[at + 16 : at + 16 + length]
        at += 16 + length
        if frame[12:14] == b"\x08\x00" and frame[23] == 17:
            total = sum(struct.unpack_from(">10H", frame, 14))
            assert (total & 0xFFFF) + (total >> 16) == 0xFFFF
            assert frame[22] == 62, "two hops"
            found.append(frame[34:])
    return found


def send(bed: Bed, folder: Path, udp: list[bytes], *, app: bool, lose_every: int = 0) -> Any:
    """What arrived, what the wire saw, and both routers' packets; lost is what the wire loses and
    what the far router cannot decode, unless a thread waits too long for a CPU."""

    def wrong(found: Any) -> str | None:
        arrived, count, _, far = found
        missing = far.get("drop_redundancy_missing", 0)
        is_whole = len(arrived) == len(udp) - count["lost"] - missing
        return None if is_whole else f"{len(arrived)} of {len(udp)} arrived: {found[1:]}"

    return undisturbed(lambda: _sent(bed, folder, udp, app, lose_every), wrong)


def _sent(bed: Bed, folder: Path, udp: list[bytes], app: bool, lose_every: int) -> Any:
    sent, arrived = folder / "sent.pcap", folder / "arrived.pcap"
    write(sent, udp)
    with wire(bed, lose_every) as middle:
        with routers(bed, app) as (near, far):
            bed.trial(
                pps=600,
                seconds=len(udp) / 600 + 1,
                macs=[bed.mac(bed.router, "rt0")],
                replay=str(sent),
                sink={"capture": str(arrived)},
                drain_s=0.4,
            )
            reports = [live.result()["packets"] for live in (near, far)]
        middle.signal(signal.SIGTERM)
        assert middle.popen.stdout is not None
        count = json.loads(middle.popen.stdout.readline())
    return captured(arrived), count, *reports


def test_repeated_bytes_cross_once_and_arrive_as_they_were(bed: Bed, tmp_path: Path):
    udp = packets()
    plain, plainly, _, _ = send(bed, tmp_path, udp, app=False)
    assert Counter(plain) == Counter(udp)
    assert plainly["bytes"] == FRAMES * (HEADERS + PAYLOAD)
    found, count, near, far = send(bed, tmp_path, udp, app=True)
    assert Counter(found) == Counter(udp)
    saved = 1 - count["bytes"] / plainly["bytes"]
    print(f"{plainly['bytes']} bytes fell to {count['bytes']}: {saved:.1%} saved")
    # 400 of 600 packets repeat 550 of 1000 bytes in the mean: 36 % at most.
    # Each worker's encoder has a store of its own: a change of worker costs some.
    assert 0.2 < saved < 0.37
    assert near["redundancy_saved_bytes"] == plainly["bytes"] - count["bytes"]
    assert near["redundancy_encoded"] == far["redundancy_decoded"] > 300
    assert far["drop_redundancy_missing"] == near["redundancy_refused"] == 0


def test_frames_lost_on_the_link_are_survived(bed: Bed, tmp_path: Path):
    udp = packets()
    found, count, near, far = send(bed, tmp_path, udp, app=True, lose_every=20)
    assert count["lost"] == FRAMES // 20
    # What arrives is whole; what does not was lost, or referred to what was.
    assert not Counter(found) - Counter(udp)
    missing = far["drop_redundancy_missing"]
    assert len(found) == FRAMES - count["lost"] - missing
    assert 0 < missing < FRAMES // 10
    assert near["redundancy_refused"] > 0
    # It goes on to the end.
    assert near["redundancy_encoded"] > 200
    assert len(set(found) & set(udp[-50:])) > 35
    assert {far[name] for name in ("drop_redundancy_bad", "drop_redundancy_mismatch")} == {0}
