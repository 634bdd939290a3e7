"""Hosts that use circuits by turns, in virtual time: the live bed inside an emulated machine.

from halfwink.live import virtual_circuits

found = virtual_circuits.measure(virtual_circuits.VirtualSetting())
found["use_pct"], found["violations"]

Switch, hosts and traffic are those of `halfwink.live.circuits`, under an unmodified Linux kernel in
QEMU, whose time is counted in instructions. So equal settings give equal results, bit for bit, on a
machine however busy; and slots may be as short as those of real circuits, for time is dilated: for
one microsecond of the fabric the emulated CPU, which plays all hosts and the switch, executes
``1000 * dilation`` instructions. All times in reports are the fabric's.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from halfwink import installed
from halfwink.bed.star import host_lines, wire
from halfwink.capture import small
from halfwink.capture.errors import MissingRequirementError
from halfwink.capture.progress import Progress
from halfwink.errors import HalfwinkError
from halfwink.live.circuits import ETHERNET, PROGRAM, Setting, summary
from halfwink.live.served import described
from halfwink.programs import find

#: What lets a frame go: our shaper, or the kernel's gates.
SHAPERS = ("tokens", "taprio")
#: Congestion controls that the guest's kernel has.
TCP = ("reno", "cubic", "dctcp")
#: How long a fabric runs before it is counted, in turns of all circuits.
WARM_UP_WEEKS, TCP_WARM_UP_WEEKS = 10, 150
#: Drivers of the guest.
DRIVERS = (
    "veth",
    "tun",
    "sch_taprio",
    "sch_ingress",
    "cls_flower",
    "act_skbedit",
    "tcp_dctcp",
)
#: Programs of this host that run in the guest.
PROGRAMS = ("ip", "tc", "ethtool")
SEEDS = (0, (1 << 32) - 1)


@dataclass(frozen=True)
class VirtualSetting(Setting):
    """A fabric inside the guest; times are the fabric's.

    Attributes:
        dilation: nanoseconds of the guest, which are instructions, for one of the fabric.
        shaper: mechanism that releases frames: our `tokens`, or the kernel's gates, `taprio`.
        tcp: TCP between all hosts under this congestion control, instead of datagrams.
        seed: seed of the guest's random numbers.
    """

    SLOTS_US: ClassVar[tuple[float, float]] = (20.0, 1e6)

    slot_us: float = 135.0
    night_us: float = 11.5
    gbps: float = 10.0
    mtu: int = 9000
    spin_us: float = 0.0
    spin_share: float = 0.0
    dilation: int = 50
    shaper: str = "tokens"
    tcp: str | None = None
    seed: int = 1

    @property
    def load_every_us(self) -> float:
        """Interval at which a load looks at its queues: no CPU is too slow for it here."""
        return self.slot_us

    def __post_init__(self) -> None:
        """Refuses what cannot be."""
        super().__post_init__()
        if self.technique != "round-robin":
            raise HalfwinkError(f"technique `{self.technique}`: the guest plays round-robin alone")
        if self.dilation < 1 or self.bytes_per_us % self.dilation:
            fit = [str(n) for n in range(1, self.bytes_per_us + 1) if self.bytes_per_us % n == 0]
            raise HalfwinkError(
                f"dilation {self.dilation}: expected a divisor of the {self.bytes_per_us} bytes "
                f"that a wire carries in a microsecond: {', '.join(fit)}"
            )
        if self.shaper not in SHAPERS:
            raise HalfwinkError(f"shaper `{self.shaper}`: expected {', '.join(SHAPERS)}")
        if self.tcp is not None and self.tcp not in TCP:
            raise HalfwinkError(f"tcp `{self.tcp}`: expected {', '.join(TCP)}")
        if not SEEDS[0] <= self.seed <= SEEDS[1]:
            raise HalfwinkError(f"seed {self.seed}: expected {SEEDS[0]} to {SEEDS[1]}")


def player() -> Path:
    """Returns the program that plays a fabric in the guest.

    Raises:
        MissingRequirementError: the program was not built.
    """
    found = installed.program(PROGRAM)
    if found is None:
        raise MissingRequirementError(installed.missing(f"the program {PROGRAM}"))
    return found


def _programs() -> list[Path]:
    found: list[Path] = []
    for name in PROGRAMS:
        program = find(name)
        if program.path is None:
            raise MissingRequirementError(program.missing)
        found.append(Path(program.path).resolve())
    return found


def _descriptions(setting: VirtualSetting, warm_up_us: float) -> dict[str, str]:
    """Returns the descriptions for the player by the names of their files: everything in the
    guest's time.
    """
    slower, load = setting.dilation, setting.tcp is None
    is_gated = setting.shaper == "taprio"
    switch = setting.switch_description(slower=slower, namespace="switch", keeps_time=is_gated)
    hosts = {
        f"host{n}.toml": setting.host_description(n, load=load, slower=slower, namespace=f"host{n}")
        for n in range(setting.hosts)
    }
    fabric = {
        "role": "fabric",
        "nodes": ["switch.toml", *hosts],
        "shaping": setting.shaper,
        "streams": setting.tcp,
        "warm_up_ms": round(warm_up_us * slower / 1000),
    }
    return {"fabric.toml": described(fabric), "switch.toml": switch, **hosts}


def _wiring(setting: VirtualSetting, host: int) -> bytes:
    """A host's device and wire, for ``ip``."""
    of_gates: dict[str, Any] = {}
    if setting.shaper == "taprio":
        # A shaper counts bytes that wait, the kernel frames.
        frames = setting.queue_bytes // (setting.mtu + ETHERNET)
        of_gates = {"queues": True, "frames": frames}
    lines = host_lines(host, setting.hosts, setting.mtu, "switch", **of_gates)
    return "".join(f"{line}\n" for line in lines).encode()


