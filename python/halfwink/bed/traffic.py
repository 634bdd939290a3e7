"""Test traffic for routers: a generator that keeps to a schedule, and a sink that checks it.

from halfwink.bed import traffic

with traffic.Sink("sink0") as sink:
    sent = traffic.generate("gen0", pps=10_000, seconds=2, to=["198.18.0.0/24"])
traffic.compare(sent, sink.result())
"""

from __future__ import annotations

import ipaddress
import json
import math
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from halfwink.errors import HalfwinkError
from halfwink.inputs import read_text
from halfwink.live import native
from halfwink.programs import find

#: Addresses kept for tests of network devices (RFC 2544, RFC 5180): nobody else's.
BENCHMARK_V4 = "198.18.0.0/15"
BENCHMARK_V6 = "2001:2::/48"
#: Named profiles of rate against time.
PROFILES = ("evaluation", "world-cup")
Line = tuple[float, float, float]


class Generator:
    """Sends frames until the end of its schedule, or until it is stopped."""

    def __init__(
        self,
        interfaces: str | Sequence[str],
        *,
        pps: float | str = 1000.0,
        seconds: float = 10.0,
        rates: Sequence[Line] | None = None,
        macs: Sequence[str] = (),
        to: Sequence[str] = (BENCHMARK_V4,),
        sources: Sequence[str] = (),
        replay: Path | None = None,
        **options: Any,
    ) -> None:
        """Begins to send by its schedule.

        Args:
            interfaces: one or more; flows are dealt out to them in turn.
            pps: frames per second, or ``max``, or ``captured`` for a replay's own timing.
            seconds: length of the traffic; without meaning to ``captured``.
            rates: instead of both: seconds, frames per second at the start and at the end, of
                stretches of time one after the other.
            macs: MAC address of the next hop, one per interface; found by asking if there are none.
            to: addresses or prefixes that flows go to.
            sources: addresses of the sources; the interface's own addresses if none are given.
            replay: a pcap or pcapng file to send instead of flows.
            options: options of ``native.Generator``: flows, sizes, burst, random_gaps, count,
                spin_us, batch, bypass, tag, seed, cpu, slot_ms, repeat, faster.

        Raises:
            HalfwinkError: an option is invalid.
            RunError: the kernel refuses.
        """
        names = [interfaces] if isinstance(interfaces, str) else list(interfaces)
        if macs and len(macs) != len(names):
            raise HalfwinkError(f"{len(macs)} MAC addresses for {len(names)} interfaces")
        found = macs or [resolve(name, to[0] if to else None) for name in names]
        pace: dict[str, Any] = {}
        if rates is not None:
            pace["segments"] = [tuple(line) for line in rates]
        elif pps == "max":
            pace["flood_s"] = seconds
        elif pps != "captured":
            pace["segments"] = [(seconds, float(pps), float(pps))]
        if replay is None:
            options["destinations"] = list(to)
            options["sources"] = list(sources) or [a for name in names for a in addresses(name)]
        else:
            options["replay"] = str(replay)
        ports = [(name, parse_mac(mac)) for name, mac in zip(names, found, strict=True)]
        self._native = native.Generator(ports, **pace, **options)
        self._result: dict[str, Any] | None = None

    def wait(self, seconds: float) -> bool:
        """Waits for at most so many seconds, and returns whether it has ended."""
        return self._native.wait(seconds)

    def stop(self) -> None:
        """Asks it to end."""
        self._native.stop()

    def result(self) -> dict[str, Any]:
        """Waits for its end; what was sent.

        Raises:
            RunError: the kernel refused on the way.
        """
        if self._result is None:
            self._native.wait(math.inf)
            self._result = self._native.result()
        return self._result

    def __enter__(self) -> Generator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, why: BaseException | None, at: TracebackType | None
    ) -> None:
        self.stop()
        if kind is None:
            self.result()


class Sink:
    """Watches interfaces from its making until its time or count is over, or it is stopped."""

    def __init__(self, interfaces: str | Sequence[str], **options: Any) -> None:
        """Begins to watch: nothing that comes later is missed.

        Args:
            interfaces: one or more.
            options: options of ``native.Sink``: tag, seconds, count, slot_ms, ring_mib, cpu,
                capture, capture_count.

        Raises:
            HalfwinkError: an option is invalid.
            RunError: the kernel refuses.
        """
        names = [interfaces] if isinstance(interfaces, str) else list(interfaces)
        self._native = native.Sink(names, **options)
        self._result: dict[str, Any] | None = None

    def wait(self, seconds: float) -> bool:
        """Waits for at most so many seconds, and returns whether it has ended."""
        return self._native.wait(seconds)

    def stop(self) -> None:
        """Asks it to end."""
        self._native.stop()

    def result(self) -> dict[str, Any]:
        """Waits for its end; what was received."""
        if self._result is None:
            self._native.wait(math.inf)
            self._result = self._native.result()
        return self._result

    def __enter__(self) -> Sink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, why: BaseException | None, at: TracebackType | None
    ) -> None:
        self.stop()
        if kind is None:
            self.result()


def generate(interfaces: str | Sequence[str], **options: Any) -> dict[str, Any]:
    """Sends until the end of the schedule (see `Generator`); what was sent."""
    with Generator(interfaces, **options) as generator:
        return generator.result()


