"""The live router with keys from the kernel's table, where a daemon for IKE would put them: the
other end of the tunnel is a kernel, the table is another's."""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest
from conftest import lacking, need, need_qemu, wait_until
from keys_guest import BEHIND, NEAR, PEER, PLUGINS, ROUTER, KeysGuest
from test_daemons import binary

from halfwink.capture import host

pytestmark = pytest.mark.qemu

#: Each association has an SPI and a key of its own, as those of a daemon have.
SPIS = itertools.count(0x1001)
ROUTER_TOML = f"""schema = 1
routes = "/tmp/routes.txt"
[[port]]
interface = "rt0"
io = "af-packet"
addresses = ["10.1.0.1/24"]
[[port]]
interface = "rt1"
io = "af-packet"
addresses = ["{ROUTER}/24"]
[app]
kind = "ipsec"
keys = "kernel"
state = "/tmp/state"
[[app.tunnel]]
local = "{ROUTER}"
peer = "{PEER}"
selectors = ["10.3.0.0/24"]
"""


@pytest.fixture(scope="module")
def guest() -> Generator[KeysGuest]:
    need("ip", "ping")
    if not host.is_debian_12():
        lacking("the guest is made from Debian 12's packages", kernel=True)
    need_qemu()
    with KeysGuest(binary("halfwink-router")) as made:
        made.write("/tmp/router.toml", ROUTER_TOML)
        made.write("/tmp/routes.txt", f"10.3.0.0/24 via {PEER}")
        yield made


class Live:
    """The router in the guest."""

    def __init__(self, guest: KeysGuest) -> None:
        self._guest = guest
        guest.run("rm -f /tmp/report.json /tmp/said.txt")
        words = "--config /tmp/router.toml --library /library --report /tmp/report.json"
        exec_ = f"echo $$ >/tmp/pid; exec /halfwink/halfwink-router {words}"
        guest.run(f"ip netns exec rt sh -c '{exec_}' >/tmp/said.txt 2>&1 & job=$!")
        try:
            self.says("ready")
        except AssertionError:
            raise AssertionError(self.said()) from None

    def says(self, what: str) -> None:
        """Waits until it has said something."""
        self._guest.wait(f"grep -q '{what}' /tmp/said.txt")

    def said(self) -> str:
        return self._guest.run("cat /tmp/said.txt")

    def stop(self) -> dict[str, Any]:
        """Ends it in good order; what it counted."""
        self._guest.run("kill $(cat /tmp/pid); wait $job || true")
        report = json.loads(self._guest.run("cat /tmp/report.json"))
        return report["packets"]


@contextmanager
def live(guest: KeysGuest) -> Generator[Live]:
    router = Live(guest)
    try:
        yield router
    finally:
        guest.run("kill $(cat /tmp/pid) 2>/dev/null; wait $job || true")
        for place in ("rt", "peer"):
            guest.run(f"ip -n {place} xfrm state flush; ip -n {place} xfrm policy flush")


