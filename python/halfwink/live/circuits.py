"""Hosts that use circuits by turns, for real: network namespaces around an emulated circuit switch.

from halfwink.live import circuits as live_circuits

found = live_circuits.measure(live_circuits.Setting(hosts=4), seconds=5)
found["use_pct"], found["overlaps"]

The switch and each host are processes of ``halfwink-circuits``. All share the CPUs of this machine,
and its clock. Nothing here is modelled; joules are not measured.
"""

from __future__ import annotations

import hashlib
import os
import signal
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar

from halfwink.bed.places import Process, python
from halfwink.bed.star import DEVICE, MOST_HOSTS, UPLINK, Star, address, wire
from halfwink.errors import HalfwinkError, RunError
from halfwink.live import native
from halfwink.live.served import Served, described
from halfwink.programs import find

#: Program of a node.
PROGRAM = "halfwink-circuits"
#: Schemes of tokens (Strong 2013, Fig 4.13).
TOKENS = ("pacing", "aging", "naive")
#: Limits of a setting: microseconds of a slot, gigabits per second.
SLOTS_US = (100.0, 1e6)
RATES_GBPS = (0.01, 10.0)
#: What a frame has beside its IP packet, in bytes.
ETHERNET = 14
#: Bytes that may wait for the wire, with pacing (Strong 2013, Sec 4.5.1).
BACKLOG_BYTES = 80_000
#: Queues of a host hold so many days, and so many bytes at least.
QUEUE_DAYS, QUEUE_BYTES = 4.0, 400_000
#: From the begin of a load until it is counted: queues fill, sleeping CPUs wake.
WARM_UP_S = 0.5


@dataclass(frozen=True)
class Setting:
    """A fabric of network namespaces.

    Attributes:
        hosts: number of hosts.
        slot_us: length of a slot with its night.
        night_us: length of a night.
        gbps: rate of a wire; rounded to whole bytes in a microsecond.
        technique: schedule of circuits, with parameters.
        tokens: scheme that limits a host's frames.
        margin_us: time before a day's end at which the last frame must be sent.
        mtu: longest IP packet, in bytes.
        spin_us: time before a day for which a host spins.
        spin_share: share of its time for which it does so, at most.
        realtime: ask for real-time priority.
    """

    #: Limits of a slot.
    SLOTS_US: ClassVar[tuple[float, float]] = SLOTS_US

    hosts: int = 4
    slot_us: float = 2000.0
    night_us: float = 200.0
    gbps: float = 0.5
    technique: str = "round-robin"
    tokens: str = "pacing"
    margin_us: float = 23.5
    mtu: int = 4500
    spin_us: float = 60.0
    spin_share: float = 0.05
    realtime: bool = True

    def __post_init__(self) -> None:
        """Refuses what cannot be."""
        if not 2 <= self.hosts <= MOST_HOSTS:
            raise HalfwinkError(f"hosts {self.hosts}: expected 2 to {MOST_HOSTS}")
        _within("slot in us", self.slot_us, self.SLOTS_US)
        if not 0 < self.night_us < self.slot_us:
            raise HalfwinkError(
                f"night of {self.night_us:g} us: expected above 0, below a slot's "
                f"{self.slot_us:g} us"
            )
        _within("rate in Gb/s", self.gbps, RATES_GBPS)
        _within("mtu", self.mtu, (576, 9000))
        _within("spinning in us", self.spin_us, (0, 1e4))
        _within("share of spinning", self.spin_share, (0, 1))
        if self.tokens not in TOKENS:
            raise HalfwinkError(f"tokens `{self.tokens}`: expected {', '.join(TOKENS)}")
        usable_us = self.day_us - self.margin_us
        if self.margin_us < 0 or usable_us < self.frame_us:
            raise HalfwinkError(
                f"a day of {self.day_us:g} us less a margin of {self.margin_us:g} us has no room "
                f"for a frame of {self.frame_us:.1f} us"
            )

    @property
    def day_us(self) -> float:
        """Length of a day."""
        return self.slot_us - self.night_us

    @property
    def bytes_per_us(self) -> int:
        """Rate of a wire, in bytes per microsecond."""
        return max(1, round(self.gbps * 125))

    @property
    def wire_gbps(self) -> float:
        """Rate of a wire as it is emulated: whole bytes in a microsecond."""
        return self.bytes_per_us / 125

    @property
    def frame_us(self) -> float:
        """Time of the longest frame on the wire."""
        return (self.mtu + ETHERNET) / self.bytes_per_us

    @property
    def duty(self) -> float:
        """Share of time in which circuits are up: ``T / (T + C)`` (Strong 2013, Sec 4.2.3)."""
        return self.day_us / self.slot_us

    @property
    def load_every_us(self) -> float:
        """Interval at which a load looks at its queues."""
        return max(self.slot_us, 500.0)

    @property
    def queue_bytes(self) -> int:
        """Capacity of the queue of a host for one other."""
        return int(max(QUEUE_BYTES, QUEUE_DAYS * self.day_us * self.bytes_per_us))

    def switch_description(self, *, slower: int = 1, **more: object) -> str:
        """Returns the description of the switch (TOML); ``slower``: dilation of its time."""
        settings = {
            "role": "switch",
            "interfaces": [wire(n) for n in range(self.hosts)],
            "policy": self.technique,
            "slot_us": self.slot_us * slower,
            "night_us": self.night_us * slower,
            "bytes_per_us": self.bytes_per_us // slower,
            "realtime": self.realtime,
        }
        return described(settings | more)

    def host_description(self, number: int, *, load: bool, slower: int = 1, **more: object) -> str:
        """Returns the description of a host (TOML); ``slower``: dilation of its time."""
        settings = {
            "role": "host",
            "host": number,
            "hosts": self.hosts,
            "interface": UPLINK,
            "device": DEVICE,
            "bytes_per_us": self.bytes_per_us // slower,
            "tokens": self.tokens,
            "margin_us": self.margin_us * slower,
            "backlog_bytes": BACKLOG_BYTES,
            "queue_bytes": self.queue_bytes,
            "spin_us": self.spin_us * slower,
            "spin_share": self.spin_share,
            "realtime": self.realtime,
            "load_frame_bytes": self.mtu + ETHERNET if load else None,
            "load_every_us": self.load_every_us * slower,
        }
        return described(settings | more)

    @property
    def fabric(self) -> tuple[int, float, float, float]:
        """Fabric as the native module takes it."""
        return (self.hosts, self.slot_us, self.night_us, self.wire_gbps)


