"""``halfwink live circuits``: hosts that use circuits by turns, for real."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from halfwink.cli import virtual_circuits
from halfwink.cli.console import parted, print_json, print_table, print_tables, say
from halfwink.errors import HalfwinkError
from halfwink.live import circuits as living
from halfwink.live.virtual_circuits import VirtualSetting

Flag = Annotated[bool, Parameter(negative="")]
Json = Annotated[bool, Parameter(name="--json", negative="")]

#: Units of times and sizes.
US = {"us": 1.0, "ms": 1e3, "s": 1e6}
BYTES = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}
NUMBER = re.compile(r"([0-9]*\.?[0-9]+)\s*([A-Za-z]*)")


def _amount(text: str, option: str, units: Mapping[str, float], example: str) -> float:
    found = NUMBER.fullmatch(text.strip())
    if found is None or found[2] not in units:
        raise HalfwinkError(f"{option} {text}: expected a number with its unit, as {example}")
    return float(found[1]) * units[found[2]]


def circuits(
    *,
    hosts: int = 4,
    slot: str | None = None,
    night: str | None = None,
    seconds: float = 5.0,
    technique: Annotated[str, Parameter(name=["-t", "--technique"])] = "round-robin",
    tokens: str = "pacing",
    gbps: float | None = None,
    mtu: int | None = None,
    margin: str = "23.5us",
    spin: str | None = None,
    spin_share: Annotated[float | None, Parameter(name="--spin-share")] = None,
    no_realtime: Annotated[bool, Parameter(name="--no-realtime", negative="")] = False,
    idle: Flag = False,
    run: str | None = None,
    transfer: str | None = None,
    switch_off: Annotated[str | None, Parameter(name="--switch-off")] = None,
    repeats: int | None = None,
    log: Path | None = None,
    virtual: Flag = False,
    shaper: str | None = None,
    tcp: str | None = None,
    dilation: int | None = None,
    weeks: int | None = None,
    seed: int | None = None,
    json: Json = False,
) -> int:
    """Play hosts that take turns on circuits: network namespaces around an emulated switch.

    All is measured. Without --idle, --run or --transfer each host sends datagrams to all others
    as fast as it may. One process for each host and one for the switch share this machine's CPUs.
    With --virtual all of it is inside an emulated machine, whose time is counted in instructions:
    equal commands give equal results, with slots as short as those of real circuits.

    Parameters
    ----------
    hosts
        Number of hosts.
    slot
        Length of a slot with its night; several by commas make a table (default: 2ms, or with
        --virtual 135us).
    night
        Length of a night (default: a tenth of a slot, or with --virtual 11.5us).
    seconds
        Length of the measurement, in seconds.
    technique
        Schedule of circuits, with parameters: `halfwink list techniques`.
    tokens
        Scheme that limits a host's frames while its circuit is up: pacing, aging, naive.
    gbps
        Rate of a wire, in Gb/s (default: 0.5, or with --virtual 10).
    mtu
        Longest IP packet, in bytes (default: 4500, or with --virtual 9000).
    margin
        Time before the end of a day at which the last frame must be sent.
    spin
        Time before a day for which a host spins instead of sleeping (default: 60us).
    spin_share
        Largest share of its time that a host may spin (default: 0.05).
    no_realtime
        Do not ask for real-time priority.
    idle
        Send no load, to measure the cost of an idle fabric.
    run
        A shell command for each host instead of the load; it finds HALFWINK_HOST,
        HALFWINK_HOSTS and HALFWINK_ADDRESS, and the others at 10.77.0.1 and on.
    transfer
        Fetch a file of this size by HTTP from host 0 to host 1, with checksums.
    switch_off
        Kill the switch during the transfer, and start it again after this time (default: 0s).
    repeats
        Number of runs for each length of slot, where there are several (default: 3).
    log
        File for the events of the schedule, for `halfwink replay`.
    virtual
        Run in virtual time, inside an emulated machine.
    shaper
        Mechanism that releases frames with --virtual, our tokens or the kernel's gates: tokens,
        taprio.
    tcp
        Use TCP between all hosts instead of datagrams, with --virtual: reno, cubic, dctcp.
    dilation
        Thousands of instructions per virtual microsecond (default: 50).
    weeks
        There: how long it is counted, in turns of all circuits (default: 30).
    seed
        There: of the random numbers of kernel and programs (default: 1).
    json
        Print one JSON document.
    """
    own: dict[str, Any] = {"shaper": shaper, "tcp": tcp, "dilation": dilation, "seed": seed}
    if virtual:
        values = (run, transfer, switch_off, repeats, log, spin, spin_share)
        if idle or no_realtime or any(value is not None for value in values):
            raise HalfwinkError(
                "--virtual goes without --idle, --run, --transfer, --switch-off, --repeats, --log, "
                "--spin, --spin-share, --no-realtime"
            )
        own |= {"gbps": gbps, "mtu": mtu}
        own |= {
            "slot_us": None if slot is None else _amount(slot, "--slot", US, "135us"),
            "night_us": None if night is None else _amount(night, "--night", US, "11.5us"),
        }
        given = {name: value for name, value in own.items() if value is not None}
        setting = VirtualSetting(
            hosts=hosts,
            technique=technique,
            tokens=tokens,
            margin_us=_amount(margin, "--margin", US, "50us"),
            **given,
        )
        return virtual_circuits.play(setting, weeks, json)
    if weeks is not None or any(value is not None for value in own.values()):
        raise HalfwinkError("--shaper, --tcp, --dilation, --weeks, --seed go with --virtual")
    slot = "2ms" if slot is None else slot
    lengths = [_amount(one, "--slot", US, "2ms") for one in slot.split(",")]
    night_us = lengths[0] / 10 if night is None else _amount(night, "--night", US, "0.2ms")
    setting = living.Setting(
        hosts=hosts,
        slot_us=lengths[0],
        night_us=night_us,
        gbps=0.5 if gbps is None else gbps,
        technique=technique,
        tokens=tokens,
        margin_us=_amount(margin, "--margin", US, "50us"),
        mtu=4500 if mtu is None else mtu,
        spin_us=_amount("60us" if spin is None else spin, "--spin", US, "60us"),
        spin_share=0.05 if spin_share is None else spin_share,
        realtime=not no_realtime,
    )
    chosen = [idle, run is not None, transfer is not None, len(lengths) > 1]
    if sum(chosen) > 1:
        raise HalfwinkError("expected one of --idle, --run, --transfer, several slots")
    if switch_off is not None and transfer is None:
        raise HalfwinkError("--switch-off goes with --transfer")
    if repeats is not None and len(lengths) == 1:
        raise HalfwinkError("--repeats goes with several slots (--slot 1ms,2ms)")
    if transfer is not None:
        size = int(_amount(transfer, "--transfer", BYTES, "64MB"))
        off_s = _amount(switch_off or "0s", "--switch-off", US, "1s") * 1e-6
        return _transfer(setting, size, off_s, json)
    if len(lengths) > 1:
        return _slots(setting, lengths, 3 if repeats is None else repeats, seconds, json)
    found = living.measure(setting, seconds=seconds, idle=idle, run=run, log=log)
    if json:
        print_json("live.circuits", {"setting": asdict(setting), **found})
    else:
        _show(setting, found)
    return 0


def _transfer(setting: living.Setting, size: int, off_s: float, json: bool) -> int:
    found = living.transfer(setting, size, switch_off_s=off_s)
    if json:
        facts = asdict(found)
        report = facts.pop("report")
        told = {"setting": asdict(setting), **facts, **report}
        print_tables("live circuits --transfer", *parted(told, "hosts"))
    else:
        gbps = found.size * 8e-9 / found.seconds
        same = "equal" if found.equal else "NOT equal"
        say(f"{found.size:,} bytes in {found.seconds:.1f} s, {gbps:.3f} Gb/s: checksums {same}")
        away = f", without the switch for {off_s:g} s" if off_s > 0 else ""
        say(f"from host 0 to host 1 of {setting.hosts}{away}")
    return 0 if found.equal else 1


def _slots(
    setting: living.Setting, lengths: list[float], repeats: int, seconds: float, json: bool
) -> int:
    if not 1 <= repeats <= 100:
        raise HalfwinkError(f"--repeats {repeats}: expected 1 to 100")
    for us in lengths:
        # Refused before the first of them takes its time.
        replace(setting, slot_us=us, night_us=us * setting.night_us / setting.slot_us)
    rows = living.slots(setting, lengths, repeats=repeats, seconds=seconds)
    if json:
        print_tables("live circuits --slots", {"slots": rows}, {"setting": asdict(setting)})
        return 0
    heads = ["slot us", "duty %", "of ideal %", "least", "most", "violations", "late", "CPU %"]
    print_table(
        [(head, "right") for head in heads],
        [
            [
                f"{row['slot_us']:g}",
                f"{row['duty_pct']:.1f}",
                f"{row['use_pct']:.1f}",
                f"{row['use_least_pct']:.1f}",
                f"{row['use_most_pct']:.1f}",
                f"{row['violations']:,}",
                f"{row['late_slots']:,}",
                f"{row['cpu_pct']:.0f}",
            ]
            for row in rows
        ],
    )
    say(
        f"medians of {repeats} runs of {seconds:g} s, {setting.hosts} hosts, "
        f"{setting.wire_gbps:g} Gb/s"
    )
    return 0


def _us(quantiles: dict[str, Any]) -> list[str]:
    names = ("p1_us", "p50_us", "p90_us", "p99_us", "max_us")
    return ["-" if quantiles[n] is None else f"{quantiles[n]:,.1f}" for n in names]


def _show(setting: living.Setting, found: dict[str, Any]) -> None:
    switch, cpu = found["switch"], found["cpu_pct"]
    say(
        f"{setting.hosts} hosts, slots of {setting.slot_us:g} us with nights of "
        f"{setting.night_us:g} us, {setting.wire_gbps:g} Gb/s"
    )
    say(
        f"use {found['use_pct']:.1f} % of ideal: {found['gbps']:.3f} Gb/s; duty "
        f"{found['duty_pct']:.1f} %, circuits were up {found['up_pct']:.1f} %"
    )
    say(
        f"overlaps {found['overlaps']}; violations {found['violations']:,} of "
        f"{found['forwarded'] + found['violations']:,} frames; late slots "
        f"{found['late_slots']:,} of {found['slots']:,}"
    )
    say(f"held {found['held_bytes']:,} bytes; dropped {found['dropped']:,} frames")
    say(
        f"CPU, % of one: switch {cpu['switch']:.1f}, shapers {cpu['shapers']:.1f} "
        f"(spinning {cpu['spinning']:.1f}), load {cpu['load']:.1f}"
    )
    if not found["realtime"]:
        say("no real-time priority: what else runs here is in these figures")
    worst = max(found["hosts"], key=lambda host: host["begin"]["p99_us"] or 0)
    rows = [
        ["sync frames sent, after a day's begin", *_us(switch["sync_late"])],
        [f"host {worst['host']} heard of it", *_us(worst["sync"])],
        [f"host {worst['host']} began to send", *_us(worst["begin"])],
        ["guard time left", *_us(switch["guard"])],
    ]
    columns = [("us", "left"), *((head, "right") for head in ("p1", "p50", "p90", "p99", "most"))]
    print_table(columns, rows)
