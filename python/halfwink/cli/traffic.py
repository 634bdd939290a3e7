"""``halfwink live generate`` and ``halfwink live sink``: test traffic."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from halfwink.bed import traffic
from halfwink.cli.console import parted, print_table, put_tables, say
from halfwink.errors import HalfwinkError

Flag = Annotated[bool, Parameter(negative="")]
Quiet = Annotated[bool, Parameter(name=["-q", "--quiet"], negative="")]
Json = Annotated[bool, Parameter(name="--json", negative="")]
Out = Annotated[Path | None, Parameter(name=["-o", "--out"])]
Many = Annotated[tuple[str, ...], Parameter(consume_multiple=False, negative="")]


def generate(
    interfaces: Annotated[tuple[str, ...], Parameter(negative="")],
    /,
    *,
    pps: str = "1000",
    seconds: float = 10.0,
    profile: str | None = None,
    peak_pps: Annotated[float, Parameter(name="--peak-pps")] = 100_000.0,
    to: Many = (traffic.BENCHMARK_V4,),
    source: Annotated[tuple[str, ...], Parameter(name="--from", negative="")] = (),
    mac: Many = (),
    flows: int = 64,
    size: str = "60",
    burst: int = 1,
    random_gaps: Annotated[bool, Parameter(name="--random-gaps", negative="")] = False,
    count: int | None = None,
    replay: Path | None = None,
    repeat: int = 1,
    faster: float = 1.0,
    spin_us: Annotated[float, Parameter(name="--spin-us")] = 100.0,
    batch: int = 32,
    queues: Flag = False,
    seed: int = 1,
    cpu: int | None = None,
    slot_ms: Annotated[int, Parameter(name="--slot-ms")] = 1000,
    json: Json = False,
    out: Out = None,
    quiet: Quiet = False,
) -> int:
    """Send test frames by interfaces: numbered, stamped with the time at which they were due.

    Ctrl-C and SIGTERM end it with its result.

    Parameters
    ----------
    interfaces
        One or more; flows are dealt out to them in turn.
    pps
        Frames per second; `1000,5000..20000,0` for steps and ramps of equal length; `max`;
        `captured` for the timing of a replay.
    seconds
        Length of the traffic, in seconds.
    profile
        Rates against time instead: evaluation, world-cup, or a file of lines SECONDS,SHARE.
    peak_pps
        Frames per second at a share of 1, with --profile.
    to
        Address or prefix that flows go to; may be given several times.
    source
        Addresses or prefix of the sources (default: the interfaces' own addresses).
    mac
        MAC address of the next hop, one for each interface (default: the kernel finds it).
    flows
        Number of flows, 1 to 65536.
    size
        Bytes of a frame without check sequence: 60, 60:7,590:4,1514:1 or imix.
    burst
        Frames that are due at once; the rate is kept.
    random_gaps
        Bursts follow each other at random, as of many sources, not evenly.
    count
        End after this number of frames.
    replay
        A pcap or pcapng file to send instead.
    repeat
        Number of times that the file is sent.
    faster
        Factor of acceleration, with --pps captured.
    spin_us
        Time for which to spin before a frame is due, in microseconds; before that the generator
        sleeps.
    batch
        Largest number of frames that are passed to the kernel at once.
    queues
        Spread flows over the interface's transmit queues, as a network card would over its receive
        queues (without, all go to the queue of the sending CPU, past the queueing discipline).
    seed
        Seed of random gaps, sizes and profiles.
    cpu
        CPU to pin to.
    slot_ms
        Length of a row of the result.
    json
        Print one JSON document.
    out
        File for the same.
    quiet
        No table.
    """
    rates = None
    if profile is not None:
        rates = traffic.profile(profile, seconds, peak_pps, seed=seed)
    elif pps not in ("max", "captured"):
        rates = traffic.steps(pps, seconds)
    if pps == "captured" and replay is None:
        raise HalfwinkError("--pps captured: expected --replay FILE")
    _least(flows=flows, burst=burst, batch=batch, repeat=repeat, slot_ms=slot_ms, seconds=seconds)
    _least(spin_us=spin_us + 1, faster=faster, seed=seed + 1)
    work = traffic.Generator(
        interfaces,
        pps=pps,
        seconds=seconds,
        rates=rates,
        macs=mac,
        to=to,
        sources=source,
        replay=replay,
        flows=flows,
        sizes=size,
        burst=burst,
        random_gaps=random_gaps,
        count=count,
        repeat=repeat,
        faster=faster,
        spin_us=spin_us,
        batch=batch,
        bypass=not queues,
        seed=seed,
        cpu=cpu,
        slot_ms=slot_ms,
    )
    found = _until_end(work)
    _show("generate", found, _sent_rows(found), json=json, out=out, quiet=quiet)
    return 0


def sink(
    interfaces: Annotated[tuple[str, ...], Parameter(negative="")],
    /,
    *,
    seconds: float | None = None,
    count: int | None = None,
    write: Path | None = None,
    write_count: Annotated[int, Parameter(name="--write-count")] = 1_000_000,
    ring_mib: Annotated[int, Parameter(name="--ring-mib")] = 16,
    cpu: int | None = None,
    slot_ms: Annotated[int, Parameter(name="--slot-ms")] = 1000,
    json: Json = False,
    out: Out = None,
    quiet: Quiet = False,
) -> int:
    """Receive what `generate` sent: count what is lost, doubled, reordered, broken or late.

    Prints `ready` on standard error when it watches. Ctrl-C and SIGTERM end it with its result.

    Parameters
    ----------
    interfaces
        One or more.
    seconds
        Ends after so long.
    count
        Ends after so many frames.
    write
        File for what comes in: .pcap, else pcapng.
    write_count
        Frames in that file, at most.
    ring_mib
        Memory of each interface's ring, in MiB.
    cpu
        CPU to stay on.
    slot_ms
        Length of a row of the result.
    json
        Print one JSON document.
    out
        File for the same.
    quiet
        No table, no `ready`.
    """
    _least(slot_ms=slot_ms, ring_mib=ring_mib, seconds=1 if seconds is None else seconds)
    work = traffic.Sink(
        interfaces,
        seconds=seconds,
        count=count,
        capture=None if write is None else str(write),
        capture_count=write_count,
        ring_mib=ring_mib,
        cpu=cpu,
        slot_ms=slot_ms,
    )
    say("ready", quiet=quiet)
    found = _until_end(work)
    _show("sink", found, _received_rows(found), json=json, out=out, quiet=quiet)
    return 0


def _least(**values: float) -> None:
    for name, value in values.items():
        if not 0 < value < 1 << 40:
            raise HalfwinkError(f"--{name.replace('_', '-')} {value}: expected more than 0")


def _until_end(work: traffic.Generator | traffic.Sink) -> dict[str, Any]:
    """Waits for the result; a signal ends the work early."""

    def end(_number: int, _frame: Any) -> None:
        work.stop()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        return work.result()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _show(
    name: str,
    found: dict[str, Any],
    rows: Sequence[Sequence[str]],
    *,
    json: bool,
    out: Path | None,
    quiet: bool,
) -> None:
    put_tables(f"live {name}", *parted(found, "slots"), out, json=json)
    if not json and not quiet:
        print_table([("what", "left"), ("value", "right")], rows)


def _sent_rows(found: dict[str, Any]) -> list[list[str]]:
    return [
        ["frames", f"{found['frames']:,}"],
        ["bytes", f"{found['bytes']:,}"],
        ["seconds", f"{found['seconds']:.3f}"],
        ["frames/s", f"{found['pps']:,.0f}"],
        ["late us", _times(found["lateness_us"])],
        ["refused by the kernel, offered again", f"{found['refusals']:,}"],
        ["CPU s", f"{found['cpu_s']:.3f}"],
    ]


def _received_rows(found: dict[str, Any]) -> list[list[str]]:
    order, flows = found["order"], found["flows"]
    return [
        ["frames", f"{found['frames']:,}"],
        ["bytes", f"{found['bytes']:,}"],
        ["frames/s", "-" if found["pps"] is None else f"{found['pps']:,.0f}"],
        ["missing below the highest number", f"{order['missing']:,}"],
        ["duplicated", f"{order['duplicated']:,}"],
        ["reordered in their flow", f"{flows['order']['reordered']:,}"],
        ["reordered over all", f"{order['reordered']:,}"],
        ["corrupt", f"{found['corrupt']:,}"],
        ["wrong IPv4 header checksums", f"{found['bad_headers']:,}"],
        ["flows", f"{flows['flows']:,}"],
        ["latency us", _times(found["latency_us"])],
        ["dropped by the sink itself", f"{found['sink_drops']:,}"],
        ["others' frames", f"{found['other']:,}"],
        ["CPU s", f"{found['cpu_s']:.3f}"],
    ]


def _times(summary: dict[str, Any]) -> str:
    if not summary["count"]:
        return "-"
    names = (("mean", "mean"), ("p50", "p50"), ("p99", "p99"), ("p99.9", "p999"), ("max", "max"))
    return ", ".join(f"{name} {summary[key]:.1f}" for name, key in names)