def _within(name: str, value: float, limits: tuple[float, float]) -> None:
    if not limits[0] <= value <= limits[1]:
        raise HalfwinkError(f"{name} {value:g}: expected {limits[0]:g} to {limits[1]:g}")


class Circuits:
    """Hosts and their switch at work, while the context lasts."""

    def __init__(self, setting: Setting, *, load: bool = False, log: Path | None = None) -> None:
        """Describes them; ``with`` makes them.

        Args:
            setting: the fabric.
            load: hosts send datagrams to all others.
            log: file for the events of the schedule.

        Raises:
            HalfwinkError: no such schedule, or one without circuits.
        """
        native.circuits_check(setting.technique, setting.fabric)
        if log is not None and not log.absolute().parent.is_dir():
            raise HalfwinkError(f"{log}: there is no folder {log.parent}")
        self.setting, self._load = setting, load
        self._log = None if log is None else log.absolute()
        self._star = Star(setting.hosts, mtu=setting.mtu)
        self._switch: Served | None = None
        self._hosts: dict[int, Served] = {}

    def __enter__(self) -> Circuits:
        self._star.__enter__()
        try:
            self.start_switch()
            for host in range(self.setting.hosts):
                self.start_host(host)
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, why: BaseException | None, at: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.stop()
        finally:
            self._close()

    def _close(self) -> None:
        # What runs in the namespaces ends with them.
        self._star.close()
        for node in self._nodes():
            node.kill()

    def _nodes(self) -> list[Served]:
        hosts = [self._hosts[n] for n in sorted(self._hosts)]
        return hosts if self._switch is None else [self._switch, *hosts]

    @property
    def star(self) -> Star:
        """Namespaces of the fabric."""
        return self._star

    def start_switch(self) -> None:
        """Starts the program of the switch."""
        text, place = self.setting.switch_description(), self._star.switch
        self._switch = Served(PROGRAM, text, log=self._log, place=place)

    def start_host(self, host: int) -> None:
        """Starts the program of a host."""
        text, place = self.setting.host_description(host, load=self._load), self._star.hosts[host]
        self._hosts[host] = Served(PROGRAM, text, place=place)

    def kill_switch(self) -> None:
        """Kills the switch, as by SIGKILL."""
        assert self._switch is not None
        self._switch.kill()
        # What it has logged ends there; another switch would begin the file anew.
        self._switch, self._log = None, None

    def kill_host(self, host: int) -> None:
        """Kills a host's shaper, as by SIGKILL; its device and programs stay."""
        self._hosts.pop(host).kill()

    def report(self) -> dict[str, Any]:
        """Returns the counters of switch and hosts, which are asked at the same time."""
        nodes = self._nodes()
        for node in nodes:
            node.send(signal.SIGUSR2)
        found: dict[str, Any] = {"switch": {}, "hosts": []}
        for node in nodes:
            told, state = node.report(), {"at_work": node.is_running}
            if told["switch"] is not None:
                found["switch"] = told["switch"] | state
            found["hosts"] += [host | state for host in told["hosts"]]
        return found

    def count_from_zero(self) -> None:
        """Sets the counters of switch and hosts to zero."""
        nodes = self._nodes()
        for node in nodes:
            node.send(signal.SIGUSR1)
        for node in nodes:
            node.answer()

    def run(self, host: int, command: list[str], **pipes: Any) -> Process:
        """Begins a command in a host's namespace; it knows its number from the environment."""
        own = [f"HALFWINK_HOST={host}", f"HALFWINK_HOSTS={self.setting.hosts}"]
        own.append(f"HALFWINK_ADDRESS={address(host)}")
        return self._star.hosts[host].start(["env", *own, *command], **pipes)

    def stop(self) -> None:
        """Ends all, and the log."""
        nodes, self._hosts, self._switch = self._nodes(), {}, None
        # All end at once; each takes a while to look up.
        for node in nodes:
            node.send(signal.SIGTERM)
        for node in nodes:
            node.stop()


