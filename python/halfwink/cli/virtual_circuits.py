"""``halfwink live circuits --virtual``: the same bed in virtual time."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from halfwink.capture.progress import Progress
from halfwink.cli.console import parted, print_table, print_tables, say
from halfwink.live import virtual_circuits as virtual

#: What a run is counted for, unless asked otherwise.
WEEKS = 30


def play(setting: virtual.VirtualSetting, weeks: int | None, json: bool) -> int:
    """Plays a fabric and shows what was counted."""

    def tell(progress: Progress) -> None:
        if progress.stage == "set-up":
            say(progress.message, quiet=json)

    found = virtual.measure(setting, weeks=WEEKS if weeks is None else weeks, progress=tell)
    if json:
        told = {"setting": asdict(setting), **found}
        print_tables("live circuits --virtual", *parted(told, "hosts"))
    else:
        _show(setting, found)
    return 0


def _us(quantiles: dict[str, Any]) -> list[str]:
    names = ("p1_us", "p50_us", "p90_us", "p99_us", "max_us")
    return ["-" if quantiles[n] is None else f"{quantiles[n]:,.2f}" for n in names]


def _show(setting: virtual.VirtualSetting, found: dict[str, Any]) -> None:
    switch, cpu = found["switch"], found["cpu_pct"]
    shaper = f"{setting.tokens} tokens" if setting.shaper == "tokens" else setting.shaper
    say(
        f"{setting.hosts} hosts, slots of {setting.slot_us:g} us with nights of "
        f"{setting.night_us:g} us, {setting.gbps:g} Gb/s, {shaper}"
    )
    say(
        "virtual time, counted in instructions: one emulated CPU plays all, "
        f"{1000 * setting.dilation:,} a us"
    )
    say(
        f"use {found['use_pct']:.1f} % of ideal: {found['gbps']:.3f} Gb/s; duty "
        f"{found['duty_pct']:.1f} %, circuits were up {found['up_pct']:.1f} %"
    )
    kinds = ", ".join(f"{name} {count}" for name, count in switch["violations"].items())
    say(
        f"overlaps {found['overlaps']}; violations {found['violations']:,} of "
        f"{found['forwarded'] + found['violations']:,} frames ({kinds})"
    )
    say(f"late slots {found['late_slots']:,} of {found['slots']:,}")
    if found["streams"]:
        again = sum(streams["retransmitted"] for streams in found["streams"])
        say(
            f"TCP {setting.tcp}: {found['goodput_gbps']:.3f} Gb/s for programs; "
            f"{again:,} segments sent again"
        )
    say(f"CPU, %: switch {cpu['switch']:.1f}, hosts {cpu['shapers']:.1f}, load {cpu['load']:.1f}")
    worst = max(found["hosts"], key=lambda host: host["begin"]["p99_us"] or 0)
    rows = [
        [f"host {worst['host']} began to send, after a day's begin", *_us(worst["begin"])],
        ["guard time left", *_us(switch["guard"])],
    ]
    columns = [("us", "left"), *((head, "right") for head in ("p1", "p50", "p90", "p99", "most"))]
    print_table(columns, rows)