def _script(setting: VirtualSetting, count_us: float) -> str:
    """Makes the namespaces, and plays."""
    lines = ["ip=/halfwink/programs/ip", "$ip netns add switch || fail no network namespaces"]
    for host in range(setting.hosts):
        lines.append(f"$ip netns add host{host}")
        lines.append(f"$ip -n host{host} -batch /halfwink/host{host} || fail host {host}")
        lines.append(f"$ip -n switch link set {wire(host)} up")
        if setting.tcp is not None:
            # Before any connection is opened: with DCTCP both ends must agree on marks.
            default = "/proc/sys/net/ipv4/tcp_congestion_control"
            lines.append(f"$ip netns exec host{host} sh -c 'echo {setting.tcp} >{default}'")
    # Nothing else is here that would want its share of the CPU.
    lines.append("echo -1 >/proc/sys/kernel/sched_rt_runtime_us")
    count_s = round(count_us * setting.dilation / 1000) / 1000
    play = f"/halfwink/programs/{PROGRAM} --config /halfwink/fabric.toml --seconds {count_s}"
    told = '--quiet --report /tmp/report 2>/tmp/err || fail "$(tail -n 1 /tmp/err)"'
    lines.append(f"{play} {told}")
    lines.append("say \"$(tr -d '\\n' </tmp/report)\"")
    return "\n".join(lines) + "\n"


def play(
    setting: VirtualSetting,
    *,
    warm_up_us: float,
    count_us: float,
    time_limit_s: float = 600,
    progress: Callable[[Progress], None] = lambda _: None,
) -> str:
    """Plays a fabric; what was counted, as text in the guest's time."""
    machine = small.ensure(DRIVERS, _programs(), progress)
    files = {f"halfwink/host{host}": _wiring(setting, host) for host in range(setting.hosts)}
    for name, text in _descriptions(setting, warm_up_us).items():
        files[f"halfwink/{name}"] = text.encode()
    progress(Progress("boot", "starting"))
    told = small.run(
        machine,
        _script(setting, count_us),
        files=files,
        programs=[player()],
        seed=setting.seed,
        time_limit_s=time_limit_s,
    )
    return told[-1]


def fabric_time(found: Any, dilation: int) -> Any:
    """Converts times to those of the fabric."""
    if isinstance(found, list):
        return [fabric_time(one, dilation) for one in found]
    if not isinstance(found, dict):
        return found
    return {
        name: value / dilation
        if isinstance(value, int | float) and name.endswith(("_s", "_us", "_ns"))
        else fabric_time(value, dilation)
        for name, value in found.items()
    }


def measure(
    setting: VirtualSetting,
    *,
    weeks: int = 30,
    warm_up_weeks: int | None = None,
    time_limit_s: float = 600,
    progress: Callable[[Progress], None] = lambda _: None,
) -> dict[str, Any]:
    """Plays a fabric in virtual time under a load.

    Args:
        setting: the fabric.
        weeks: length of the measurement, in turns of all circuits.
        warm_up_weeks: length of the warm-up (default: 10, with TCP 150: its windows grow for many
            round trips of a week and more).
        time_limit_s: timeout, in seconds of this host.
        progress: is told what is being done.

    Returns:
        ``switch``, ``hosts``, ``streams``, and `halfwink.live.circuits.summary`; times are the
        fabric's.

    Raises:
        HalfwinkError: the setting cannot be, or something is missing.
        RunError: the guest failed, or did not end.
    """
    if warm_up_weeks is None:
        warm_up_weeks = WARM_UP_WEEKS if setting.tcp is None else TCP_WARM_UP_WEEKS
    if not 1 <= weeks <= 10**6 or not 1 <= warm_up_weeks <= 10**6:
        raise HalfwinkError(f"weeks {weeks}, to warm up {warm_up_weeks}: expected at least one")
    week_us = setting.slot_us * (setting.hosts - 1)
    text = play(
        setting,
        warm_up_us=warm_up_weeks * week_us,
        count_us=weeks * week_us,
        time_limit_s=time_limit_s,
        progress=progress,
    )
    told = json.loads(text)
    counted = {name: told[name] for name in ("switch", "hosts", "streams")}
    found = fabric_time(counted, setting.dilation)
    summed = summary(setting, found)
    if found["streams"]:
        seconds = found["switch"]["duration_s"]
        received = sum(streams["received_bytes"] for streams in found["streams"])
        summed["goodput_gbps"] = received * 8e-9 / seconds
    return found | summed
