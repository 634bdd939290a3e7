"""``halfwink trace``: looking at, checking and converting trace files."""

from __future__ import annotations

import json as jsonlib
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from halfwink import _core
from halfwink.cli.console import claimed, print_table, print_tables, say
from halfwink.cli.console import out as stdout
from halfwink.errors import HalfwinkError, RunError
from halfwink.library import library, trace_file

app = App(name="trace", help="Look at, check and convert trace files.", help_on_error=False)

Json = Annotated[bool, Parameter(name="--json", negative="")]
Setting = Annotated[list[str] | None, Parameter(name="--set", negative="", consume_multiple=False)]
#: Causes of kernel entries that are listed.
CAUSES = 20

Quiet = Annotated[bool, Parameter(name=["-q", "--quiet"], negative="")]


@app.command
def info(
    file: Path,
    *,
    kernel: Annotated[bool, Parameter(name="--kernel", negative="")] = False,
    json: Json = False,
) -> int:
    """Show where a trace comes from and what it holds.

    Parameters
    ----------
    file
        A trace (.hwt), or a recorded workload by name.
    kernel
        Show the kernel's part instead: the same as trace kernel.
    json
        Print one JSON document.
    """
    if kernel:
        return _show_kernel(str(file), "ev6", None, CAUSES, json=json)
    file = trace_file(file)
    facts = jsonlib.loads(_core.trace_info(str(file)))
    if json:
        _print_info(facts)
        return 0
    header, totals = facts["header"], facts["totals"]
    instructions = totals["instructions"]
    share = _share(totals["kernel_instructions"], instructions)
    rows = [
        ["workload", header["workload"]],
        ["description", header["description"]],
        ["command", " ".join(header["command"])],
        ["kernel", header.get("kernel", "")],
        ["tools", ", ".join(f"{k} {v}" for k, v in header["tools"].items())],
        ["packages", _packages(header)],
        ["seed", str(header["seed"])],
        ["instructions", f"{instructions:,} ({share} kernel)"],
        ["samples", _samples(header.get("samples"))],
        ["memory accesses", f"{totals['accesses']:,}"],
        ["events", ", ".join(f"{n:,} {name}" for name, n in sorted(totals["events"].items()))],
        ["requests", f"{totals['requests']:,}"],
        ["idle", f"{totals['idle_ns'] / 1e6:.3f} ms of the recorded machine's time"],
        [
            "code",
            f"{header['code']}; {facts['blocks']:,} blocks, "
            f"{facts['static_instructions']:,} instructions",
        ],
        ["warm cache lines", f"{facts['warm_lines']:,}"],
        [
            "size",
            f"{facts['bytes']:,} bytes, "
            f"{facts['bytes'] / max(instructions, 1):.3f} per instruction",
        ],
        ["history", "; ".join(header.get("history", []))],
        ["notes", "; ".join(header.get("notes", []))],
    ]
    print_table([("trace", "left"), (str(file), "left")], [r for r in rows if r[1]])
    return 0


def _print_info(found: dict[str, Any]) -> None:
    """Prints header and totals as single values, and lists of records as tables."""
    rest = {name: value for name, value in found.items() if name not in ("header", "totals")}
    header, sections = dict(found["header"]), rest.pop("sections")
    tables = {"sections": sections, "packages": header.pop("packages", [])}
    print_tables("trace info", tables, {**header, **found["totals"], **rest})


def _samples(found: dict[str, Any] | None) -> str:
    """Returns a line on the samples that a recording holds of its run."""
    if found is None:
        return ""
    return (
        f"{len(found['begins']):,} of a run of {found['of']:,} instructions, one every "
        f"{found['every']:,}"
    )


def _packages(header: dict[str, Any]) -> str:
    listed = header.get("packages", [])
    text = ", ".join(f"{p['name']} {p['version']}" for p in listed[:8])
    return f"{text} and {len(listed) - 8} more" if len(listed) > 8 else text


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"


@app.command
def head(file: Path, *, count: Annotated[int, Parameter(name=["-n", "--count"])] = 20) -> int:
    """Show the first instructions and the events between them.

    Parameters
    ----------
    file
        A trace (.hwt), or a recorded workload by name.
    count
        Number of instructions.
    """
    if count < 0:
        raise HalfwinkError(f"-n {count}: expected 0 or more")
    sys.stdout.write(_core.trace_head(str(trace_file(file)), count))
    return 0


