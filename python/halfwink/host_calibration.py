"""A machine of the chip that is the one that this runs on.

Kernels of machine code give clock, widths, latencies, queues and caches, each as the minimum, or a
low quantile, of many pinned runs. What they cannot tell is an assumption and says so. Then programs
that were recorded are timed here, and their recordings played on the machine: the error is shown,
and nothing is tuned to it.

    kernels ─▶ times ─▶ machine ─▶ chip plays recordings ─▶ simulated ─┐
                                   the same binary runs here ─▶ native ┴▶ error
"""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from halfwink import _core
from halfwink.comparison import compare
from halfwink.errors import HalfwinkError, RunError
from halfwink.installed import fix
from halfwink.library import root

#: Where what is not measured comes from.
_BASE = "ev6"
#: The programs, as one file that runs here, and a recording of each: workloads/host.
_FOLDER = "workloads/host"
#: Those of --quick: the core alone, its branches, its second level.
_QUICK = ("chacha", "search", "walk-256k")
#: Times that a program is started: the least counts. Each time it does its work twice, and the
#: second is timed: after more, predictors of today know branches of such short work by heart, which
#: no program of a length worth simulating grants them.
_STARTS, _QUICK_STARTS = 40, 10
#: Above so many nanoseconds others run in between: then the CPU time counts, not the clock.
_LONG_NS = 200_000.0
#: Instructions of a recording, at most.
_MOST = 5_000_000
#: Goals of the errors, in percent: mean of their absolute values, and the worst.
GOAL_MEAN_PCT, GOAL_WORST_PCT = 15.0, 35.0


@dataclass(frozen=True)
class Cache:
    """A cache of this machine, as the kernel reports it (for a virtual machine: as it is told).

    Attributes:
        level: 1, 2, 3.
        kind: Data, Instruction or Unified.
        bytes: its size.
        ways: lines of a set.
    """

    level: int
    kind: str
    bytes: int
    ways: int


@dataclass(frozen=True)
class HostCalibration:
    """This machine, and how well it is simulated.

    Attributes:
        text: the machine's file.
        numbers: a row for each number: ``name``, ``value``, ``unit``, ``spread_pct``, ``runs``.
        curves: a row for each point: ``curve``, ``place``, ``place_unit``, ``height``,
            ``height_unit``.
        programs: a row for each program: ``instructions``, nanoseconds of an instruction
            ``native_ns``, ``native_huge_ns`` (its memory in huge pages: nothing is lost to
            translation) and ``simulated_ns``, ``error_pct`` of the simulated time against the
            native one, and ``error_huge_pct``.
        notes: what could not be measured, and why.
    """

    text: str
    numbers: pl.DataFrame
    curves: pl.DataFrame
    programs: pl.DataFrame
    notes: list[str] = field(default_factory=list[str])

    def errors(self, column: str = "error_pct") -> tuple[float, float]:
        """Mean and worst of the absolute errors, in percent; not a number without programs."""
        found = self.programs[column].abs()
        mean, worst = found.mean(), found.max()
        if not isinstance(mean, float) or not isinstance(worst, float):
            return math.nan, math.nan
        return mean, worst


