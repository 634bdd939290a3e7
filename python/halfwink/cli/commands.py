"""Commands that run something."""

from __future__ import annotations

import math
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from halfwink import comparison as comparing
from halfwink import doctor as checking
from halfwink import studies
from halfwink import targets as published
from halfwink.cli import placement
from halfwink.cli.console import out as stdout
from halfwink.cli.console import print_frame, print_json, print_table, progress_bar, say
from halfwink.cli.router import keep_router
from halfwink.cli.settings import Setting, settings
from halfwink.errors import HalfwinkError, RunError
from halfwink.jobs import write_whole
from halfwink.results import Results
from halfwink.router_results import RouterResults
from halfwink.timeline import write_timeline

if TYPE_CHECKING:
    from halfwink.report import Section

Json = Annotated[bool, Parameter(name="--json", negative="")]
Quiet = Annotated[bool, Parameter(name=["-q", "--quiet"], negative="")]
Fresh = Annotated[bool, Parameter(negative="")]
Out = Annotated[Path | None, Parameter(name=["-o", "--out"])]

#: Where results go when nothing else is said.
OUT = Path("halfwink-out")


def compare(
    *workloads: str,
    technique: Annotated[str | None, Parameter(name=["-t", "--technique"])] = None,
    machine: Annotated[str, Parameter(name=["-m", "--machine"])] = comparing.DEFAULT_MACHINE,
    setting: Setting = None,
    instructions: Annotated[int | None, Parameter(name=["-n", "-i", "--instructions"])] = None,
    timeline: Annotated[str | None, Parameter()] = None,
    out: Out = None,
    fresh: Fresh = False,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Run techniques on workloads: one table, one chart, one report.

    Parameters
    ----------
    workloads
        Names (nginx), files (my.hwt), copies (nginx*4), mixes (nginx+gcc), or chase:mb=64.
    technique
        Techniques, separated by commas; all-gating for a family. All, if none is given.
    machine
        Machine, with a number of cores (ev6-16), or a file.
    setting
        Change a value of the machine: --set gating.wake_up_ns=16. May be repeated.
    instructions
        Instructions of each core, at most.
    timeline
        Record the cores' states for Perfetto: FROM:UNTIL in microseconds from the start, or UNTIL.
    out
        Folder of the results.
    fresh
        Run again what is already there.
    json
        Print one JSON document.
    quiet
        No progress, no messages.
    """
    if not workloads:
        raise HalfwinkError("no workload was named; `halfwink list workloads` shows what there is")
    folder = out or OUT / _slug("compare", *workloads, machine)
    window = _window(timeline)
    with progress_bar("compare", quiet=quiet) as progress:
        begun = time.monotonic()
        results = comparing.compare(
            workloads,
            techniques=technique.split(",") if technique else None,
            machine=machine,
            set=settings(setting),
            instructions=instructions,
            timeline_ns=window,
            out=folder,
            fresh=fresh,
            progress=progress,
        )
        seconds = time.monotonic() - begun
    title = f"{', '.join(workloads)} on {machine}"
    _keep(folder, title, results, as_run=_compare_study(results))
    if json:
        print_json(comparing.as_json(results))
    else:
        print_results(results)
        placement.show(results)
        stdout.print("energy and time are modelled; core: with its first and second caches")
    simulated = float(results.runs["instructions"].sum()) / 1e6
    say(
        f"{simulated:.0f} M instructions in {seconds:.1f} s; report: {folder / 'report.html'}",
        quiet=quiet,
    )
    if window is not None:
        say(f"timeline for ui.perfetto.dev: {folder / 'timeline.json'}", quiet=quiet)
    return 0


def run(
    study: str,
    *,
    executor: str = "local",
    out: Out = None,
    fresh: Fresh = False,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Run a study: workloads, machines, techniques and sweeps that a file describes.

    Parameters
    ----------
    study
        Name of a study, or a TOML file.
    executor
        local, or local:WORKERS.
    out
        Folder of the results.
    fresh
        Run again what is already there.
    json
        Print one JSON document.
    quiet
        No progress, no messages.
    """
    folder = out or OUT / _slug("run", Path(study).stem)
    with progress_bar(f"run {Path(study).stem}", quiet=quiet) as progress:
        done = studies.run(
            study,
            out=folder,
            executor=studies.executor_named(executor),
            fresh=fresh,
            progress=progress,
        )
    if isinstance(done.results, RouterResults):
        keep_router(folder, done.study, done.results)
        if json:
            print_json(done.results.runs.to_dicts())
        else:
            print_frame(done.results.table())
            stdout.print("all watts and times are modelled; half: of the 95 % interval of a mean")
        say(f"report: {folder / 'report.html'}", quiet=quiet)
        return 0
    from halfwink.report import Section
    from halfwink.report.charts import study_plot

    plots = [
        Section(plot["title"], "From the study.", study_plot(done.results, plot))
        for plot in done.study["plots"]
    ]
    _keep(folder, done.study["title"], done.results, as_run=studies.as_run(done.study), plots=plots)
    if json:
        print_json(done.results.runs.to_dicts())
    else:
        print_results(done.results)
        placement.show(done.results)
    say(f"report: {folder / 'report.html'}", quiet=quiet)
    return 0


def reproduce(
    *wanted: str,
    fresh: Fresh = False,
    check: Annotated[bool, Parameter(negative="")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Show published numbers beside ours.

    Parameters
    ----------
    wanted
        Areas (gating), works (strong), or beginnings of ids (strong/PT-2.1). All, if none is given.
    fresh
        Compute again what is already there.
    check
        Fail if a target is missed.
    json
        Print one JSON document.
    quiet
        No progress, no messages.
    """
    with progress_bar("reproduce", quiet=quiet) as progress:
        entries = published.reproduce(wanted, fresh=fresh, progress=lambda _, p: progress(p))
    if json:
        print_json(entries)
    else:
        computed = [e for e in entries if e["verdict"] != "not-yet"]
        print_table(
            [
                ("id", "left"),
                ("quantity", "left"),
                ("unit", "left"),
                ("published", "right"),
                ("ours", "right"),
                ("class", "left"),
                ("verdict", "left"),
            ],
            [
                [
                    e["id"],
                    _shorten(e["quantity"], 72),
                    e["unit"],
                    _plain(e["published"]),
                    _plain(e["ours"]),
                    e["class"],
                    e["verdict"],
                ]
                for e in computed
            ],
        )
        for line in _tally(entries):
            stdout.print(line)
    missed = [e["id"] for e in entries if e["verdict"] in published.FAILURES]
    if check and missed:
        raise RunError(f"{len(missed)} targets are missed: {', '.join(missed[:8])}")
    return 0


def capture(
    workload: str | None = None,
    *,
    command: Annotated[tuple[str, ...], Parameter(parse=False)] = (),
    out: Out = None,
    instructions: Annotated[int | None, Parameter(name=["-n", "--instructions"])] = None,
    seed: int = 1,
    time_limit: Annotated[float, Parameter(name="--time-limit")] = 1800.0,
    rootfs: Path | None = None,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Boot a real Linux in QEMU and record a full-system trace.

    A program of your own comes last: `halfwink capture -- ./program --its-option`.

    Parameters
    ----------
    workload
        Name of a workload.
    command
        A program of your own and its arguments, instead of a workload.
    out
        File to write (default: WORKLOAD.hwt).
    instructions
        How many to record, at most.
    seed
        Of everything random in the guest.
    time_limit
        Seconds after which to give up.
    rootfs
        A root file system of your own.
    json
        Print one JSON document.
    quiet
        No progress, no messages.
    """
    from halfwink.cli.recording import record

    return record(
        workload,
        list(command),
        out=out,
        instructions=instructions,
        seed=seed,
        time_limit_s=time_limit,
        rootfs=rootfs,
        as_json=json,
        quiet=quiet,
    )


def report(folder: Path, *, quiet: Quiet = False) -> int:
    """Draw the HTML report of a finished run again.

    Parameters
    ----------
    folder
        Folder of the results.
    quiet
        No messages.
    """
    if not (folder / "results.parquet").exists():
        raise HalfwinkError(f"{folder}: no results.parquet; expected the folder of a finished run")
    results = Results.read(folder, comparing.BASELINE)
    if "instructions" not in results.runs.columns:
        raise HalfwinkError(f"{folder}: of routers; `halfwink run` draws the report of its study")
    names = results.runs["workload"].unique(maintain_order=True)
    machines = results.runs["machine"].unique(maintain_order=True)
    from halfwink.report import write_report

    write_report(folder / "report.html", f"{', '.join(names)} on {', '.join(machines)}", results)
    say(f"report: {folder / 'report.html'}", quiet=quiet)
    return 0


def doctor(*, json: Json = False) -> int:
    """Tell what this machine can do, and the line that adds what it lacks.

    Parameters
    ----------
    json
        Print one JSON document.
    """
    findings = checking.findings()
    if json:
        print_json([f.__dict__ for f in findings])
        return 0
    rows = [[f.what, "yes" if f.present else "no", f.detail, f.fix] for f in findings]
    print_table([("what", "left"), ("here", "left"), ("detail", "left"), ("to add", "left")], rows)
    return 0


def print_results(results: Results) -> None:
    """The table of a comparison."""
    columns = [
        ("workload", "left"),
        ("machine", "left"),
        ("technique", "left"),
        ("energy/unit (modelled)", "right"),
        ("core saved %", "right"),
        ("all saved %", "right"),
        ("slowdown %", "right"),
        ("mean us", "right"),
        ("p99 us", "right"),
        ("gated %", "right"),
        ("instr/s", "right"),
    ]
    rows: list[list[str]] = []
    ruled: list[int] = []
    previous = None
    for number, row in enumerate(results.runs.iter_rows(named=True)):
        group = (row["workload"], row["machine"], row["set"])
        if previous is not None and group != previous:
            ruled.append(number - 1)
        previous = group
        machine = f"{row['machine']} {row['set']}".strip()
        rows.append(
            [
                row["workload"],
                machine,
                row["technique"],
                f"{_energy(row['energy_j_per_unit'])}/{row['unit_of_work']}",
                _fixed(row["core_energy_saving_pct"]),
                _fixed(row["energy_saving_pct"]),
                _fixed(row["slowdown_pct"]),
                _fixed(row["latency_mean_us"], 1),
                _fixed(row["latency_p99_us"], 1),
                _fixed(100 * row["gated_share"], 1),
                f"{row['mips']:.1f} M",
            ]
        )
    print_table(columns, rows, ruled=ruled)


def _keep(
    folder: Path,
    title: str,
    results: Results,
    *,
    as_run: str,
    plots: list[Section] | None = None,
) -> None:
    # Drawing costs a second of imports, which most commands need not wait for.
    from halfwink.report import write_report

    results.write(folder)
    write_whole(folder / "study.toml", as_run)
    if not results.timeline.is_empty():
        write_timeline(folder / "timeline.json", results.timeline)
    write_report(
        folder / "report.html", title, results, extra=plots or (), provenance=studies.provenance()
    )


def _compare_study(results: Results) -> str:
    """A comparison as the study that would run it."""

    def names(column: str) -> str:
        values = results.runs[column].unique(maintain_order=True)
        return "[" + ", ".join(f'"{value}"' for value in values) + "]"

    lines = ["schema = 1", 'title = "compare"']
    lines += [f"{c}s = {names(c)}" for c in ("workload", "machine", "technique")]
    lines.append(f'baseline = "{results.baseline}"')
    settings = results.runs["set"][0].split()
    if settings:
        lines.append("\n[sweep]")
        for item in settings:
            path, _, value = item.partition("=")
            try:
                float(value)
            except ValueError:
                value = f'"{value}"'
            lines.append(f'"{path}" = [{value}]')
    return studies.as_run({"text": "\n".join(lines) + "\n"})


def _window(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    start, colon, end = text.rpartition(":")
    try:
        window = (float(start) if colon else 0.0, float(end))
    except ValueError:
        window = (1.0, 0.0)
    if not (0 <= window[0] < window[1] <= 1e7):
        raise HalfwinkError(f"--timeline {text}: expected FROM:UNTIL in microseconds, as 0:50")
    return (round(window[0] * 1000), round(window[1] * 1000))


def _slug(*parts: str) -> str:
    names = [Path(part).stem if part.endswith((".hwt", ".toml")) else part for part in parts]
    return re.sub(r"[^A-Za-z0-9.+=-]+", "-", "-".join(names))[:120]


def _energy(joules: float) -> str:
    if joules <= 0 or not math.isfinite(joules):
        return "-"
    for limit, factor, unit in ((1e-6, 1e9, "nJ"), (1e-3, 1e6, "uJ"), (1.0, 1e3, "mJ")):
        if joules < limit:
            return f"{joules * factor:.4g} {unit}"
    return f"{joules:.4g} J"


def _fixed(value: float | None, digits: int = 2) -> str:
    if value is None:
        return "-"
    return f"{value + 0.0:.{digits}f}" if abs(value) >= 0.5 * 10**-digits else f"{0:.{digits}f}"


def _plain(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float | int):
        return f"{value:.5g}"
    return str(value)


def _shorten(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _tally(entries: list[dict[str, Any]]) -> list[str]:
    order = ["match", "holds", "calibrated", "analogue", "miss", "fails"]
    order += ["undetermined", "not-yet"]
    counts = {v: sum(e["verdict"] == v for e in entries) for v in order}
    parts = [f"{n} {verdict}" for verdict, n in counts.items() if n]
    return [f"{len(entries)} targets: {', '.join(parts)}"]