@app.command
def check(file: Path, *, json: Json = False) -> int:
    """Read a whole trace: checksums, counts, flow of control, direct map.

    Parameters
    ----------
    file
        A trace (.hwt), or a recorded workload by name.
    json
        Print one JSON document.
    """
    file = trace_file(file)
    found = _core.trace_check(str(file))
    if json:
        print_tables("trace check", {}, found)
    else:
        rows = [[name.replace("_", " "), f"{n:,}"] for name, n in found.items()]
        print_table([("checked", "left"), (str(file), "right")], rows)
    if found["direct_map_wrong"]:
        raise RunError(f"{file}: {found['direct_map_wrong']} physical addresses cannot be right")
    return 0


@app.command(name="import")
def import_(
    file: Path,
    *,
    out: Annotated[Path | None, Parameter(name=["-o", "--out"])] = None,
    workload: str | None = None,
    format_: Annotated[
        Literal["champsim", "champsim-cloudsuite", "drmemtrace"] | None, Parameter(name="--format")
    ] = None,
    limit: int | None = None,
    quiet: Quiet = False,
) -> int:
    """Make a trace from another simulator's, packed or not (xz, gz, bz2, zst; a tar of one file).

    Parameters
    ----------
    file
        ChampSim records, or the final form of a thread's or core's drmemtrace, whose chunks may
        stand in a zip; - for standard input.
    out
        Trace to write (default: the file's name with .hwt).
    workload
        Name of the workload (default: the file's name).
    format_
        ChampSim's own records, the longer ones of the CloudSuite traces, or DynamoRIO's drmemtrace
        (default: drmemtrace if the file's name begins so, else ChampSim's).
    limit
        Instructions to read, at most.
    quiet
        No messages.
    """
    format_ = format_ or ("drmemtrace" if file.name.startswith("drmemtrace.") else "champsim")
    # The first part of a drmemtrace's name is the format's.
    name = workload or file.name.removeprefix("drmemtrace.").split(".")[0]
    with claimed(out, file.with_name(f"{name}.hwt"), quiet=quiet) as path:
        if format_ == "drmemtrace":
            found = _core.import_drmemtrace(str(file), str(path), name, limit)
        else:
            cloudsuite = format_ == "champsim-cloudsuite"
            found = _core.import_champsim(str(file), str(path), name, limit, cloudsuite)
    totals = jsonlib.loads(found)
    say(
        f"{path}: {totals['instructions']:,} instructions, {path.stat().st_size:,} bytes",
        quiet=quiet,
    )
    return 0


@app.command
def export(
    file: Path,
    *,
    out: Annotated[Path | None, Parameter(name=["-o", "--out"])] = None,
    format_: Annotated[Literal["champsim", "drmemtrace"], Parameter(name="--format")] = "champsim",
    mode: Literal["user", "kernel", "all"] = "all",
    cpu: int | None = None,
    limit: int | None = None,
    quiet: Quiet = False,
) -> int:
    """Write a trace for another simulator; the ending of the name says how to compress.

    Parameters
    ----------
    file
        A trace (.hwt), or a recorded workload by name.
    out
        File to write (default: the trace's name with .champsim.xz or .drmemtrace.gz).
    format_
        ChampSim records (raw, .xz, .gz, .bz2), or DynamoRIO's drmemtrace (raw, .gz).
    mode
        Which instructions: user, kernel (ChampSim only) or all.
    cpu
        CPU of the recorded machine, with drmemtrace; may be omitted if it used one.
    limit
        Instructions to write, at most.
    quiet
        No messages.
    """
    if cpu is not None and not (format_ == "drmemtrace" and 0 <= cpu < 1 << 16):
        raise HalfwinkError(f"--cpu {cpu}: expected 0 to 65535, with --format drmemtrace")
    recorded = trace_file(file)
    if format_ == "drmemtrace":
        if mode == "kernel":
            raise HalfwinkError("--mode kernel: a drmemtrace has user code; expected user or all")
        with claimed(out, file.with_suffix(".drmemtrace.gz"), quiet=quiet) as path:
            done = _core.export_drmemtrace(str(recorded), str(path), mode == "all", cpu, limit)
        say(f"{path}: {_drmemtrace(done)}", quiet=quiet)
        return 0
    user, kernel = mode in ("user", "all"), mode in ("kernel", "all")
    with claimed(out, file.with_suffix(".champsim.xz"), quiet=quiet) as path:
        records, left_out = _core.export_champsim(str(recorded), str(path), user, kernel, limit)
    note = f"; {left_out:,} accesses had no room in their records" if left_out else ""
    say(f"{path}: {records:,} records ({mode} instructions){note}", quiet=quiet)
    return 0


