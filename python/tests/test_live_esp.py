"""What the live router encrypts, as an independent reader (tshark) decrypts it."""

from __future__ import annotations

import os
import random
import re
import struct
import subprocess
import time
from collections.abc import Generator
from ipaddress import ip_address
from pathlib import Path

import pytest
from conftest import need, need_bed

from halfwink.bed import Bed, Live, description

SPI = 0x1001
FRAMES = 150
#: Bytes of UDP payload: 1500 - 40 - 16 - 16 in whole words, less the trailer, less both headers.
LONGEST = 1500 - 40 - 16 - 16 - 2 - 48


@pytest.fixture(scope="module")
def tshark() -> str:
    return need("tshark")


@pytest.fixture(scope="module")
def bed(tshark: str) -> Generator[Bed]:
    need_bed()
    with Bed() as made:
        yield made


def app(key: str, ends: tuple[str, str]) -> str:
    return f"""kind = "ipsec"
[[app.outbound]]
spi = {SPI}
local = "{ends[0]}"
peer = "{ends[1]}"
key = "{key}"
selectors = ["198.18.0.0/15", "2001:2::/48"]"""


def checksum(header: bytes) -> int:
    total = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def packet(payload: bytes, hops: int, flow: int, six: bool) -> bytes:
    """A UDP packet from the generator to behind the sink."""
    # Port 9 discards. Checksums of UDP are not the router's: without (4), any (6).
    udp = struct.pack(">4H", 50_000 + flow, 9, 8 + len(payload), 0xABCD if six else 0) + payload
    if six:
        head = struct.pack(">IHBB", 0x6000_0000, len(udp), 17, hops)
        return head + ip_address("fd01::2").packed + ip_address("2001:2::7").packed + udp
    ends = ip_address("10.1.0.2").packed + ip_address("198.18.0.7").packed
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), flow, 0, hops, 17, 0) + ends
    return head[:10] + struct.pack(">H", checksum(head)) + head[12:] + udp


def packets(seed: int) -> list[tuple[bytes, bytes]]:
    """Packets of many lengths: as they are sent, and as they are one hop later."""
    chance = random.Random(seed)
    made: list[tuple[bytes, bytes]] = []
    for n in range(FRAMES):
        # All paddings, the longest that fits (IPv6 in IPv6), and what is between.
        length = n if n < 16 else chance.choice([chance.randrange(LONGEST), LONGEST])
        payload, hops, six = chance.randbytes(length), chance.randrange(2, 256), n % 3 == 0
        made.append(tuple(packet(payload, h, n, six) for h in (hops, hops - 1)))
    return made


def write_pcap(path: Path, frames: list[bytes]) -> None:
    with path.open("wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for n, frame in enumerate(frames):
            out.write(struct.pack("<IIII", 1, n, len(frame), len(frame)) + frame)


def encrypt(bed: Bed, tmp_path: Path, app_text: str, seed: int) -> tuple[Path, list[bytes]]:
    """Sends packets through a router; what the sink captured, and the packets one hop later."""
    sent, captured = tmp_path / f"sent{seed}.pcap", tmp_path / f"captured{seed}.pcap"
    made = packets(seed)
    types = {4: b"\x08\x00", 6: b"\x86\xdd"}
    write_pcap(sent, [bytes(12) + types[packet[0] >> 4] + packet for packet, _ in made])
    with Live(bed, description(io="af-packet", app=app_text)) as live:
        bed.trial(
            pps=1000,
            seconds=1,
            macs=[bed.mac(bed.router, "rt0")],
            replay=str(sent),
            sink={"capture": str(captured)},
        )
        report = live.result()
    assert report["packets"]["esp_encrypted"] == FRAMES
    return captured, [later for _, later in made]


def read(tshark: str, pcap: Path, home: Path, *words: str) -> str:
    """What tshark says of the ESP packets, without settings of anybody's."""
    done = subprocess.run(
        # Random bytes are of no protocol.
        [tshark, "-r", str(pcap), "-Y", "esp", "-d", "udp.port==9,data", *words],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"HOME": str(home), "XDG_CONFIG_HOME": str(home)},
    )
    return done.stdout


def decrypting(key: str, ends: tuple[str, str]) -> list[str]:
    """Options that give tshark the association."""
    family = "IPv6" if ":" in ends[0] else "IPv4"
    cipher = "AES-GCM with 16 octet ICV [RFC4106]"
    row = ",".join(f'"{v}"' for v in (family, *ends, f"{SPI:#010x}", cipher, key, "NULL", ""))
    settings = ("esp.enable_encryption_decode:TRUE", "esp.enable_authentication_check:TRUE")
    return [word for value in (*settings, f"uat:esp_sa:{row}") for word in ("-o", value)]


def inner_packets(dump: str) -> list[bytes]:
    """The packets in tshark's dumps of what it decrypted, without padding and trailer."""
    found: list[bytes] = []
    for part in dump.split("Decrypted Data")[1:]:
        rows = re.findall(r"^[0-9a-f]{4}  ((?:[0-9a-f]{2} )+)", part.split("\n\n")[0], re.M)
        data = bytes.fromhex("".join(rows))
        length = struct.unpack_from(">H", data, 2 if data[0] >> 4 == 4 else 4)[0]
        found.append(data[: length + (0 if data[0] >> 4 == 4 else 40)])
    return found


@pytest.mark.parametrize(
    ("key", "ends"),
    [
        ("0x" + "0123456789abcdef" * 2 + "aabbccdd", ("10.2.0.1", "10.2.0.2")),
        ("0x" + "fedcba9876543210" * 4 + "11223344", ("fd02::1", "fd02::2")),
    ],
    ids=["128-v4", "256-v6"],
)
def test_tshark_finds_the_packets_that_were_sent(
    bed: Bed, tshark: str, tmp_path: Path, key: str, ends: tuple[str, str]
):
    captured, wanted = encrypt(bed, tmp_path, app(key, ends), 1)
    options = decrypting(key, ends)
    found = inner_packets(read(tshark, captured, tmp_path, *options, "-x"))
    # Flows may overtake each other.
    assert sorted(found) == sorted(wanted)
    icv = read(tshark, captured, tmp_path, *options, "-T", "fields", "-e", "esp.icv_good")
    assert icv.split() == ["1"] * FRAMES
    wrong = key[:-9] + ("0" if key[-9] != "0" else "1") + key[-8:]
    options = decrypting(wrong, ends)
    icv = read(tshark, captured, tmp_path, *options, "-T", "fields", "-e", "esp.icv_good")
    # What makes no sense as a packet inside may hide the verdict, but none is good.
    assert set(icv.split()) == {"0"}


def test_two_runs_share_no_initialisation_vector(bed: Bed, tshark: str, tmp_path: Path):
    key, ends = "0x" + "5a" * 20, ("10.2.0.1", "10.2.0.2")
    used: list[int] = []
    for seed in (1, 2):
        before = time.time_ns()
        captured, _ = encrypt(bed, tmp_path, app(key, ends), seed)
        fields = ("-T", "fields", "-e", "esp.sequence", "-e", "esp.iv")
        lines = read(tshark, captured, tmp_path, *decrypting(key, ends), *fields).splitlines()
        numbers, vectors = zip(*(line.split() for line in lines), strict=True)
        assert sorted(map(int, numbers)) == list(range(1, FRAMES + 1)), "they begin anew"
        mine = [int(vector.replace(":", ""), 16) for vector in vectors]
        assert before < min(mine) <= max(mine) < time.time_ns() + FRAMES
        used += mine
    assert len(used) == len(set(used)) == 2 * FRAMES
