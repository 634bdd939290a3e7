"""``halfwink live block``: a block device over NBD, completed where a policy says."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from halfwink.cli.console import (
    complain,
    has_place,
    parted,
    print_table,
    print_tables,
    put_json,
    say,
)
from halfwink.cli.serving import measured_lines
from halfwink.errors import HalfwinkError
from halfwink.live import block_advice, served
from halfwink.live.block import Block, Device
from halfwink.live.server_topology import Cpu, of_server

Flag = Annotated[bool, Parameter(negative="")]


def block(
    description: Path | None = None,
    *,
    check: Flag = False,
    unix: Path | None = None,
    tcp: str | None = None,
    vhost: Path | None = None,
    queues: int = 1,
    ublk: Annotated[list[str] | None, Parameter(consume_multiple=(0, 1), negative="")] = None,
    ram: str | None = None,
    file: Path | None = None,
    io: str = "auto",
    direct: Flag = False,
    latency_us: Annotated[float | None, Parameter(name="--latency-us")] = None,
    seed: int = 1,
    read_only: Annotated[bool, Parameter(name="--read-only", negative="")] = False,
    export: str = "",
    policy: Annotated[str, Parameter(name=["-t", "--policy"])] = "single-thread",
    rest: str = "auto",
    cpus: str | None = None,
    no_pin: Annotated[bool, Parameter(name="--no-pin", negative="")] = False,
    connections: int = 1000,
    log: Path | None = None,
    metrics: str | None = None,
    advise: Flag = False,
    iops: float | None = None,
    report: Path | None = None,
    load: Path | None = None,
    server: Path | None = None,
    ignore: str = "",
    seconds: float | None = None,
    json: Annotated[bool, Parameter(name="--json", negative="")] = False,
    out: Annotated[Path | None, Parameter(name=["-o", "--out"])] = None,
    quiet: Annotated[bool, Parameter(name=["-q", "--quiet"], negative="")] = False,
) -> int:
    """Serve a block device over NBD: one CPU reads requests, and a policy chooses the completing
    CPU.

    SIGTERM or Ctrl-C ends it; what was answered is on stable storage then. SIGHUP reads the
    description again (connections, policy, rest). All times are measured.

    Parameters
    ----------
    description
        TOML file with the settings of the device, instead of the options for them.
    check
        Check the description, say what is wrong with it, and end.
    unix
        Listen at this Unix socket.
    tcp
        Listen at HOST:PORT instead; every client that can reach the port may read and write.
    vhost
        Serve as a disk of virtual machines, one after another (vhost-user-blk), at this socket. The
        guest's choice of queue decides which CPU completes, so that no policy is asked.
    queues
        Number of queues with --vhost, each with a thread.
    ublk
        Serve as a disk of this machine, by the kernel's ublk driver: /dev/ublkbN, for the number
        that is given here, or any free one (needs root; see halfwink doctor).
    ram
        Size of a device in memory: 64K, 256M, 1G.
    file
        Path of a file or block device to serve instead, in its full size.
    io
        Interface for reads and writes of --file: uring (io_uring), sync (a call for each), auto
        (io_uring where the kernel allows it).
    direct
        Bypass the page cache for whole blocks of --file, by io_uring, where the file system allows
        it.
    latency_us
        Mean latency of --ram as a modelled device, in microseconds. With --load: the device's
        latency, if a trace does not hold it.
    seed
        Seed of the random latencies.
    read_only
        Reject all writes.
    export
        Name of the export; clients that name none get it, too.
    policy
        Completion policy: single-thread, same, issuer, round-robin-socket, cache-aware, dynamic,
        msi-x, multi-queue, polled, hybrid-poll, interleaved-tags; parameters after a colon.
    rest
        Rest of a thread without work: auto (gather, or own where a policy polls), own (the policy's
        way), gather (several I/Os per wake-up), interrupt, polling, suricata, l3fwd-pause.
    cpus
        CPUs that serve, each with a thread; the first one reads requests: 0-3,8 (default: all
        allowed).
    no_pin
        Do not pin threads to their CPUs.
    connections
        Largest number of simultaneous connections; more are closed.
    log
        File for the policy's events and actions: lines of JSON.
    metrics
        HOST:PORT at which to serve OpenMetrics.
    advise
        Measure this machine instead of serving, and advise which CPUs and queues should complete
        I/Os.
    iops
        Rate of I/Os per second to plan for with --advise (default: that of the report, or 100,000).
    report
        Report of a run under your own load (written with -o), from which --advise takes the time of
        an I/O.
    load
        Load of your own that --advise simulates: a job file or an I/O log of fio, a trace of
        blktrace (any of its files, or their folder), the text of blkparse, biosnoop or perf script,
        or a CSV as of MSR Cambridge or Alibaba. Packed or not.
    server
        Another server to advise for, by its CPUs and caches and with times of this machine: XML of
        lstopo, or a folder with a copy of its /sys/devices/system/cpu.
    ignore
        Parts of the load to leave out although they matter, separated by commas: the words that an
        error names.
    seconds
        Length of the run in seconds (default: until a signal).
    json
        Print the report as one JSON document.
    out
        Write that document to this file.
    quiet
        Print no messages.
    """
    if seconds is not None and not 0 < seconds <= 30 * 86_400:
        raise HalfwinkError(f"--seconds {seconds}: expected above 0, at most 30 days")
    if advise:
        return _advise(Asked(cpus, iops, report, load, server, latency_us, ignore), json)
    if any(given is not None for given in (iops, report, load, server)):
        raise HalfwinkError("--iops, --report, --load and --server go with --advise")
    if check:
        if description is None:
            raise HalfwinkError("--check: expected a description (TOML)")
        say(served.check("block", description), quiet=quiet)
        return 0
    device = Device(
        ublk=None if ublk is None else (ublk or ["any"])[0],
        unix=unix,
        tcp=tcp,
        vhost=vhost,
        queues=queues,
        ram=ram,
        file=file,
        io=io,
        direct=direct,
        latency_us=latency_us,
        seed=seed,
        read_only=read_only,
        export=export,
        policy=policy,
        rest=rest,
        cpus=cpus,
        pin=not no_pin,
        connections=connections,
        log=log,
    )
    if description is not None and device != Device(log=log):
        raise HalfwinkError(f"{description}: expected no option of the device beside it")
    has_place(out)

    with Block(
        description or device,
        log=log,
        metrics=metrics,
        seconds=seconds,
        forwards=True,
        tell=complain,
    ) as serving:
        say(f"ready at {serving.address}", quiet=quiet)
        found = serving.wait()
    put_json("live.block", found, out, json=json)
    of_guests = "stages" not in found
    if not json and of_guests:
        counts = ("requests", "failed", "broken")
        say(", ".join(f"{found[name]:,} {name}" for name in counts), quiet=quiet)
    elif not json and not quiet:
        show(found)
        for line in measured_lines(found):
            say(line)
        if found["measured"]["missing"] is not None:
            say(f"not measured: {found['measured']['missing']}")
    return 0


@dataclass(frozen=True)
class Asked:
    """Parameters of an advice: see the options of these names."""

    cpus: str | None
    iops: float | None
    report: Path | None
    load: Path | None
    server: Path | None
    latency_us: float | None
    ignore: str


def _advise(asked: Asked, json: bool) -> int:
    from halfwink.live import block_loads

    if asked.load is not None and asked.iops is not None:
        raise HalfwinkError("--iops: --load says how many I/Os there are")
    if asked.load is None and asked.latency_us is not None:
        raise HalfwinkError("--latency-us goes with --load, where --advise is")
    known = block_advice.Load() if asked.report is None else block_advice.load_of(asked.report)
    load = known if asked.iops is None else replace(known, iops=asked.iops)
    measured = block_advice.measure(asked.cpus)
    if asked.server is not None:
        if asked.cpus is not None:
            raise HalfwinkError("--cpus are of this machine: leave them out with --server")
        measured = of_server(measured, asked.server)
        say(_server(asked.server, measured["machine"]["cpus"]))
    simulate: block_advice.Simulate = block_loads.simulate
    played: dict[str, Any] | None = None
    if asked.load is not None:
        runs = block_loads.load_runs(
            measured,
            asked.load,
            io_us=load.io_us,
            latency_us=asked.latency_us,
            ignore=[word for word in asked.ignore.split(",") if word],
        )
        load, expected = block_loads.asked_of(runs, load)
        simulate = block_advice.known(expected)
        played = {"load": runs.load, "policies": runs.expected()}
    advice = block_advice.advise(measured, load, simulate)
    if json:
        found = block_advice.document(measured, load, advice, played)
        print_tables("live block --advise", *parted(found, "trips", "policies"))
        return 0
    if played is not None:
        say(_described(played["load"]))
    rest = "poll" if advice.poll else "sleep"
    cpus_said = ",".join(map(str, advice.cpus))
    one = advice.queues == 1
    where = f"1 queue on CPU {cpus_said}" if one else f"{advice.queues} queues on CPUs {cpus_said}"
    say(f"{where}: {rest}, because")
    for reason in advice.why:
        say(f"  {reason}")
    print_table([("for", "left"), ("say", "left")], [list(line) for line in advice.lines])
    if played is not None:
        say("to expect (modelled, not measured; means and 95 % intervals over five seeds):")
        show_expected(played["policies"])
        return 0
    found = advice.expected
    shown = {
        "iops": ("I/Os a second", ",.0f"),
        "cpus": ("CPUs", ".2f"),
        "uj_per_io": ("uJ for each I/O", ",.0f"),
    }
    say("to expect (modelled, not measured; 95 % intervals over five seeds):")
    for name, (title, form) in shown.items():
        value, low, high = (format(found[name + end], form) for end in ("", "_low", "_high"))
        say(f"  {value} {title} ({low} to {high})")
    return 0


def _server(path: Path, cpus: list[Cpu]) -> str:
    """Describes another server, and whose times are taken for it."""
    caches = len({cpu["cache"] for cpu in cpus})
    what = f"{len(cpus)} CPUs, last-level caches: {caches}"
    times = "times of a CPU and within a cache are this machine's"
    between = ", between caches those of westmere-ex (assumption)" if caches > 1 else ""
    return f"{path}: {what}; {times}{between}"


def _described(load: dict[str, Any]) -> str:
    """Describes a load in a line or two."""
    issuing = "1 CPU issues" if load["issuers"] == 1 else f"{load['issuers']} CPUs issue"
    what = f"{issuing} {load['bytes']:,.0f} B an I/O, {load['reads_pct']:.0f} % reads"
    if load["kind"] == "fio":
        what += f", {load['depth']:,} in flight"
        if load["phases"] > 1:
            what += f" (the busiest of {load['phases']} phases)"
    else:
        what += f", {load['iops']:,.0f} a second, at most {load['peak_iops']:,.0f}"
    what += f"; a device of {load['device_latency_us']:,.1f} us"
    if load["kind"] == "blktrace" and load["traced_latency_us"] is None:
        what += " (the trace does not say)"
    return f"{load['read_as']}\n{what}"


def show_expected(policies: list[dict[str, Any]]) -> None:
    """Prints the expected effect of each policy on a load."""
    shown = {
        "I/Os a s": ("iops", ",.0f"),
        "p99 us": ("latency_p99_us", ",.1f"),
        "driver CPUs": ("cpus", ".3f"),
        "awake": ("awake_cpus", ".2f"),
        "uJ an I/O": ("uj_per_io", ",.0f"),
    }

    def cell(row: dict[str, Any], name: str, form: str) -> str:
        half = row[f"{name}_high"] - row[name]
        return f"{format(row[name], form)} ±{format(half, form)}"

    rows = [
        [row["policy"], *(cell(row, name, form) for name, form in shown.values())]
        for row in policies
    ]
    print_table([("policy", "left"), *((head, "right") for head in shown)], rows)


def _us(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def show(report: dict[str, Any]) -> None:
    """Prints a device's report as tables."""
    asked, latency, conns = report["requests"], report["latency"], report["connections"]
    say(
        f"{asked['reads']:,} reads, {asked['writes']:,} writes, {asked['flushes']:,} flushes, "
        f"{asked['trims'] + asked['zeroes']:,} trims and zeroes, {asked['refused']:,} refused; "
        f"{report['errors']:,} errors"
    )
    times = f"in the server p50 {_us(latency['p50_us'])} us, p99 {_us(latency['p99_us'])} us"
    if conns is not None:
        times += f"; {conns['accepted']:,} connections, {conns['peak']:,} at once"
    say(times)
    columns = [("stage", "left"), ("ns per I/O", "right"), ("%", "right")]
    names = ("read", "decode", "backend", "hand-off", "reply")
    stages = [(name, report["stages"][name]) for name in names]
    print_table(
        columns,
        [
            [
                name,
                "-" if stage["ns_per_io"] is None else f"{stage['ns_per_io']:,.0f}",
                "-" if stage["share_pct"] is None else f"{stage['share_pct']:.0f}",
            ]
            for name, stage in stages
        ],
    )
    heads = ["CPU", "sleeping s", "polling s", "working s", "read here", "given", "wakes"]
    rows = [
        [
            "any" if worker["cpu"] is None else str(worker["cpu"]),
            *(f"{worker[state]:.3f}" for state in ("sleeping_s", "polling_s", "working_s")),
            *(f"{worker[count]:,}" for count in ("here", "given", "wakes")),
        ]
        for worker in report["workers"]
    ]
    print_table([(head, "right") for head in heads], rows)
