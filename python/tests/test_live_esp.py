"""What the live router encrypts, as an independent reader (tshark) decrypts it."""

from __future__ import annotations

import fcntl
import os
import random
import re
import signal
import struct
import subprocess
from collections.abc import Generator
from ipaddress import ip_address
from pathlib import Path

import pytest
from conftest import need, need_bed

from halfwink.bed import Bed, Live, description
from halfwink.errors import RunError

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


def app(key: str, ends: tuple[str, str], state: Path | str = "state") -> str:
    return f"""kind = "ipsec"
state = "{state}"
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


def send(bed: Bed, seed: int, folder: Path) -> Path:
    """Sends packets through the router that is there; what the sink captured."""
    sent, captured = folder / f"sent{seed}.pcap", folder / f"captured{seed}.pcap"
    types = {4: b"\x08\x00", 6: b"\x86\xdd"}
    write_pcap(sent, [bytes(12) + types[one[0] >> 4] + one for one, _ in packets(seed)])
    replay(bed, sent, captured)
    return captured


def replay(bed: Bed, sent: Path, captured: Path) -> None:
    macs = [bed.mac(bed.router, "rt0")]
    sink = {"capture": str(captured)}
    bed.trial(pps=300, seconds=1, macs=macs, replay=str(sent), sink=sink)


def frames(pcap: Path) -> list[bytes]:
    """All frames of a capture of the sink's."""
    data, at, found = pcap.read_bytes(), 24, list[bytes]()
    while at < len(data):
        length = struct.unpack_from(">I", data, at + 8)[0]
        found.append(data[at + 16 : at + 16 + length])
        at += 16 + length
    return found


def datagram(packet: bytes) -> bytes:
    """What is behind the header of an IP packet."""
    return packet[20 if packet[0] >> 4 == 4 else 40 :]


def to_the_router(pcap: Path, out: Path) -> Path:
    """ESP packets as if the generator had sent them to the router: who is outside is not
    authenticated."""
    made: list[bytes] = []
    for frame in frames(pcap):
        if frame[12:14] == b"\x08\x00" and frame[23] == 50:
            ends = ip_address("10.1.0.2").packed + ip_address("10.1.0.1").packed
            head = frame[14:24] + bytes(2) + ends
            outer = head[:10] + struct.pack(">H", checksum(head)) + ends
            made.append(bytes(12) + b"\x08\x00" + outer + frame[34:])
    assert len(made) == FRAMES
    write_pcap(out, made)
    return out


def kill(live: Live) -> None:
    """As the kernel's out-of-memory killer does."""
    live.process.signal(signal.SIGKILL)
    live.process.popen.wait(120)


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


KEY, ENDS = "0x" + "5a" * 20, ("10.2.0.1", "10.2.0.2")
#: Sequence numbers that a sender reserves at a time, and a receiver that has not had many.
BLOCK, LEAST_BLOCK = 1 << 18, 128


def inbound(state: Path) -> str:
    """The other end of `app`, with what `to_the_router` makes."""
    return f"""kind = "ipsec"
state = "{state}"
[[app.inbound]]
spi = {SPI}
local = "10.1.0.1"
peer = "10.1.0.2"
key = "{KEY}"
selectors = ["10.1.0.0/24", "fd01::/64"]"""


def numbers(tshark: str, pcap: Path, home: Path) -> tuple[list[int], list[str]]:
    """Sequence numbers and initialisation vectors on the wire, sorted."""
    fields = ("-T", "fields", "-e", "esp.sequence", "-e", "esp.iv")
    lines = read(tshark, pcap, home, *decrypting(KEY, ENDS), *fields).splitlines()
    found, vectors = zip(*(line.split() for line in lines), strict=True)
    return sorted(map(int, found)), sorted(vectors)


def sent_in_three_lives(bed: Bed, folder: Path) -> list[Path]:
    """What a router sends that is killed, started again, ended in good order, started again."""
    text = description(io="af-packet", app=app(KEY, ENDS, folder / "sender"))
    captured: list[Path] = []
    for life in range(3):
        with Live(bed, text) as live:
            captured.append(send(bed, life, folder))
            if life == 0:
                kill(live)
    return captured