def _drmemtrace(done: dict[str, int]) -> str:
    """Describes the written trace in the words of DynamoRIO's `basic_counts`."""
    user, kernel = done["user_instructions"], done["kernel_instructions"]
    note = f"; {done['gaps']:,} gaps that nothing recorded explains" if done["gaps"] else ""
    return (
        f"{user + kernel - done['repeats']:,} fetched instructions and {done['repeats']:,} "
        f"repetitions ({_share(kernel, user + kernel)} kernel), {done['loads']:,} loads, "
        f"{done['stores']:,} stores, {done['threads']:,} threads{note}"
    )


@app.command
def caches(
    file: Path,
    *,
    i1: str = "32KB:8",
    d1: str = "32KB:8",
    ll: str = "8MB:16",
    user: Annotated[bool, Parameter(negative="")] = False,
    virtual: Annotated[bool, Parameter(negative="")] = False,
    json: Json = False,
) -> int:
    """Count the misses of a trace in caches of any shape, by Cachegrind's rules, without time.

    Parameters
    ----------
    file
        A trace (.hwt), or a recorded workload by name.
    i1
        First-level instruction cache: capacity and ways.
    d1
        First-level data cache.
    ll
        Last-level cache, for both.
    user
        Leave kernel instructions out, as if they left no trace in the caches.
    virtual
        Caches see virtual addresses, as Cachegrind's do, not physical ones.
    json
        Print one JSON document.
    """
    counts = _core.trace_caches(str(trace_file(file)), [i1, d1, ll], user, virtual)
    shown = [row for row in counts if row[2]]
    columns = ["kind", "mode", "accesses", "l1_misses", "ll_misses"]
    if json:
        rows = [dict(zip(columns, row, strict=True)) for row in shown]
        print_tables("trace caches", {"misses": rows})
        return 0
    rows = [
        [kind, mode, f"{n:,}", f"{l1:,}", _share(l1, n), f"{last:,}", _share(last, n)]
        for kind, mode, n, l1, last in shown
    ]
    heads = ["accesses", "L1 misses", "", "LL misses", ""]
    print_table([("kind", "left"), ("mode", "left"), *((h, "right") for h in heads)], rows)
    return 0


@app.command
def io(workload: str, *, beside: str | None = None, json: Json = False) -> int:
    """Show what an I/O takes in the kernel, of a program that reads or writes by system calls.

    All that the recording holds, for each I/O that it submits (io_submit, io_uring_enter, pread and
    the like): of a steady state.

    Parameters
    ----------
    workload
        A recorded workload by name, or a trace (.hwt).
    beside
        Another CPU of the same run: what both do for an I/O of either, and how many lines travel
        between them (estimated as if their I/Os took turns).
    json
        Print one JSON document.
    """
    from halfwink.models.io_paths import io_path

    found = io_path(workload, beside)
    if json:
        print_tables("trace io", {"paths": found})
        return 0
    titles = {
        "submissions": "system calls that submit",
        "user_instructions": "instructions of the program",
        "kernel_instructions": "instructions of the kernel",
        "locked_instructions": "atomic ones of the kernel",
        "interrupts": "interrupts",
        "lines": "lines that the kernel uses",
        "transfers": "of them from the other CPU",
    }
    columns = [(name, "right") for name in found["cpu"]]
    rows = [["I/Os", *(f"{ios:,}" for ios in found["ios"])]]
    rows += [
        [title, *(f"{value:,.2f}" for value in found[name])]
        for name, title in titles.items()
        if found[name].null_count() == 0
    ]
    print_table([("for each of them", "left"), *columns], rows)
    return 0


@app.command
def predict(workload: str, *, setting: Setting = None, json: Json = False) -> int:
    """Show how well a hardware predictor tells the length of each kernel entry of a trace.

    Readings: the entries that were recorded, with and without interrupts; and all privileged ones
    of a machine with register windows and software-filled TLBs, whose traps are modelled.

    Parameters
    ----------
    workload
        A recorded workload by name, or a trace (.hwt).
    setting
        Values of machines/entries/ultrasparc-iii.toml to change
        (--set predictor.associative_entries=1).
    json
        Print one JSON document.
    """
    from halfwink.cli.settings import settings

    found = library().prediction(workload, settings(setting))
    if json:
        facts = dict(found)
        tables = {"predictors": facts.pop("rows"), "traps": facts.pop("traps")}
        print_tables("trace predict", tables, facts)
        return 0
    user, kernel = found["instructions"]
    said = ("system_calls", "interrupts", "exceptions", "unexplained", "halted", "nested")
    counts = ", ".join(f"{found[name]:,} {name.replace('_', ' ')}" for name in said)
    say(
        f"{workload}: {user + kernel:,} instructions ({_share(kernel, user + kernel)} kernel); "
        f"{counts}; {found['mean_instructions']:,.0f} instructions on average"
    )
    user, kernel = found["privileged_instructions"]
    traps = ", ".join(f"{t['user']:,} {t['trap'].replace('-', ' ')}" for t in found["traps"])
    say(f"with modelled traps of user code: {_share(kernel, user + kernel)} kernel; {traps}")
    _show_predictions(found["rows"])
    return 0