def summary(setting: Setting, found: dict[str, Any]) -> dict[str, Any]:
    """A report with what it comes to.

    | name | is |
    |---|---|
    | ``use_pct`` | bytes that arrived, of what all wires carry in the closed form's duty |
    | ``duty_pct`` | that duty |
    | ``up_pct`` | share of time in which an input had a circuit, measured |
    | ``overlaps`` | frames of two senders at one receiver |
    | ``violations`` | frames that came while their circuit was not up |
    | ``cpu_pct`` | of one CPU: switch, and all shapers |
    """
    switch, hosts = found["switch"], found["hosts"]
    seconds = statistics.fmean(host["duration_s"] for host in hosts)
    ideal = setting.hosts * setting.bytes_per_us * 1e6 * setting.duty * seconds
    received = sum(host["received_bytes"] for host in hosts)
    cpu_s = sum(host["cpu_s"] for host in hosts)
    return {
        "use_pct": 100 * received / ideal,
        "gbps": received * 8e-9 / seconds,
        "duty_pct": 100 * setting.duty,
        "up_pct": 100 * switch["up_s"] / setting.hosts / switch["duration_s"],
        "slots": switch["slots"],
        "late_slots": switch["late_slots"],
        "overlaps": switch["overlaps"],
        "violations": sum(switch["violations"].values()),
        "forwarded": switch["forwarded"],
        "held_bytes": sum(host["waiting_bytes"] for host in hosts),
        "dropped": sum(host["overflowed"] for host in hosts),
        "cpu_pct": {
            "load": 1e-7 * sum((host["load"] or {}).get("cpu_ns", 0) for host in hosts) / seconds,
            "switch": 100 * switch["cpu_s"] / switch["duration_s"],
            "shapers": 100 * cpu_s / seconds,
            "spinning": 100 * sum(host["spun_s"] for host in hosts) / seconds,
        },
        "realtime": switch["is_realtime"] and all(host["is_realtime"] for host in hosts),
    }


def measure(
    setting: Setting,
    *,
    seconds: float = 5.0,
    idle: bool = False,
    run: str | None = None,
    log: Path | None = None,
) -> dict[str, Any]:
    """Plays the fabric under a load.

    Args:
        setting: the fabric.
        seconds: length of the measurement, in seconds.
        idle: no load.
        run: a shell command for each host instead of the load; it is counted until all have ended.
        log: file for the events of the schedule.

    Returns:
        ``switch``, ``hosts``, and `summary`.

    Raises:
        RunError: a command failed, or the machine does not allow it.
    """
    _within("seconds", seconds, (0.1, 3600))
    with Circuits(setting, load=not idle and run is None, log=log) as circuits:
        time.sleep(WARM_UP_S)
        circuits.count_from_zero()
        if run is None:
            time.sleep(seconds)
        else:
            _run_all(circuits, run)
        found = circuits.report()
    return found | summary(setting, found)


def _run_all(circuits: Circuits, command: str) -> None:
    words = ["sh", "-c", command]
    begun = [circuits.run(n, words) for n in range(circuits.setting.hosts)]
    statuses = [process.popen.wait() for process in begun]
    failed = [n for n, status in enumerate(statuses) if status != 0]
    if failed:
        n = failed[0]
        raise RunError(f"host {n}: the command ended with status {statuses[n]}")