def calibrate_host(
    *,
    cpu: int | None = None,
    quick: bool = False,
    max_spread_pct: float = 5.0,
    programs: Sequence[str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> HostCalibration:
    """Measures this machine and says how well the chip simulates it.

    Args:
        cpu: on which it is measured; the last that may be used if none is given.
        quick: fewer runs, coarser ladders, three programs: seconds instead of a minute or two.
        max_spread_pct: by how much numbers of the core may miss their repetition.
        programs: those that are timed and played; all if none are named, and none if the list is
            empty.
        progress: is told what is done next.

    Raises:
        HalfwinkError: no such CPU or program, or this is no Linux on x86-64.
        RunError: the machine has no stable clock, or is too noisy.
    """
    said = progress or _silent
    if not _core.LIVE:
        raise HalfwinkError("this build of halfwink has no live parts: nothing can be measured")
    if not 0 <= max_spread_pct <= 100:
        raise HalfwinkError(f"a spread of {max_spread_pct} %: expected 0 to 100")
    chosen = _chosen(programs, quick)
    allowed = sorted(os.sched_getaffinity(0))
    on = allowed[-1] if cpu is None else cpu
    if on not in allowed:
        raise HalfwinkError(f"CPU {on}: this process may use {', '.join(map(str, allowed))}")
    caches = reported_caches(on)
    sizes = [c.bytes for c in caches if c.kind != "Instruction"]
    said("measuring the core, its caches and memory")
    host = _core.calibrate_host(cpu=on, quick=quick, max_spread_pct=max_spread_pct, sizes=sizes)
    text = machine_text(host, caches, len(allowed))
    _core.check_machine("calibrated.toml", text)
    timing = _Timing(on, tsc_ghz(host), _QUICK_STARTS if quick else _STARTS)
    rows = _rows(text, chosen, timing, said)
    return HostCalibration(
        text=_told(text, rows),
        numbers=pl.DataFrame(host["numbers"]).select("name", "value", "unit", "spread_pct", "runs"),
        curves=_curves(host),
        programs=rows,
        notes=[*host["notes"], *_not_installed()],
    )


def _silent(_: str) -> None: ...


def program_names() -> list[str]:
    """Programs that can be timed and played."""
    return sorted(path.stem for path in (root() / _FOLDER).glob("*.hwt"))


def _not_installed() -> list[str]:
    if program_names():
        return []
    return [f"no programs to time are installed; run: {fix('workloads')}"]


def _chosen(programs: Sequence[str] | None, quick: bool) -> list[str]:
    known = program_names()
    if programs is None:
        return [name for name in known if not quick or name in _QUICK]
    if unknown := [name for name in programs if name not in known]:
        raise HalfwinkError(f"no program {unknown[0]}: there are {', '.join(known)}")
    return list(programs)


def reported_caches(cpu: int, folder: Path = Path("/sys/devices/system/cpu")) -> list[Cache]:
    """The caches of a CPU, as the kernel reports them; the smallest first."""
    found = list[Cache]()
    for place in sorted((folder / f"cpu{cpu}" / "cache").glob("index*")):
        try:
            kb = int((place / "size").read_text().strip().removesuffix("K"))
            level = int((place / "level").read_text())
            ways = int((place / "ways_of_associativity").read_text())
            kind = (place / "type").read_text().strip()
        except (OSError, ValueError):
            continue
        found.append(Cache(level, kind, 1024 * kb, ways))
    return sorted(found, key=lambda cache: (cache.level, cache.kind))


def tsc_ghz(host: dict[str, Any]) -> float:
    """Ticks of the time-stamp counter in a nanosecond."""
    return float(next(n["value"] for n in host["numbers"] if n["name"] == "tsc"))


def _curves(host: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame(
        [
            {
                "curve": curve["name"],
                "place": float(place),
                "place_unit": curve["axes"][0],
                "height": float(height),
                "height_unit": curve["axes"][1],
            }
            for curve in host["curves"]
            for place, height in curve["points"]
        ]
    )


# --- the machine's file


class _Numbers:
    """What was measured, by name, and how it is told."""

    def __init__(self, host: dict[str, Any]) -> None:
        self.all: dict[str, dict[str, Any]] = {n["name"]: n for n in host["numbers"]}

    def __contains__(self, name: str) -> bool:
        return name in self.all

    def __getitem__(self, name: str) -> float:
        return float(self.all[name]["value"])

    def evidence(self, name: str) -> str:
        found = self.all[name]
        value = f"{found['value']:,.2f}" if found["value"] < 1000 else f"{found['value']:,.0f}"
        return (
            f"measured: {value} {found['unit']}, {found['spread_pct']:.1f} % spread, "
            f"{found['runs']} runs"
        )


#: A value of the file, and what it rests on.
_Value = tuple[object, str]


def machine_text(host: dict[str, Any], caches: Sequence[Cache], cpus: int) -> str:
    """The machine's file.

    Args:
        host: what was measured (`halfwink._core.calibrate_host`).
        caches: as they are reported.
        cpus: how many the machine has.
    """
    numbers = _Numbers(host)
    values = {
        **_core_values(numbers),
        **_cache_values(numbers, caches),
        **_memory_values(numbers),
        "chip.cores": (min(cpus, 64), "reported: CPUs that may be used"),
        "chip.clock_ghz": (
            round(numbers["clock"], 3),
            numbers.evidence("clock") + ": dependent adds against the monotonic clock",
        ),
    }
    return _written(values, _beside(numbers))


def _core_values(numbers: _Numbers) -> dict[str, _Value]:
    most = _core.MAX_WINDOW
    values: dict[str, _Value] = {
        "core.width": (_whole(numbers["width.mixed"]), numbers.evidence("width.mixed")),
        # As the chip counts: the branch's own cycle and that of the first operation behind it are
        # part of what a misprediction costs.
        "core.refill_cycles": (
            max(1, round(numbers["branch.mispredicted"]) - 2),
            numbers.evidence("branch.mispredicted") + ": the branch and what follows take 2",
        ),
        "core.atomic_cycles": (
            _whole(numbers["latency.atomic"]),
            numbers.evidence("latency.atomic"),
        ),
    }
    for key in ("window", "integer_queue", "fp_queue", "load_queue", "store_queue"):
        if key not in numbers:
            continue
        found = round(numbers[key])
        evidence = numbers.evidence(key)
        if found > most:
            evidence += f"; the chip has at most {most}"
        values[f"core.{key}"] = (max(1, min(found, most)), evidence)
    memory = max(("width.load", "width.load_store"), key=lambda name: numbers[name])
    units = {"alu": "width.alu", "multiply": "width.multiply", "fp": "width.fp", "memory": memory}
    for key, name in units.items():
        values[f"core.units.{key}"] = (_whole(numbers[name]), numbers.evidence(name))
    for key in ("alu", "multiply", "divide", "vector", "fp_add", "fp_multiply", "fp_divide"):
        name = f"latency.{key}"
        values[f"core.latency_cycles.{key}"] = (_whole(numbers[name]), numbers.evidence(name))
    if "branch.return_entries" in numbers:
        name = "branch.return_entries"
        values[name] = (round(numbers[name]), numbers.evidence(name))
    return values


def _whole(number: float) -> int:
    return max(1, round(number))


def _cache_values(numbers: _Numbers, caches: Sequence[Cache]) -> dict[str, _Value]:
    cycle_ns = 1 / numbers["clock"]
    values: dict[str, _Value] = {
        "l1d.latency_cycles": (_whole(numbers["latency.load"]), numbers.evidence("latency.load")),
    }
    sections = {(1, "Data"): "l1d", (1, "Instruction"): "l1i", (2, "Unified"): "l2"}
    for cache in caches:
        if (section := sections.get((cache.level, cache.kind))) is None:
            continue
        told = "reported by the kernel"
        name = {"l1d": "size.l1", "l2": "size.l2"}.get(section)
        if name is not None and name in numbers:
            told += f"; the ladder steps at {_kb(numbers[name])}"
        values[f"{section}.size"] = (f'"{cache.bytes >> 10}KB"', told)
        values[f"{section}.ways"] = (cache.ways, "reported by the kernel")
    if "in_flight.memory" in numbers:
        mshrs = max(2, min(64, round(numbers["in_flight.memory"])))
        evidence = numbers.evidence("in_flight.memory") + ": latency by the least time of each"
        values["l1d.mshrs"] = (mshrs, evidence)
    if "latency.l2" in numbers:
        # In whole cycles: nanoseconds are rounded up to them.
        cycles = max(1, round((numbers["latency.l2"] - numbers["latency.l1"]) / cycle_ns))
        evidence = numbers.evidence("latency.l2") + ", less the first level's"
        values["l2.latency_ns"] = (_down(cycles * cycle_ns), evidence)
    if "latency.l3" in numbers:
        evidence = numbers.evidence("latency.l3") + ", less the second level's"
        added = max(0.1, numbers["latency.l3"] - numbers["latency.l2"])
        values["l3.latency_ns"] = (round(added, 2), evidence)
        values.update(_last_level(numbers, caches))
    return values


#: Banks of the last level.
_BANKS = 8


def _last_level(numbers: _Numbers, caches: Sequence[Cache]) -> dict[str, _Value]:
    reported = next((c for c in caches if c.level == 3), None)
    if reported is None:
        return {}
    size, ways, told = reported.bytes, reported.ways, "reported by the kernel"
    ways_told = told
    if "size.l3" in numbers and not 2 / 3 < numbers["size.l3"] / size < 3 / 2:
        step = numbers["size.l3"]
        told = (
            f"{numbers.evidence('size.l3')}; reported are {_kb(size)}, of which a virtual "
            "machine or a neighbour leaves so much"
        )
        # Eight ways or more, and sets in a power of two.
        sets = 1 << max(0, math.floor(math.log2(step / 64 / 8)))
        ways = max(1, round(step / 64 / sets))
        size, ways_told = 64 * sets * ways, "assumption: as many as make the size"
    values: dict[str, _Value] = {
        "l3.size": (f'"{size >> 10}KB"', told),
        "l3.ways": (ways, ways_told),
        "l3.banks": (_BANKS, "assumption"),
    }
    if "bandwidth.l3" in numbers:
        line_ns = 64 / numbers["bandwidth.l3"]
        evidence = numbers.evidence("bandwidth.l3") + f" by one core, over {_BANKS} banks"
        values["l3.occupancy_ns"] = (round(_BANKS * line_ns, 2), evidence)
    return values


#: A row opened, a column read, a line sent: (22 + 22 + 4) x 0.625 ns of DDR4-3200.
_DEVICE_NS = 30.0


def _memory_values(numbers: _Numbers) -> dict[str, _Value]:
    cycle_ns = 1 / numbers["clock"]
    last = "latency.l3" if "latency.l3" in numbers else "latency.l2"
    way_ns = max(2.0, numbers["latency.memory"] - numbers[last] - _DEVICE_NS)
    evidence = (
        f"{numbers.evidence('latency.memory')}; less the last cache and {_DEVICE_NS:g} ns of the "
        "device, half of it each way"
    )
    l2_ns = numbers["latency.l2"] - numbers["latency.l1"]
    l3_ns = numbers[last] - numbers["latency.l1"]
    follows = "follows from the latencies"
    return {
        "memory.device": ('"ddr4-3200"', "assumption: the fastest with currents"),
        "memory.channels": (4, "assumption: one core cannot tell"),
        "memory.request_ns": (round(way_ns / 2, 2), evidence),
        "memory.response_ns": (round(way_ns / 2, 2), "likewise"),
        "tokens.l1_ns": (round(cycle_ns, 3), follows),
        "tokens.l2_ns": (round(max(l2_ns, cycle_ns), 3), follows),
        "tokens.l3_ns": (round(max(l3_ns, cycle_ns), 3), follows),
        "tokens.eta_ns": (round(min(4.5, way_ns / 2), 2), "assumption: as ev6, within response_ns"),
        "mapg.t_llc_ns": (round(l3_ns + way_ns / 2, 2), follows),
        "mapg.t_mem_ns": (round(_DEVICE_NS + way_ns / 2, 2), follows),
    }


def _down(ns: float) -> float:
    return math.floor(1000 * ns) / 1000


def _kb(size: float) -> str:
    return f"{size / 1024:,.0f} KB"


#: What is measured and has no place in the file, and what it is.
_BESIDE = {
    "width.fp_add": "floating-point adds",
    "width.fp_multiply": "floating-point products",
    "width.vector": "vector integer operations",
    "width.store": "stores",
    "forward.same_register": "a store and a load of the same place, by the same register",
    "forward.other_register": "likewise, by another register",
    "window.registers": "operations between two misses that write a register each",
    "latency.memory_far": "a load from much larger memory, in huge pages",
    "bandwidth.l2": "read in order from the second level",
    "bandwidth.memory": "read in order from memory, prefetched",
    "tlb.l1": "reach of the first level of translation, pages of 4 KB",
    "tlb.l1_miss": "what missing it adds",
    "tlb.l2": "reach of the second level",
    "tlb.l2_miss": "what a page walk adds, of twice as many pages",
}


def _beside(numbers: _Numbers) -> list[str]:
    known = [(what, numbers.evidence(name)) for name, what in _BESIDE.items() if name in numbers]
    return [f"#   {what}: {evidence.removeprefix('measured: ')}" for what, evidence in known]


def _written(values: dict[str, _Value], beside: list[str]) -> str:
    """The base's file with these values; whatever is not among them is an assumption."""
    text = (root() / "machines" / f"{_BASE}.toml").read_text()
    section, lines = "", list[str]()
    left = dict(values)
    for line in text[text.index("[chip]") :].splitlines():
        if found := re.match(r"\[([\w.-]+)\]", line):
            section = found[1]
            lines.append(found[0])
        elif found := re.match(r"(\w+) = ([^#]*[^#\s])", line):
            path = f"{section}.{found[1]}"
            value, evidence = left.pop(path, (found[2], f"assumption: as {_BASE}"))
            lines += [f"# {evidence}", f"{found[1]} = {value}"]
        # What the base says of itself is of its own values.
        elif not line.startswith("#"):
            lines.append(line)
    if left:
        raise RunError(f"{next(iter(left))}: machines/{_BASE}.toml has no such value")
    head = [
        "# Written by `halfwink calibrate host`: this machine, measured in user mode by kernels of",
        "# machine code, each number the minimum or a low quantile of many pinned runs.",
        "# What is not marked `measured`, `reported` or `follows` is an assumption; most are as",
        f"# {_BASE} has them: power, gating and wake-up among them.",
        "#",
        "# Measured as well, and no value of this file:",
        *beside,
        "schema = 1",
        f'description = "{_model_name()}, measured"',
        "",
    ]
    return "\n".join([*head, *lines]) + "\n"


def _model_name(place: Path = Path("/proc/cpuinfo")) -> str:
    """What the processor calls itself."""
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", place.read_text(), re.MULTILINE)
    except OSError:
        found = None
    return re.sub(r'["\\]', "", found[1]).strip() if found else "a processor without a name"


def _told(text: str, programs: pl.DataFrame) -> str:
    """The same with the error in its head."""
    if programs.is_empty():
        return text
    mean, worst = (
        programs["error_pct"].abs().mean(),
        programs["error_pct"].abs().max(),
    )
    line = (
        f"# Simulated against native time of {programs.height} programs: mean absolute error "
        f"{mean:.0f} %, worst {worst:.0f} %.\n"
    )
    return text.replace("schema = 1\n", line + "schema = 1\n", 1)


# --- programs: native and simulated

_SCHEMA = {
    "program": pl.String,
    "instructions": pl.Int64,
    "native_ns": pl.Float64,
    "native_huge_ns": pl.Float64,
    "simulated_ns": pl.Float64,
    "error_pct": pl.Float64,
    "error_huge_pct": pl.Float64,
}


@dataclass(frozen=True)
class _Timing:
    """Where and how often programs are timed: CPU, ticks of a nanosecond, starts."""

    cpu: int
    ghz: float
    starts: int

    def of(self, binary: Path, name: str, *, huge: bool = False) -> float:
        return native_ns(binary, name, self.cpu, self.ghz, huge=huge, starts=self.starts)


def _rows(
    text: str, chosen: Sequence[str], timing: _Timing, said: Callable[[str], None]
) -> pl.DataFrame:
    folder = root() / _FOLDER
    rows = list[dict[str, object]]()
    if not chosen:
        return pl.DataFrame(rows, schema=_SCHEMA)
    with tempfile.TemporaryDirectory(prefix="halfwink-") as made:
        machine = Path(made) / "calibrated.toml"
        machine.write_text(text)
        binary = Path(made) / "programs"
        # A wheel does not keep what may be executed.
        shutil.copyfile(folder / "programs", binary)
        binary.chmod(0o755)
        said(f"timing {len(chosen)} programs")
        native = {name: timing.of(binary, name) for name in chosen}
        huge = {name: timing.of(binary, name, huge=True) for name in chosen}
        said(f"playing their recordings on the machine: {len(chosen)}")
        files = [str(folder / f"{name}.hwt") for name in chosen]
        played = compare(
            files, techniques=["always-on"], machine=str(machine), set={"chip.cores": 1}
        )
        runs = {Path(r["workload"]).stem: r for r in played.runs.iter_rows(named=True)}
    for name in chosen:
        count = int(runs[name]["instructions"])
        simulated = 1e9 * float(runs[name]["duration_s"])
        rows.append(
            {
                "program": name,
                "instructions": count,
                "native_ns": native[name] / count,
                "native_huge_ns": huge[name] / count,
                "simulated_ns": simulated / count,
                "error_pct": 100 * (simulated / native[name] - 1),
                "error_huge_pct": 100 * (simulated / huge[name] - 1),
            }
        )
    return pl.DataFrame(rows, schema=_SCHEMA)


def native_ns(
    binary: Path, name: str, cpu: int, ghz: float, *, huge: bool = False, starts: int = _STARTS
) -> float:
    """Nanoseconds that a program's recorded stretch takes on a CPU of this machine: the least of
    all starts.

    Raises:
        RunError: it cannot be run here.
    """
    words = [str(binary), name, "1", str(int(huge))]
    least = math.inf
    for _ in range(starts):
        with _pinned(cpu):
            done = subprocess.run(words, capture_output=True, text=True, check=False)
        found = re.fullmatch(r"(\d+) (\d+) (\d+)\n", done.stdout)
        if done.returncode or not found:
            raise RunError(f"{name}: exit status {done.returncode}: {done.stderr.strip()}")
        wall_ns, cpu_ns = int(found[1]) / ghz, float(found[2])
        least = min(least, cpu_ns if wall_ns > _LONG_NS else wall_ns)
    return least


@contextmanager
def _pinned(cpu: int) -> Generator[None]:
    """Children that are started inside run on that CPU."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def record_programs(folder: Path, names: Sequence[str] = ()) -> None:
    """Records the programs of a folder again, by single steps: workloads/host/make.sh."""
    listed = subprocess.run([str(folder / "programs")], capture_output=True, text=True, check=True)
    for name in names or listed.stdout.split():
        command = [str(folder / "programs"), name]
        found = _core.record_program(name, command, folder / f"{name}.hwt", _MOST)
        sys.stderr.write(f"{name}: {found['instructions']} instructions\n")


if __name__ == "__main__":
    record_programs(Path(sys.argv[1]), sys.argv[2:])
