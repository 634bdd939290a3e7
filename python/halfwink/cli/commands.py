"""Commands that run something."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from json import dumps as json_of
from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any

from cyclopts import Parameter

from halfwink import _core
from halfwink import doctor as checking
from halfwink.bed import reading
from halfwink.cli import sweeps
from halfwink.cli.console import out as stdout
from halfwink.cli.console import (
    plain,
    print_frame,
    print_table,
    print_tables,
    progress_bar,
    say,
)
from halfwink.cli.results import (
    NO_FIGURE,
    FigureOptions,
    changed,
    draw,
    print_changes,
    print_figure,
    print_results,
)
from halfwink.cli.settings import Log, Setting, settings, split_techniques
from halfwink.errors import HalfwinkError
from halfwink.files import Place, place
from halfwink.library import declared
from halfwink.results import cold_start, idle_periods
from halfwink.results.results import Results, open_results, study_of
from halfwink.runs import comparison as comparing
from halfwink.runs import designs, studies
from halfwink.runs.executors import executor_named

Json = Annotated[bool, Parameter(name="--json", negative="")]
Quiet = Annotated[bool, Parameter(name=["-q", "--quiet"], negative="")]
Fresh = Annotated[bool, Parameter(negative="")]
Wide = Annotated[bool, Parameter(negative="")]
Out = Annotated[Path | None, Parameter(name=["-o", "--out"])]
#: Text, not a path: it may be a URL.
OutFolder = Annotated[str | None, Parameter(name=["-o", "--out"])]


@Parameter(name="*")
@dataclass(frozen=True)
class RunOptions:
    """Options of every command that plays techniques and keeps their results.

    Attributes
    ----------
    executor
        local, local:WORKERS, dask (a cluster of this machine's processors), or dask://HOST:PORT.
    log
        Event log for `halfwink replay`; of several runs FILE-WHICH beside it, or all in a folder/.
        Logged runs are played even if their results are there.
    out
        Folder of the results, or a URL of fsspec's: s3://BUCKET/NAME.
    fresh
        Run again what is already there.
    wide
        All columns, on a narrow terminal too.
    json
        Print one JSON document.
    quiet
        No progress, no messages.
    """

    executor: str = "local"
    log: Log = None
    out: OutFolder = None
    fresh: Fresh = False
    wide: Wide = False
    json: Json = False
    quiet: Quiet = False


#: A user who asks for nothing of that.
RUN_OPTIONS = RunOptions()

#: Where results go when nothing else is said.
OUT = Path("halfwink-out")
#: A terminal that has room for what `halfwink doctor` finds in columns.
ROOMY = 160
#: Of a folder's name, without its digest.
NAME = 110


def compare(
    *workloads: str,
    technique: Annotated[str | None, Parameter(name=["-t", "--technique"])] = None,
    machine: Annotated[str | None, Parameter(name=["-m", "--machine"])] = None,
    world: Annotated[str | None, Parameter(name=["-w", "--world"])] = None,
    load: Annotated[str | None, Parameter(name="--load")] = None,
    setting: Setting = None,
    instructions: Annotated[int | None, Parameter(name=["-n", "-i", "--instructions"])] = None,
    timeline: Annotated[str | None, Parameter()] = None,
    table: str | None = None,
    figure: FigureOptions = NO_FIGURE,
    options: RunOptions = RUN_OPTIONS,
) -> int:
    """Run techniques on workloads: one table, one chart, one report.

    Parameters
    ----------
    workloads
        Names (nginx), files (my.hwt), copies (nginx*4), mixes (nginx+gcc), chase:mb=64, or threads
        of a recording on cores of their own (my.hwt:threads=cores). Default: the world's, where it
        has one.
    technique
        Techniques, separated by commas, with parameters (tap:wake=last), joined by +; all, or
        all-gating for a family. Default: some of each kind.
    machine
        Machine, with a number of cores (ev6-16), or a file. Default: golden-cove-56 for services
        with a profile, ev6-4 on a chip, else the world's.
    world
        World whose names these are: `halfwink list worlds`. Default: node, a server of today, for
        services with a profile; chip if a machine or technique of a chip is named, and for others.
    load
        Loads of a server, separated by commas: 10,30,50%, or requests a second (20000/s), or
        clients that wait for answers (clients:8,64:think=1ms); of storage, CPUs that issue:
        1,10,11 or 1..20. Default: 10,30,50,70%, or 10 CPUs.
    setting
        Change a value of the machine: --set gating.wake_up_ns=16. May be repeated.
    instructions
        Instructions of each core, at most.
    timeline
        Record the cores' states for Perfetto: FROM:UNTIL in microseconds from the start, or UNTIL.
    table
        Table to print instead of the short one: ledger, host, or one of the world (slots).
    """
    figure.check()
    window = _window(timeline)
    if world is None:
        world = comparing.default_world(
            workloads,
            split_techniques(technique),
            machine,
            comparing.split_loads(load),
            dict(settings(setting)),
            on_a_chip=instructions is not None or window is not None,
        )
    usual = declared(world).get("workload")
    workloads = workloads or ((usual,) if usual else ())
    if not workloads and not declared(world):
        known = ", ".join(each["name"] for each in _core.worlds())
        raise HalfwinkError(f"no world `{world}`; expected one of {known}")
    if not workloads:
        raise HalfwinkError("no workload was named; `halfwink list workloads` shows what there is")
    on = machine or comparing.usual_machine(world, split_techniques(technique))
    chosen = [world, technique or "", *(setting or []), instructions, window]
    chosen += [load] if load else []
    plain = world in (comparing.WORLD, comparing.NODE) and chosen[1:] == ["", None, None]
    quiet = options.quiet
    folder = place(
        options.out or OUT / slug("compare", *workloads, on, told=[] if plain else chosen)
    )
    with progress_bar("compare", quiet=quiet) as progress:
        begun = time.monotonic()
        results = comparing.compare(
            workloads,
            techniques=split_techniques(technique),
            machine=on,
            world=world,
            set=dict(settings(setting)),
            instructions=instructions,
            timeline_ns=window,
            loads=comparing.split_loads(load),
            out=folder,
            fresh=options.fresh,
            executor=executor_named(options.executor),
            log=options.log,
            progress=progress,
        )
        seconds = time.monotonic() - begun
    draw(folder, ", ".join(workloads) + f" on {on}", results)
    print_figure(results, (), figure, quiet=quiet)
    if options.json:
        facts = {
            "world": results.world,
            "baseline": results.baseline,
            "modelled": ["energy", "time"],
        }
        verdict = results.verdict().sentences
        print_tables("compare", comparing.as_tables(results), facts, verdict)
    elif table is not None:
        shown = results.named(table)
        print_frame(shown if any(shown["set"]) else shown.drop("set"))
        stdout.print("all energies and times are modelled")
    else:
        print_results(results, wide=options.wide)
    _warn(results)
    for line in reading.notes(results):
        say(line, quiet=quiet)
    say(f"{_speed(results, seconds)}; report: {folder / 'report.html'}", quiet=quiet)
    if technique is None and world == comparing.WORLD:
        say("five of many techniques: `-t all` compares what the machine plays", quiet=quiet)
    if window is not None:
        say(f"timeline for ui.perfetto.dev: {folder / 'timeline.json'}", quiet=quiet)
    return 0


def run(
    study: str,
    *,
    plan: Annotated[bool, Parameter(negative="")] = False,
    part: str | None = None,
    collect: Annotated[bool, Parameter(negative="")] = False,
    figure: FigureOptions = NO_FIGURE,
    options: RunOptions = RUN_OPTIONS,
) -> int:
    """Run a study of any world: workloads, machines, techniques and sweeps that a file describes.

    Parameters
    ----------
    study
        Name of a study, or a TOML file.
    plan
        Run nothing: jobs, CPU hours and parts, for as many parts as --part says.
    part
        Only a part of it, for arrays of jobs: 3/200, or missing: what no part has done. All parts
        may share a folder.
    collect
        Run nothing: tables and report of a study of which all parts have run.
    """
    figure.check()
    quiet = options.quiet
    folder = place(options.out or OUT / slug("run", study))
    if plan:
        return sweeps.show_plan(study, part, folder, json=options.json)
    how: Any = {
        "executor": executor_named(options.executor),
        "fresh": options.fresh,
        "log": options.log,
    }
    if part is not None:
        return sweeps.run_part(study, part, folder, how, quiet=quiet)
    if collect:
        done = studies.collected(study, out=folder)
    else:
        with progress_bar(f"run {Path(study).stem}", quiet=quiet) as progress:
            done = studies.run(study, out=folder, progress=progress, **how)
    draw(folder, done.study["title"], done.results, done.study["plots"])
    print_figure(done.results, done.study["plots"], figure, quiet=quiet)
    if options.json:
        print_tables("run", {"runs": done.results.runs}, {"study": done.study["title"]})
    else:
        print_results(done.results, wide=options.wide)
    _warn(done.results)
    if done.results.has(designs.TABLE):
        say(_front(done, folder), quiet=quiet)
    say(f"report: {folder / 'report.html'}", quiet=quiet)
    return 0


def _front(done: studies.StudyRun, folder: Place) -> str:
    """Describes the results of an adaptive design."""
    design, table = done.study["design"], done.results.tables[designs.TABLE]
    columns = [f"less {name}" for name in design["minimize"]]
    columns += [f"more {name}" for name in design["maximize"]]
    where = f"halfwink query {folder} 'select * from {designs.TABLE} where on_front'"
    front = table["on_front"].sum()
    return f"{front} of {table.height} runs trade {' against '.join(columns)}: {where}"


def capture(
    workload: str | None = None,
    *,
    command: Annotated[tuple[str, ...], Parameter(parse=False)] = (),
    out: Out = None,
    instructions: Annotated[int | None, Parameter(name=["-n", "--instructions"])] = None,
    seed: int = 1,
    time_limit: Annotated[float, Parameter(name="--time-limit")] = 1800.0,
    rootfs: Path | None = None,
    package: Annotated[list[str] | None, Parameter(name="--package", negative="")] = None,
    set_up: Annotated[bool, Parameter(name="--set-up", negative="")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Boot a real Linux in QEMU and record a full-system trace.

    A program of your own comes last: `halfwink capture -- ./program --its-option`. Files that its
    arguments name come along. One that fails is recorded too: exit status 1, and what it said.

    Parameters
    ----------
    workload
        Name of a workload.
    command
        A program of your own and its arguments, instead of a workload.
    out
        File to write (default: WORKLOAD.hwt).
    instructions
        Largest number of instructions to record.
    seed
        Seed of all randomness in the guest.
    time_limit
        Seconds after which to give up.
    rootfs
        A root file system of your own.
    package
        A Debian package that the command needs, as python3-minimal. May be repeated.
    set_up
        Only get what may need root: QEMU and the guest.
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
        packages=[name for words in package or [] for name in words.split(",")],
        set_up=set_up,
        as_json=json,
        quiet=quiet,
    )


def report(
    folder: str,
    *,
    against: str | None = None,
    index: Annotated[bool, Parameter(negative="")] = False,
    serve: Annotated[bool, Parameter(negative="")] = False,
    figure: FigureOptions = NO_FIGURE,
    quiet: Quiet = False,
) -> int:
    """Draw the HTML report of a finished run again, or a page that links those of many.

    Parameters
    ----------
    folder
        Folder of the results, or its URL.
    against
        An earlier run: folder of its results, or its URL. Prints what changed, and adds it to the
        report.
    index
        The page: FOLDER/index.html lists each run in the folder and below, latest first.
    serve
        Serve the report to browsers of this machine (127.0.0.1, a free port) until Ctrl-C.
    quiet
        No messages.
    """
    figure.check()
    where = place(folder)
    if index and (against is not None or serve):
        other = "--serve" if serve else "--against"
        raise HalfwinkError(f"--index, {other}: expected one of them")
    if serve and not isinstance(where, Path):
        raise HalfwinkError(f"{where}: --serve takes a folder of this machine alone")
    if index:
        if not isinstance(where, Path):
            raise HalfwinkError(f"{where}: --index lists runs in a folder of this machine alone")
        from halfwink.report.index import INDEX, write_index

        count = write_index(where)
        say(f"{count} {'run' if count == 1 else 'runs'}: {where / INDEX}", quiet=quiet)
        return 0
    results = open_results(where)
    changes = None
    if against is not None:
        changes = changed(where, results, place(against))
        print_changes(changes)
    study = study_of(where)
    draw(where, study["title"], results, study["plots"], changes)
    print_figure(results, study["plots"], figure, quiet=quiet)
    say(f"report: {where / 'report.html'}", quiet=quiet)
    if serve and isinstance(where, Path):
        from halfwink.report import serve as serving

        # The address is the answer, also where messages are not wanted.
        with suppress(KeyboardInterrupt):
            serving.serve(where, lambda address: print(address, flush=True))
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
        print_tables("doctor", {"findings": [f.__dict__ for f in findings]})
        return 0
    if stdout.is_terminal and stdout.width < ROOMY:
        _narrow(findings)
        return 0
    rows = [[f.what, "yes" if f.present else "no", f.detail, f.fix] for f in findings]
    print_table([("what", "left"), ("here", "left"), ("detail", "left"), ("to add", "left")], rows)
    return 0


def _narrow(findings: Sequence[checking.Finding]) -> None:
    """Without columns: a line to copy stays one, where it fits."""
    for f in findings:
        told = [f"{'yes' if f.present else 'no':3}  {f.what}: {f.detail}".rstrip(": ")]
        told += [f"     to add: {f.fix}"] if f.fix else []
        for text in told:
            lines = wrap(
                text,
                stdout.width,
                subsequent_indent=" " * 5,
                break_on_hyphens=False,
                break_long_words=False,
            )
            stdout.print(plain("\n".join(lines)), markup=False)


def _warn(results: Results) -> None:
    """Tells of runs that began cold or were too short; also where messages are not wanted."""
    found = cold_start.warnings(results) + cold_start.sample_warnings(results)
    found += cold_start.thread_warnings(results)
    for line in found + idle_periods.warnings(results):
        say(f"warning: {line}")


def _speed(results: Results, seconds: float) -> str:
    """Returns the simulation speed, in the world's unit of work.

    Where units follow from runs at steady loads, those that were played count: `simulated`.
    """
    runs = results.runs
    unit = "instructions" if "instructions" in runs.columns else f"{runs['unit_of_work'][0]}s"
    played = runs["instructions" if "instructions" in runs.columns else "units"]
    if "simulated" in runs.columns:
        played = runs["simulated"].fill_null(played)
    count = played.sum()
    return f"{float(count) / 1e6:.3g} M {unit} in {seconds:.1f} s"


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


def slug(*parts: str, told: Sequence[Any] = ()) -> str:
    """A folder's name: of parts, and a digest of them and of what else is ``told``, unless the
    parts can be read from the name and are all."""
    names = [Path(part).stem if part.endswith((".hwt", ".toml")) else part for part in parts]
    readable = re.sub(r"[^A-Za-z0-9.+=-]+", "-", "-".join(names))
    if not told and readable == "-".join(parts) and len(readable) <= NAME:
        return readable
    # Files of one name may be of several folders.
    whole = [
        str(Path(part).resolve()) if part.endswith((".hwt", ".toml")) else part for part in parts
    ]
    digest = hashlib.blake2b(json_of([whole, *told]).encode(), digest_size=4).hexdigest()
    return f"{readable[:NAME]}-{digest}"