def slots(
    setting: Setting, slots_us: list[float], *, repeats: int = 3, seconds: float = 3.0
) -> list[dict[str, Any]]:
    """Plays several lengths of slot, in turns; a row for each with the medians of its repeats.

    Nights keep their share of a slot. What other work on the machine does to one turn it does
    to all lengths alike.
    """
    share = setting.night_us / setting.slot_us
    settings = [replace(setting, slot_us=us, night_us=share * us) for us in slots_us]
    runs: list[list[dict[str, Any]]] = [[] for _ in settings]
    for _ in range(repeats):
        for n, one in enumerate(settings):
            runs[n].append(measure(one, seconds=seconds))
    return [_row(one, found) for one, found in zip(settings, runs, strict=True)]


def _row(setting: Setting, runs: list[dict[str, Any]]) -> dict[str, Any]:
    def median(values: list[float]) -> float:
        return statistics.median(values)

    return {
        "slot_us": setting.slot_us,
        "night_us": setting.night_us,
        "duty_pct": 100 * setting.duty,
        "use_pct": median([run["use_pct"] for run in runs]),
        "use_least_pct": min(run["use_pct"] for run in runs),
        "use_most_pct": max(run["use_pct"] for run in runs),
        "violations": sum(run["violations"] for run in runs),
        "forwarded": sum(run["forwarded"] for run in runs),
        "overlaps": sum(run["overlaps"] for run in runs),
        "late_slots": sum(run["late_slots"] for run in runs),
        "begin_p99_us": median(
            [max(host["begin"]["p99_us"] or 0 for host in run["hosts"]) for run in runs]
        ),
        "cpu_pct": median([run["cpu_pct"]["switch"] + run["cpu_pct"]["shapers"] for run in runs]),
    }


#: What of the load can be fetched in one read.
BLOCK = 1 << 20


@dataclass
class Transfer:
    """A file that went from host 0 to host 1 by HTTP.

    Attributes:
        size: size in bytes.
        equal: tells whether the checksum is the same at both ends.
        seconds: duration of the transfer.
        report: counters of switch and hosts meanwhile.
    """

    size: int
    equal: bool
    seconds: float
    report: dict[str, Any]


def transfer(
    setting: Setting, size: int, *, switch_off_s: float = 0.0, timeout_s: float = 600.0
) -> Transfer:
    """Fetches a file by curl from Python's HTTP server, over circuits.

    Args:
        setting: the fabric.
        size: bytes of the file.
        switch_off_s: a while after the begin the switch is killed, and started again so much
            later.
        timeout_s: longest that it may take.

    Raises:
        RunError: the server does not begin, or curl fails.
        HalfwinkError: there is no curl.
    """
    _within("size", size, (1, 1 << 34))
    curl = find("curl")
    if curl.path is None:
        raise HalfwinkError(curl.missing)
    with tempfile.TemporaryDirectory(prefix="halfwink-circuits-") as name:
        folder = Path(name)
        want = _write(folder / "file", size)
        with Circuits(setting) as circuits:
            server = _serve(circuits, folder)
            try:
                begun = time.monotonic()
                fetched = folder / "fetched"
                client = _curl(circuits, fetched, timeout_s)
                if switch_off_s > 0:
                    _switch_off(circuits, fetched, size // 8, switch_off_s)
                if client.popen.wait(timeout_s + 60) != 0:
                    raise RunError(f"curl ended with status {client.popen.returncode}")
                seconds = time.monotonic() - begun
            finally:
                server.stop()
            report = circuits.report()
        return Transfer(size, _digest(fetched) == want, seconds, report)


def _write(path: Path, size: int) -> str:
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for at in range(0, size, BLOCK):
            block = os.urandom(min(BLOCK, size - at))
            digest.update(block)
            file.write(block)
    return digest.hexdigest()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _serve(circuits: Circuits, folder: Path) -> Process:
    # Its port is the namespace's own: nobody else can have it.
    words = [python(), "-u", "-m", "http.server", "8000", "--directory", str(folder)]
    server = circuits.run(0, words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert server.popen.stdout is not None
    if not server.popen.stdout.readline():
        raise RunError("the HTTP server does not begin")
    return server


def _curl(circuits: Circuits, fetched: Path, timeout_s: float) -> Process:
    url = f"http://{address(0)}:8000/file"
    words = ["curl", "--silent", "--fail", "--max-time", f"{timeout_s:g}", "-o", str(fetched), url]
    return circuits.run(1, words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _switch_off(circuits: Circuits, fetched: Path, at: int, seconds: float) -> None:
    """Once so many bytes have come."""
    end = time.monotonic() + 60
    while not fetched.exists() or fetched.stat().st_size < at:
        if time.monotonic() > end:
            raise RunError("nothing is fetched")
        time.sleep(0.005)
    circuits.kill_switch()
    time.sleep(seconds)
    circuits.start_switch()
