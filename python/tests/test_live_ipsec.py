"""The live router's ESP, against Linux's: a guest's kernel is the other end of the tunnel."""

from __future__ import annotations

import signal
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import lacking, need, need_bed, need_qemu
from xfrm_guest import BEHIND_GENERATOR, BEHIND_SINK, XfrmGuest

from halfwink.bed import Bed, Live, description
from halfwink.capture import host

pytestmark = pytest.mark.qemu

OUTBOUND, INBOUND = 0x1001, 0x1002
#: Each way's key of 256 bits with its salt; shorter ones are made of their ends.
KEYS = ("0123456789abcdef" * 4 + "aabbccdd", "fedcba9876543210" * 4 + "11223344")
#: The longest inner packet: 1500 - 20 (outer) - 8 (ESP) - 8 (IV) - 16 (tag), whole words, less 2.
INNER_MTU = (1500 - 20 - 8 - 8 - 16) // 4 * 4 - 2
ROUTES = """10.3.0.0/24 via 10.2.0.2
198.18.0.0/15 via 10.2.0.2
fd03::/64 via fd02::2
2001:2::/48 via fd02::2
192.0.2.0/24 via 10.1.0.2
2001:db8::/32 via fd01::2
"""
FAR = ("10.3.0.0/24", "fd03::/64", *BEHIND_SINK)
NEAR = ("10.1.0.0/24", "fd01::/64", *BEHIND_GENERATOR)