def _show_predictions(rows: list[dict[str, Any]]) -> None:
    """Lengths, then decisions: side by side they are wider than a terminal."""
    shown = [
        [
            row["entries"],
            row["table"],
            f"{row['predictions']:,}",
            f"{row['exact_percent']:.1f} %",
            f"{row['within_5_percent']:.1f} %",
        ]
        for row in rows
    ]
    heads = ["predicted", "exact", "within 5 %"]
    first = [("entries", "left"), ("table", "left")]
    print_table([*first, *((h, "right") for h in heads)], shown)
    stdout.print()
    shown = [
        [row["entries"], row["table"], *(f"{d['right_percent']:.1f}" for d in row["decisions"])]
        for row in rows
    ]
    heads = [f"{d['threshold']:,}" for d in rows[0]["decisions"]]
    first = [("right, %, at N", "left"), ("table", "left")]
    print_table([*first, *((h, "right") for h in heads)], shown)


@app.command
def kernel(
    workload: str,
    *,
    machine: str = "ev6",
    setting: Setting = None,
    caches: str | None = None,
    limit: Annotated[int, Parameter(name=["-n", "--limit"])] = CAUSES,
    json: Json = False,
) -> int:
    """Show how often and why the kernel runs, for how long, and what it does to the caches.

    Parameters
    ----------
    workload
        A recorded workload by name, or a trace (.hwt).
    machine
        Machine whose caches are looked at.
    setting
        Values of the machine to change (--set l2.size=512KB).
    caches
        Shapes of L1I, L1D and up to two further levels in place of a machine's
        ("32KB:2 32KB:2 1MB:16").
    limit
        Causes of kernel entries to list, those with most instructions first; --json has all.
    json
        Print one JSON document.
    """
    if limit < 0:
        raise HalfwinkError(f"-n {limit}: expected 0 or more")
    return _show_kernel(workload, caches or machine, setting, limit, json=json)


def _show_kernel(
    workload: str, caches: str, setting: list[str] | None, limit: int, *, json: bool
) -> int:
    # Data frames and all that: not for those who only look at a file.
    from halfwink.cli.kernel import show
    from halfwink.cli.settings import settings

    return show(workload, caches, settings(setting), limit, json=json)


@app.command(name="slice")
def slice_(
    file: Path,
    *,
    out: Annotated[Path, Parameter(name=["-o", "--out"])],
    skip: int = 0,
    keep: int = 5_000_000,
    warm_mb: Annotated[float, Parameter(name="--warm-mb")] = 8.0,
    bytes_: Annotated[bool, Parameter(name="--code-bytes", negative="")] = False,
    quiet: Quiet = False,
) -> int:
    """Cut a short trace out of a long one, with the caches as the long one left them.

    Parameters
    ----------
    file
        A trace (.hwt), or a recorded workload by name.
    out
        Trace to write.
    skip
        Instructions to leave out at the start; they only warm the caches.
    keep
        Instructions to keep.
    warm_mb
        Size of the largest cache that must find its contents, in MB.
    bytes_
        Keep the recorded programs' code bytes, not only decoded records.
    quiet
        No messages.
    """
    if min(skip, keep - 1) < 0 or warm_mb < 0:
        raise HalfwinkError("expected --skip 0 or more, --keep 1 or more, --warm-mb 0 or more")
    file = trace_file(file)
    if out.exists() and out.samefile(file):
        raise HalfwinkError(f"{out}: cannot replace the trace that is being cut")
    lines = int(warm_mb * (1 << 20) / 64)
    with claimed(out, out, quiet=quiet):
        text = _core.trace_slice(str(file), str(out), (skip, keep), lines, not bytes_, 19)
    totals = jsonlib.loads(text)
    size = out.stat().st_size
    say(
        f"{out}: {totals['instructions']:,} instructions, {totals['requests']:,} requests, "
        f"{size:,} bytes ({size / max(totals['instructions'], 1):.3f} per instruction)",
        quiet=quiet,
    )
    return 0