def compare(sent: dict[str, Any], received: dict[str, Any]) -> dict[str, Any]:
    """Counts the losses and errors of a generator's frames.

    Returns:
        ``lost`` frames (without those that the sink itself dropped, while it tells them apart) and
        ``loss`` as a share of all; ``sink_drops``, ``duplicated``, ``corrupt``; ``bad_headers``:
        whole frames but for the checksum of their IPv4 header; ``reordered`` in their flows.
    """
    order = received["order"]
    # What came at all, broken frames too, counts once.
    came = order["received"] + received["corrupt"]
    away = max(sent["frames"] - came, 0)
    lost = max(away - received["sink_drops"], 0)
    return {
        "sent": sent["frames"],
        "received": order["received"],
        "lost": lost,
        "loss": lost / sent["frames"] if sent["frames"] else 0.0,
        "sink_drops": received["sink_drops"],
        "duplicated": order["duplicated"],
        "corrupt": received["corrupt"],
        "bad_headers": received["bad_headers"],
        "reordered": received["flows"]["order"]["reordered"],
        "latency_us": received["latency_us"],
    }


def profile(name: str, seconds: float, peak_pps: float, *, seed: int = 1) -> list[Line]:
    """Draws rates against time.

    Args:
        name: ``evaluation`` (a sine, a random walk and spikes, 35 % of the peak in the mean),
            ``world-cup`` (a day of a busy web site, minute by minute) or a file of lines
            ``SECONDS,SHARE``.
        seconds: length of the whole profile.
        peak_pps: frames per second at a share of 1.
        seed: seed of the evaluation's walk.

    Raises:
        HalfwinkError: there is no such profile, or a line of the file is not understood.
    """
    path = Path(name)
    if name in PROFILES or not path.exists():
        return native.traffic_profile(name, seconds, peak_pps, seed=seed)
    text = read_text(path)
    try:
        length = sum(line[0] for line in native.traffic_rates(text))
        return native.traffic_rates(text, stretch=seconds / max(length, 1e-9), scale=peak_pps)
    except HalfwinkError as error:
        raise HalfwinkError(f"{path}: {error}") from None


def steps(text: str, seconds: float) -> list[Line]:
    """Rates of a list such as ``1000,5000..20000,0``: steps and ramps of equal length.

    Raises:
        HalfwinkError: the text is something else.
    """
    parts = text.split(",")
    lines: list[Line] = []
    for part in parts:
        first, _, last = part.partition("..")
        try:
            low, high = float(first), float(last or first)
        except ValueError:
            raise HalfwinkError(
                f"`{text}`: expected rates such as 1000,5000..20000,0 (.. for a ramp)"
            ) from None
        lines.append((seconds / len(parts), low, high))
    return lines


def parse_mac(text: str) -> list[int]:
    """The six bytes of a MAC address.

    Raises:
        HalfwinkError: the text is not a MAC address.
    """
    parts = text.split(":")
    try:
        found = [int(part, 16) for part in parts if 1 <= len(part) <= 2]
    except ValueError:
        found = []
    if len(parts) != 6 or len(found) != 6:
        raise HalfwinkError(f"`{text}`: expected a MAC address such as 02:00:00:00:00:01")
    return found


def addresses(interface: str) -> list[str]:
    """Addresses of an interface that others can answer to; link-local ones only count for nothing.

    Raises:
        HalfwinkError: there is no such interface, or no program to ask.
    """
    shown = _ip("address", "show", "dev", interface)
    return [
        str(address["local"])
        for link in shown
        for address in link.get("addr_info", [])
        if address.get("scope") == "global"
    ]


def resolve(interface: str, destination: str | None, timeout_s: float = 3.0) -> str:
    """MAC address of the next hop to a destination, as the kernel's neighbour table finds it.

    The kernel is made to ask by a datagram to the next hop's discard port.

    Raises:
        HalfwinkError: there is no route, or the next hop does not answer.
    """
    hop = next_hop(interface, destination)
    family = socket.AF_INET6 if ":" in hop else socket.AF_INET
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        with socket.socket(family, socket.SOCK_DGRAM) as ask:
            scope = socket.if_nametoindex(interface)
            address = (hop, 9, 0, scope) if family == socket.AF_INET6 else (hop, 9)
            try:
                ask.sendto(b"", address)
            except OSError as error:
                raise HalfwinkError(f"{hop} by {interface}: {error.strerror}") from None
        for entry in _ip("neighbour", "show", "to", hop, "dev", interface):
            if entry.get("lladdr") and "FAILED" not in entry.get("state", []):
                return entry["lladdr"]
        time.sleep(0.02)
    raise HalfwinkError(f"{hop} by {interface}: nobody answers; give its address with --mac")


def next_hop(interface: str, destination: str | None) -> str:
    """Address of the next hop by an interface: a gateway, or the destination itself.

    Raises:
        HalfwinkError: there is no route.
    """
    wanted = str(_first_address(destination or BENCHMARK_V4))
    try:
        routes = _ip("route", "get", wanted, "oif", interface)
    except HalfwinkError as error:
        raise HalfwinkError(
            f"no route to {wanted} by {interface} ({error}); add one, or give --mac"
        ) from None
    return routes[0].get("gateway") or routes[0].get("via", {}).get("host") or wanted


def _first_address(prefix: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    try:
        interface = ipaddress.ip_interface(prefix)
    except ValueError:
        raise HalfwinkError(f"`{prefix}`: expected an address or a prefix") from None
    at_base = interface.ip == interface.network.network_address
    return interface.ip + 1 if at_base and interface.network.num_addresses > 2 else interface.ip


def _ip(*words: str) -> list[dict[str, Any]]:
    """The answer of iproute2."""
    program = find("ip").path
    if program is None:
        raise HalfwinkError(find("ip").missing)
    done = subprocess.run(
        [program, "-json", *words], capture_output=True, text=True, check=False, timeout=10
    )
    if done.returncode != 0:
        raise HalfwinkError(done.stderr.strip().splitlines()[0] if done.stderr else "ip failed")
    return json.loads(done.stdout or "[]")