@dataclass(frozen=True)
class Tunnel:
    """What both ends are told."""

    bits: int = 128
    esn: bool = False
    outer: tuple[str, str] = ("10.2.0.1", "10.2.0.2")
    state: str = "state"

    def hex_keys(self) -> list[str]:
        return ["0x" + key[-(self.bits // 4 + 8) :] for key in KEYS]

    def app(self) -> str:
        """The router's."""
        lines = ['kind = "ipsec"', f'state = "{self.state}"']
        ways = (("outbound", OUTBOUND), ("inbound", INBOUND))
        for (way, spi), key in zip(ways, self.hex_keys(), strict=True):
            lines += [f"[[app.{way}]]", f"spi = {spi}", f'key = "{key}"']
            lines += [f'local = "{self.outer[0]}"', f'peer = "{self.outer[1]}"']
            lines += [f"esn = {str(self.esn).lower()}", f"selectors = {list(FAR)}"]
        return "\n".join(lines)

    def tell(self, guest: XfrmGuest, keys: list[str] | None = None) -> None:
        """The guest's."""
        router, peer = self.outer
        guest.flush()
        # af-unspec: packets of both families are inside.
        flags = "flag af-unspec" + (" flag esn" if self.esn else "")
        ways = ((OUTBOUND, router, peer), (INBOUND, peer, router))
        for (spi, source, to), key in zip(ways, keys or self.hex_keys(), strict=True):
            aead = f"aead 'rfc4106(gcm(aes))' {key} 128"
            guest.run(
                f"ip xfrm state add src {source} dst {to} proto esp spi {spi:#x} mode tunnel"
                f" replay-window 32 {flags} {aead}"
            )
        for prefix in NEAR:
            every = "::/0" if ":" in prefix else "0.0.0.0/0"
            for way in ("in", "fwd"):
                ends = f"src {prefix} dst {every} dir {way}"
                template = f"tmpl src {router} dst {peer} proto esp mode tunnel"
                guest.run(f"ip xfrm policy add {ends} {template}")
            ends = f"src {every} dst {prefix} dir out"
            guest.run(
                f"ip xfrm policy add {ends} tmpl src {peer} dst {router} proto esp mode tunnel"
            )


@pytest.fixture(scope="module")
def bed() -> Generator[Bed]:
    need("ping")
    need_bed()
    if not host.is_debian_12():
        lacking("the guest is made from Debian 12's packages", kernel=True)
    need_qemu()
    with Bed() as made:
        yield made


@pytest.fixture(scope="module")
def guest(bed: Bed) -> Generator[XfrmGuest]:
    with XfrmGuest(bed) as made:
        yield made


def live(bed: Bed, tunnel: Tunnel) -> Live:
    text = description(io="af-packet", app=tunnel.app())
    return Live(bed, text, route_lines=ROUTES)


def ping(bed: Bed, to: str, *words: str, back: bool = False) -> str:
    place = bed.sink if back else bed.generator
    return place.run(["ping", "-c", "1", "-W", "4", *words, to], check=False)


def answered(bed: Bed, to: str, count: int, *, back: bool = False) -> bool:
    """Whether each of some echo requests is. They are of as many programs: one that sends several
    waits for the last only twice as long as for those before."""
    return all(" 0% packet loss" in ping(bed, to, back=back) for _ in range(count))


def backwards(bed: Bed, to: str, **options: Any) -> dict[str, Any]:
    """A trial from the sink to the generator: frames sent, and the generator's port's account."""
    sender, watcher = bed.worker("sink"), bed.worker("generator")
    macs = [sender.resolve("sink0", to)]
    watcher.begin("sink", interfaces="gen0", seconds=20, count=options.pop("count"))
    try:
        sender.begin("generator", interfaces="sink0", to=[to], macs=macs, bypass=True, **options)
        sent = sender.result()
        watcher.wait(5)
    finally:
        watcher.stop()
        received = watcher.result()
    return {"sent": sent["frames"]} | received


def dropped(report: dict[str, Any]) -> dict[str, int]:
    """What the router has dropped, without what kernels tell all their neighbours."""
    drops = {n: count for n, count in report["packets"].items() if n.startswith("drop_") and count}
    drops.pop("drop_multicast", None)
    return drops


def echoes(bed: Bed) -> int:
    """Echo requests that the sink's kernel has had whole."""
    lines = bed.sink.run(["cat", "/proc/net/snmp"]).splitlines()
    names, values = (line.split() for line in lines if line.startswith("Icmp:"))
    return int(dict(zip(names, values, strict=True))["InEchos"])


@pytest.mark.parametrize(
    "tunnel",
    [
        Tunnel(),
        Tunnel(bits=256, esn=True),
        Tunnel(esn=True, outer=("fd02::1", "fd02::2")),
    ],
    ids=["128", "256-esn", "v6-esn"],
)
def test_linux_reads_what_we_write_and_we_what_it_writes(
    bed: Bed, guest: XfrmGuest, tunnel: Tunnel
):
    tunnel.tell(guest)
    before = guest.stats()
    with live(bed, tunnel) as router:
        assert answered(bed, "10.3.0.2", 5)
        assert answered(bed, "fd03::2", 5)
        assert answered(bed, "10.1.0.2", 5, back=True)
        for to, from_there in zip(BEHIND_SINK, BEHIND_GENERATOR, strict=True):
            sizes = "80,81,82,83,594,1400"
            options = {"pps": 500, "seconds": 0.6, "flows": 8, "sizes": sizes}
            macs = [bed.mac(bed.router, "rt0")]
            there = bed.trial(to=[to], macs=macs, drain_s=0.5, **options)
            for name in ("lost", "duplicated", "corrupt", "reordered", "sink_drops"):
                assert there[name] == 0, (name, there, guest.stats())
            back = backwards(bed, from_there, count=300, **options)
            assert back["order"]["received"] == back["sent"] == 300
            assert back["corrupt"] == back["order"]["duplicated"] == 0
        report = router.result()
    packets = report["packets"]
    theirs = {spi: guest.association(spi) for spi in (OUTBOUND, INBOUND)}
    # Every packet of ours has been taken once, every one of theirs has been taken by us.
    assert packets["esp_encrypted"] == theirs[OUTBOUND]["packets"] == 15 + 600
    assert packets["esp_decrypted"] == theirs[INBOUND]["packets"] == 15 + 600
    for counts in theirs.values():
        assert (counts["late"], counts["replays"], counts["failed"]) == (0, 0, 0)
    assert guest.stats() == before
    assert dropped(report) == {}


@pytest.mark.parametrize("esn", [False, True])
def test_a_wrong_key_is_dropped_and_counted_at_both_ends(bed: Bed, guest: XfrmGuest, esn: bool):
    tunnel = Tunnel(esn=esn)
    wrong = [key[:-9] + ("0" if key[-9] != "0" else "1") + key[-8:] for key in tunnel.hex_keys()]
    tunnel.tell(guest, wrong)
    before = guest.stats()
    with live(bed, tunnel) as router:
        words = ("-c", "6", "-i", "0.05", "-W", "1")
        assert " 100% packet loss" in ping(bed, "10.3.0.2", *words)
        assert " 100% packet loss" in ping(bed, "10.1.0.2", *words, back=True)
        report = router.result()
    assert guest.association(OUTBOUND)["failed"] == 6
    assert guest.association(OUTBOUND)["packets"] == 0
    was = before.get("XfrmInStateProtoError", 0)
    assert guest.stats() == before | {"XfrmInStateProtoError": was + 6}
    assert dropped(report) == {"drop_esp_authentication": 6}
    assert guest.association(INBOUND)["packets"] == 6


def test_both_ends_say_the_same_mtu(bed: Bed, guest: XfrmGuest):
    tunnel = Tunnel()
    tunnel.tell(guest)
    fits, too_long = str(INNER_MTU - 28), str(INNER_MTU - 27)
    try:
        with live(bed, tunnel) as router:
            for to, by, back in (
                ("10.3.0.2", "10.1.0.1", False),
                ("10.1.0.2", "10.3.0.1", True),
            ):
                assert " 0% packet loss" in ping(bed, to, "-M", "do", "-s", fits, back=back)
                told = ping(bed, to, "-M", "do", "-s", too_long, back=back)
                assert f"From {by} icmp_seq=1 Frag needed and DF set (mtu = {INNER_MTU})" in told
            # Without DF it goes in pieces, each in an ESP packet of its own.
            before = echoes(bed)
            ping(bed, "10.3.0.2", "-M", "dont", "-s", "1472", "-W", "1")
            assert echoes(bed) == before + 1
            report = router.result()
        assert report["packets"]["drop_too_big"] == 1
    finally:
        for place in (bed.generator, bed.sink):
            place.run(["ip", "route", "flush", "cache"])


def test_over_restarts_the_association_goes_on(bed: Bed, guest: XfrmGuest, tmp_path: Path):
    tunnel = Tunnel(state=str(tmp_path))
    tunnel.tell(guest)
    # Ended in good order, both ways go on where they were.
    for _ in range(2):
        with live(bed, tunnel):
            assert answered(bed, "10.3.0.2", 8)
    with live(bed, tunnel) as router:
        assert answered(bed, "10.3.0.2", 8)
        router.process.signal(signal.SIGKILL)
        router.process.popen.wait(120)
    # Linux takes what is ahead at once; its own packets are refused up to what was recorded.
    with live(bed, tunnel) as router:
        ping(bed, "10.3.0.2", "-c", "200", "-i", "0.01", "-W", "1")
        # All before it have been there and back.
        assert answered(bed, "10.3.0.2", 1)
        counts = router.result()["packets"]
    assert counts["drop_esp_replay"] + counts["esp_decrypted"] == 201
    assert 1 < counts["esp_decrypted"] < 201
    found = guest.association(OUTBOUND)
    assert (found["packets"], found["replays"]) == (225, 0)