def test_a_sender_that_is_killed_repeats_no_nonce(bed: Bed, tshark: str, tmp_path: Path):
    lives = [numbers(tshark, pcap, tmp_path) for pcap in sent_in_three_lives(bed, tmp_path)]
    # A crash costs the rest of what was reserved; an end in good order costs nothing.
    for (found, _), first in zip(lives, (1, BLOCK + 1, BLOCK + 1 + FRAMES), strict=True):
        assert found == list(range(first, first + FRAMES))
    vectors = [vector for _, of_life in lives for vector in of_life]
    assert len(vectors) == len(set(vectors)) == 3 * FRAMES


def test_a_receiver_that_is_killed_takes_nothing_again(bed: Bed, tmp_path: Path):
    old, new, newest = (
        to_the_router(pcap, tmp_path / f"esp{n}.pcap")
        for n, pcap in enumerate(sent_in_three_lives(bed, tmp_path))
    )
    text = description(io="af-packet", app=inbound(tmp_path / "receiver"))
    got = tmp_path / "got.pcap"
    # One hop more than the sender's; some have none left.
    laters = [later for _, later in packets(0)]
    wanted = sorted(datagram(one) for one in laters if one[8 if one[0] >> 4 == 4 else 7] > 1)
    with Live(bed, text) as live:
        replay(bed, old, got)
        taken = {datagram(one[14:]) for one in frames(got)} & set(wanted)
        # A disk that is slow at this very moment costs some.
        assert len(taken) > FRAMES // 2
        kill(live)
    with Live(bed, text) as live:
        replay(bed, old, got)
        assert not [one for one in frames(got) if datagram(one[14:]) in taken]
        # Far ahead of the record: the first ones wait for it, and are lost.
        replay(bed, new, got)
        replay(bed, newest, got)
        counts = live.result()["packets"]
    late = counts["drop_esp_unrecorded"]
    assert counts["drop_esp_replay"] >= len(taken)
    assert counts["esp_decrypted"] + counts["drop_esp_replay"] + late == 3 * FRAMES
    assert counts["esp_decrypted"] > FRAMES
    # Ended in good order: exactly what came is refused.
    with Live(bed, text) as live:
        replay(bed, newest, got)
        counts = live.result()["packets"]
    assert counts["drop_esp_replay"] >= FRAMES - late


def test_a_full_disk_stops_it_and_is_named(bed: Bed, tmp_path: Path):
    esp = to_the_router(sent_in_three_lives(bed, tmp_path)[0], tmp_path / "esp.pcap")
    state = tmp_path / "full"
    state.mkdir()
    # Room for one record, but not for the next one beside it; nobody else sees the mount.
    mount = f'mount -t tmpfs -o size=4k none {state} && exec "$@"'
    text = description(io="af-packet", app=inbound(state))
    with Live(bed, text, under=["unshare", "--mount", "sh", "-c", mount, "sh"]) as live:
        replay(bed, esp, tmp_path / "got.pcap")
        report = live.result()
        said = live.said()
    counts = report["packets"]
    assert counts["esp_decrypted"] == LEAST_BLOCK
    assert counts["drop_esp_unrecorded"] == FRAMES - LEAST_BLOCK
    assert report["unrecorded"].startswith(f"{state}/inbound-")
    assert "No space left on device" in report["unrecorded"]
    assert f"{report['unrecorded']}: SPI {SPI:#x}, inbound, has " in said


def test_a_damaged_record_is_refused_with_its_name(bed: Bed, tmp_path: Path):
    text = description(io="af-packet", app=inbound(tmp_path))
    with Live(bed, text):
        pass
    record = next(path for path in tmp_path.glob("inbound-*") if path.suffix == "")
    good = record.read_text()
    record.write_text(good.replace("reserved 0", "reserved 1"))
    with pytest.raises(RunError, match=f"{record}: damaged: line 6"):
        Live(bed, text)
    record.write_text(good)
    # As a router with other interfaces does that was given the same association.
    with record.with_name(f"{record.name}.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(RunError, match="another process uses this association"):
            Live(bed, text)
    with Live(bed, text), pytest.raises(RunError, match="another router of halfwink has it"):
        Live(bed, text)