def key(spi: int, bits: int = 128) -> str:
    return "0x" + f"{spi:08x}" * (bits // 32) + "aabbccdd"


def add(guest: KeysGuest, spi: int, *, out: bool, places: str = "rt peer", more: str = "") -> None:
    """Gives one way of the tunnel an association, as seen by the router: at both ends, or one."""
    source, to = (ROUTER, PEER) if out else (PEER, ROUTER)
    for place in places.split():
        guest.run(
            f"ip -n {place} xfrm state add src {source} dst {to} proto esp spi {spi:#x} mode tunnel"
            f" replay-window 32 {more} aead 'rfc4106(gcm(aes))' {key(spi)} 128"
        )


def policies(guest: KeysGuest) -> None:
    """The other end's: what it sends is encrypted, and only what was is taken."""
    back = "src 10.3.0.0/24 dst 10.1.0.0/24 dir out"
    guest.run(
        f"ip -n peer xfrm policy add {back} tmpl src {PEER} dst {ROUTER} proto esp mode tunnel"
    )
    there = "src 10.1.0.0/24 dst 10.3.0.0/24 dir in"
    guest.run(
        f"ip -n peer xfrm policy add {there} tmpl src {ROUTER} dst {PEER} proto esp mode tunnel"
    )


def ping(guest: KeysGuest, count: int = 5) -> tuple[int, int]:
    """Echo requests through the tunnel that were sent, and answered. Each is of a program of its
    own: one that sends several waits for the last only twice as long as for those before."""
    one = f"ip netns exec gen /halfwink/ping -W 3 -c 1 -I {NEAR} {BEHIND}"
    text = guest.run(f"(for n in $(seq {count}); do {one} & done; wait); true")
    found = re.findall(r"(\d+) packets transmitted, (\d+) received", text)
    assert len(found) == count, text
    return sum(int(sent) for sent, _ in found), sum(int(back) for _, back in found)


def echoes(guest: KeysGuest) -> tuple[int, int]:
    """Echo requests that the kernel where the traffic comes from has sent, and answers it got."""
    text = guest.inside("gen", "grep IcmpMsg /proc/net/snmp")
    names, values = (line.split()[1:] for line in text.strip().splitlines()[-2:])
    found = dict(zip(names, map(int, values), strict=True))
    return found.get("OutType8", 0), found.get("InType0", 0)


class Traffic:
    """Echo requests that go on until the context ends; then how many were sent in it, and
    answered, with those of others."""

    def __init__(self, guest: KeysGuest) -> None:
        self._guest = guest
        self.sent = self.back = 0

    def __enter__(self) -> Traffic:
        self._before = echoes(self._guest)
        self._guest.run("rm -f /tmp/enough")
        some = f"ip netns exec gen /halfwink/ping -i 0.01 -c 40 -W 5 -I {NEAR} {BEHIND}"
        loop = f"until test -e /tmp/enough; do {some}; done"
        self._guest.run(f"({loop}) >/tmp/ping.txt 2>&1 & flow=$!")
        return self

    def __exit__(self, *_: object) -> None:
        self._guest.run("touch /tmp/enough; wait $flow || true", 120.0)
        # The last may be under way still.
        until = time.monotonic() + 5.0
        while self._count() and time.monotonic() < until:
            time.sleep(0.1)

    def _count(self) -> int:
        """How many are not answered yet."""
        sent, back = echoes(self._guest)
        self.sent, self.back = sent - self._before[0], back - self._before[1]
        return self.sent - self.back


def caught_up(guest: KeysGuest, router: Live) -> None:
    """Waits until the router has seen all that was done to its kernel's table: it is told in order,
    and of an association that it cannot use it says so."""
    spi = next(SPIS)
    ends = f"src {ROUTER} dst {PEER} proto esp"
    aead = f"aead 'rfc4106(gcm(aes))' {key(spi)} 128"
    guest.run(f"ip -n rt xfrm state add {ends} spi {spi:#x} mode transport {aead}")
    router.says(f"SPI {spi:#x}, outbound, .* is not used")


def packets(guest: KeysGuest, place: str, spi: int) -> int:
    """Packets that a kernel has had by an association."""
    text = guest.run(f"ip -n {place} -s xfrm state | grep -A 40 'spi {spi:#010x}'")
    found = re.search(
        r"lifetime current:\s+\d+\(bytes\), (\d+)\(packets\)", text.split("\nsrc ")[0]
    )
    assert found, text
    return int(found.group(1))


def test_a_tunnel_has_the_keys_that_the_kernel_has(guest: KeysGuest):
    out, into = next(SPIS), next(SPIS)
    policies(guest)
    add(guest, out, out=True)
    add(guest, into, out=False)
    # They are there before the router is.
    with live(guest) as router:
        # No more at a time than wait for a neighbour's address without loss.
        assert ping(guest, 10) == ping(guest, 10) == (10, 10)
        said = router.said()
        found = router.stop()
        assert (packets(guest, "peer", out), packets(guest, "peer", into)) == (20, 20)
        # The kernel beside the router has no address there, and so no part in it.
        assert (packets(guest, "rt", out), packets(guest, "rt", into)) == (0, 0)
    assert (found["esp_encrypted"], found["esp_decrypted"]) == (20, 20)
    for spi, way in ((out, "outbound"), (into, "inbound")):
        assert f"SPI {spi:#x}, {way}, " in said
        assert key(spi)[2:] not in said
    assert not guest.run("ls -l /tmp/state | grep -v '^-rw-------' | grep -v total; true").strip()


def test_a_new_key_in_the_middle_of_traffic_loses_nothing(guest: KeysGuest):
    policies(guest)
    with live(guest) as router:
        first = next(SPIS), next(SPIS)
        add(guest, first[0], out=True)
        add(guest, first[1], out=False)
        router.says(f"SPI {first[1]:#x}, inbound, .* is used")
        spis, last = [first], 0
        with Traffic(guest) as traffic:
            for _ in range(3):
                old, new = spis[-1], (next(SPIS), next(SPIS))
                # The old one is at work; the kernel dates associations by seconds.
                used = packets(guest, "peer", old[0])
                wait_until(lambda old=old, used=used: packets(guest, "peer", old[0]) > used)
                guest.run("sleep 1")
                # As a daemon does it: both ends can receive before either sends.
                add(guest, new[1], out=False, places="rt")
                add(guest, new[0], out=True, places="peer")
                add(guest, new[0], out=True, places="rt")
                add(guest, new[1], out=False, places="peer")
                router.says(f"SPI {new[0]:#x}, outbound, .* is used")
                for place in ("peer", "rt"):
                    # What is under way has come when a later packet has been there and back.
                    assert ping(guest, 2) == (2, 2)
                    for spi, to in ((old[0], PEER), (old[1], ROUTER)):
                        guest.run(
                            f"ip -n {place} xfrm state delete dst {to} proto esp spi {spi:#x}"
                        )
                spis.append(new)
            last = wait_until(lambda: packets(guest, "peer", spis[-1][0]))
        found = router.stop()
        # What was lost on the way is told with all that the router counted.
        assert traffic.sent == traffic.back > 0, found
    assert 0 < last < traffic.sent
    assert (found["esp_encrypted"], found["esp_decrypted"]) == (traffic.sent, traffic.sent)
    assert {n: c for n, c in found.items() if n.startswith("drop_esp") and c} == {}


def test_what_is_deleted_is_used_no_more_and_nothing_goes_in_the_clear(guest: KeysGuest):
    policies(guest)
    with live(guest) as router:
        out, into = next(SPIS), next(SPIS)
        add(guest, out, out=True)
        add(guest, into, out=False)
        router.says(f"SPI {into:#x}, inbound, .* is used")
        assert ping(guest) == (5, 5)
        guest.run(f"ip -n rt xfrm state delete dst {ROUTER} proto esp spi {into:#x}")
        caught_up(guest, router)
        assert ping(guest) == (5, 0)
        guest.run("ip -n rt xfrm state flush")
        caught_up(guest, router)
        before = packets(guest, "peer", out)
        assert ping(guest) == (5, 0)
        assert packets(guest, "peer", out) == before == 10
        found = router.stop()
    assert (found["drop_esp_unknown"], found["drop_esp_no_key"]) == (5, 5)
    assert (found["esp_encrypted"], found["esp_decrypted"]) == (10, 5)


@pytest.mark.full("guests")
def test_an_expired_association_is_not_used(guest: KeysGuest):
    policies(guest)
    with live(guest) as router:
        timed, counted, into = next(SPIS), next(SPIS), next(SPIS)
        add(guest, into, out=False)
        add(guest, timed, out=True, places="peer")
        add(guest, timed, out=True, places="rt", more="limit time-hard 12")
        router.says(f"SPI {timed:#x}, outbound, .* is used")
        assert ping(guest) == (5, 5)
        guest.wait(f"! ip -n rt xfrm state | grep -q 'spi {timed:#010x}'")
        caught_up(guest, router)
        assert ping(guest) == (5, 0)
        add(guest, counted, out=True, places="peer")
        add(guest, counted, out=True, places="rt", more="limit packet-hard 3")
        router.says(f"SPI {counted:#x}, outbound, .* is used")
        assert ping(guest) == (5, 3)
        found = router.stop()
    assert (found["drop_esp_no_key"], found["drop_esp_expired"]) == (5, 2)


def test_what_the_router_cannot_use_is_named(guest: KeysGuest):
    ends = f"src {ROUTER} dst {PEER} proto esp"
    enc = "enc 'cbc(aes)' 0x0123456789abcdef0123456789abcdef"
    auth = "auth-trunc 'hmac(sha256)' 0x0123456789abcdef0123456789abcdef 128"
    spis = [next(SPIS) for _ in range(3)]
    with live(guest) as router:
        guest.run(f"ip -n rt xfrm state add {ends} spi {spis[0]:#x} mode tunnel {enc} {auth}")
        aead = f"aead 'rfc4106(gcm(aes))' {key(spis[1])}"
        guest.run(f"ip -n rt xfrm state add {ends} spi {spis[1]:#x} mode transport {aead} 128")
        guest.run(f"ip -n rt xfrm state add {ends} spi {spis[2]:#x} mode tunnel {aead} 64")
        router.says(f"SPI {spis[2]:#x}, outbound, .* is not used")
        said = router.said()
        assert ping(guest) == (5, 0)
        assert router.stop()["drop_esp_no_key"] == 5
    for spi, why in zip(
        spis,
        (
            "algorithm: found hmac(sha256) with cbc(aes), expected rfc4106(gcm(aes))",
            "mode: found transport, expected tunnel",
            "tag of AES-GCM: found 64 bits, expected 128 bits",
        ),
        strict=True,
    ):
        assert f"SPI {spi:#x}, outbound, from {ROUTER} to {PEER}: " in said
        assert f"is not used: {why}\n" in said + "\n"


#: For both ends of a key exchange: settings of the daemon, a connection, and their secret.
DAEMON = """charon {
load = @plugins
install_routes = no
plugins {
vici {
socket = unix:///tmp/@place.vici
}
}
}
"""
CONNECTION = """connections {
tunnel {
version = 2
local_addrs = @local
remote_addrs = @remote
proposals = aes128-sha256-modp2048
local {
auth = psk
id = @place
}
remote {
auth = psk
}
children {
nets {
local_ts = @near
remote_ts = @far
esp_proposals = aes128gcm16-noesn
policies = @policies
}
}
}
}
secrets {
ike-both {
secret = test
}
}
"""
NETS = ("10.1.0.0/24", "10.3.0.0/24")


def swanctl(guest: KeysGuest, place: str, words: str) -> str:
    tool = f"STRONGSWAN_CONF=/tmp/{place}.conf /usr/sbin/swanctl"
    return guest.run(f"{tool} {words} --uri unix:///tmp/{place}.vici", 60.0)


def daemon(guest: KeysGuest, place: str, ends: tuple[str, str], nets: tuple[str, str]) -> None:
    """Begins strongSwan in a namespace. Beside the router its kernel has no policies: it is the
    router that encrypts."""
    values = {
        "plugins": " ".join(PLUGINS),
        "place": place,
        "local": ends[0],
        "remote": ends[1],
        "near": nets[0],
        "far": nets[1],
        "policies": "no" if place == "rt" else "yes",
    }

    def with_values(text: str) -> str:
        return re.sub(r"@(\w+)", lambda found: values[found.group(1)], text)

    guest.write(f"/tmp/{place}.conf", with_values(DAEMON))
    guest.write(f"/tmp/{place}.swanctl", with_values(CONNECTION))
    # Each has a folder of its own for its number; `ip netns exec` gives it mounts of its own.
    own = "mkdir -p /var/run; mount -t tmpfs none /var/run; mount -t tmpfs none /run"
    start = f"STRONGSWAN_CONF=/tmp/{place}.conf exec /usr/lib/ipsec/charon"
    guest.run(
        f"ip netns exec {place} sh -c '{own}; echo $$ >/tmp/{place}.pid; {start}'"
        f" >/tmp/{place}.log 2>&1 &"
    )
    guest.wait(f"test -S /tmp/{place}.vici")
    swanctl(guest, place, f"--load-all --noprompt --file /tmp/{place}.swanctl")


@contextmanager
def daemons(guest: KeysGuest) -> Generator[None]:
    """strongSwan at both ends; the router's kernel has its address for what the daemon says."""
    guest.run(f"ip -n rt address add {ROUTER}/24 dev rt1")
    guest.inside("rt", "sh -c 'echo 1 >/proc/sys/net/ipv4/icmp_echo_ignore_all'")
    try:
        daemon(guest, "rt", (ROUTER, PEER), NETS)
        daemon(guest, "peer", (PEER, ROUTER), (NETS[1], NETS[0]))
        yield
    finally:
        guest.run("kill $(cat /tmp/rt.pid) $(cat /tmp/peer.pid) || true")
        guest.wait("! kill -0 $(cat /tmp/rt.pid) && ! kill -0 $(cat /tmp/peer.pid)")
        guest.run(f"ip -n rt address delete {ROUTER}/24 dev rt1")


@pytest.mark.full("guests")
def test_strongswan_agrees_on_keys_and_changes_them_in_the_middle_of_traffic(guest: KeysGuest):
    with live(guest) as router, daemons(guest):
        swanctl(guest, "rt", "--initiate --child nets")
        router.says("inbound, .* is used")
        assert ping(guest, 10) == (10, 10)
        with Traffic(guest) as traffic:
            # Either end may ask for new keys; the kernel dates associations by seconds.
            for n, place in enumerate(("rt", "peer"), 2):
                guest.run("sleep 1")
                swanctl(guest, place, "--rekey --child nets")
                guest.wait(f"test $(grep -c 'outbound, .* is used' /tmp/said.txt) -ge {n}")
        sent, back = traffic.sent, traffic.back
        # While a daemon changes keys its own kernel may find no association for an answer: what
        # that counts is lost, and nothing else.
        stat = guest.run("ip netns exec peer cat /proc/net/xfrm_stat")
        errors = re.search(r"XfrmAcquireError\s+(\d+)", stat)
        assert errors is not None, stat
        lost = int(errors[1])
        assert sent - lost == back > 0
        used = re.findall(r"SPI (0x[0-9a-f]+), (\w+), .* is used", router.said())
        assert len([spi for spi, way in used if way == "outbound"]) == 3, used
        swanctl(guest, "peer", "--terminate --ike tunnel")
        guest.wait('test -z "$(ip -n rt xfrm state)"')
        caught_up(guest, router)
        assert ping(guest) == (5, 0)
        found = router.stop()
    assert (found["esp_encrypted"], found["esp_decrypted"]) == (10 + sent, 10 + back)
    assert found["drop_esp_no_key"] == 5
    # The daemon's packets are its kernel's; the router is silent about them. And that kernel
    # decrypts besides, and shows the router what it finds.
    assert found["drop_ike"] > 0
    assert found["drop_esp_clear"] > 0
