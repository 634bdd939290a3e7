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
from halfwink.calibrate.host_machine import base_of, machine_text, processor, reported_caches
from halfwink.errors import HalfwinkError, RunError
from halfwink.installed import fix
from halfwink.library import root
from halfwink.live import native
from halfwink.native import stoppable

#: The programs, as one file that runs here, and a recording of each: workloads/host. Those that are
#: held out stand in a folder of it: no mechanism of the chip was chosen by their errors.
_FOLDER = "workloads/host"
_HELD_OUT = "held-out"
#: Those of --quick: the core alone, its branches, its second level; and three held out.
_QUICK = ("chacha", "search", "walk-256k", "base64", "json", "tree")
#: Times that a program is started: the least counts. Each time the predictor is made to forget, the
#: program does its work twice, and the second is timed: after more, predictors of today know
#: branches of such short work by heart, which no program of a length worth simulating grants them.
_STARTS, _QUICK_STARTS = 40, 10
#: Above so many nanoseconds others run in between: then the CPU time counts, not the clock.
_LONG_NS = 200_000.0
#: Instructions of a recording, at most.
_MOST = 5_000_000
#: Goals of the errors, in percent: mean of their absolute values, and the worst; of programs that
#: mechanisms were chosen by, and of those held out.
GOALS_PCT, HELD_OUT_GOALS_PCT = (15.0, 35.0), (15.0, 40.0)


@dataclass(frozen=True)
class HostCalibration:
    """This machine, and how well it is simulated.

    Attributes:
        text: the machine's file.
        numbers: a row for each number: ``name``, ``value``, ``unit``, ``spread_pct``, ``runs``.
        curves: a row for each point: ``curve``, ``place``, ``place_unit``, ``height``,
            ``height_unit``.
        programs: a row for each program: ``held_out`` (no mechanism of the chip was chosen by its
            error), ``instructions``, nanoseconds of an instruction
            ``native_ns``, ``native_huge_ns`` (its memory in huge pages: nothing is lost to
            translation) and ``simulated_ns``, ``error_pct`` of the simulated time against the
            native one, and ``error_huge_pct``.
        notes: values that could not be measured, with reasons.
    """

    text: str
    numbers: pl.DataFrame
    curves: pl.DataFrame
    programs: pl.DataFrame
    notes: list[str] = field(default_factory=list[str])

    def errors(
        self, column: str = "error_pct", *, held_out: bool = False
    ) -> tuple[float, float] | None:
        """Mean and worst of the absolute errors, in percent: of programs that are held out, or of
        the others; none without programs."""
        return _errors(self.programs, held_out=held_out, column=column)


def _errors(
    programs: pl.DataFrame, *, held_out: bool, column: str = "error_pct"
) -> tuple[float, float] | None:
    found = programs.filter(pl.col("held_out") == held_out)[column].abs().to_list()
    return (sum(found) / len(found), max(found)) if found else None


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
        quick: fewer runs, coarser ladders, six programs: seconds instead of a minute or two.
        max_spread_pct: largest spread of a core's numbers over repetitions, in percent.
        programs: programs that are timed and played; all if none are named, and none if the list is
            empty.
        progress: is told what is done next.

    Raises:
        HalfwinkError: no such CPU or program, or this is no Linux on x86-64.
        RunError: the machine has no stable clock, or is too noisy.
    """
    said = progress or _silent
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
    host = native.calibrate_host(cpu=on, quick=quick, max_spread_pct=max_spread_pct, sizes=sizes)
    text = machine_text(host, caches, len(allowed), base_of(processor("vendor_id")))
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
    """Programs that can be timed and played: those held out last."""
    return list(_folders())


def _folders() -> dict[str, Path]:
    """The folder of each program."""
    own = root() / _FOLDER
    return {path.stem: at for at in (own, own / _HELD_OUT) for path in sorted(at.glob("*.hwt"))}


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


def _told(text: str, programs: pl.DataFrame) -> str:
    """Adds the error to the machine's head."""
    if programs.is_empty():
        return text
    lines = ""
    for held_out, which in ((False, ""), (True, " held out")):
        if (errors := _errors(programs, held_out=held_out)) is not None:
            count = programs.filter(pl.col("held_out") == held_out).height
            lines += (
                f"# Simulated against native time of {count} program{'s' * (count > 1)}{which}: "
                "mean absolute error "
                f"{errors[0]:.0f} %, worst {errors[1]:.0f} %.\n"
            )
    return text.replace("schema = 1\n", lines + "schema = 1\n", 1)


# --- programs: native and simulated

_SCHEMA = {
    "program": pl.String,
    "held_out": pl.Boolean,
    "instructions": pl.Int64,
    "native_ns": pl.Float64,
    "native_huge_ns": pl.Float64,
    "simulated_ns": pl.Float64,
    "error_pct": pl.Float64,
    "error_huge_pct": pl.Float64,
}


@dataclass(frozen=True)
class _Timing:
    """Settings of timing programs: CPU, ticks of a nanosecond, number of starts."""

    cpu: int
    ghz: float
    starts: int

    def of(self, binary: Path, name: str, *, huge: bool = False) -> float:
        return native_ns(binary, name, self.cpu, self.ghz, huge=huge, starts=self.starts)


def _rows(
    text: str, chosen: Sequence[str], timing: _Timing, said: Callable[[str], None]
) -> pl.DataFrame:
    folders = _folders()
    rows = list[dict[str, object]]()
    if not chosen:
        return pl.DataFrame(rows, schema=_SCHEMA)
    native, huge = dict[str, float](), dict[str, float]()
    with tempfile.TemporaryDirectory(prefix="halfwink-") as made:
        said(f"timing {len(chosen)} programs")
        for name in chosen:
            binary = Path(made) / folders[name].name
            if not binary.exists():
                # A wheel does not keep what may be executed.
                shutil.copyfile(folders[name] / "programs", binary)
                binary.chmod(0o755)
            native[name] = timing.of(binary, name)
            huge[name] = timing.of(binary, name, huge=True)
    said(f"playing their recordings on the machine: {len(chosen)}")
    for name in chosen:
        simulated, count = simulated_ns(text, folders[name] / f"{name}.hwt")
        rows.append(
            {
                "program": name,
                "held_out": folders[name].name == _HELD_OUT,
                "instructions": count,
                "native_ns": native[name] / count,
                "native_huge_ns": huge[name] / count,
                "simulated_ns": simulated / count,
                "error_pct": 100 * (simulated / native[name] - 1),
                "error_huge_pct": 100 * (simulated / huge[name] - 1),
            }
        )
    return pl.DataFrame(rows, schema=_SCHEMA)


def simulated_ns(machine: str, recording: Path) -> tuple[float, int]:
    """Nanoseconds that a recording takes on a machine's file when it is played a second time, its
    caches, translations and predictor as the first left them; and its instructions."""
    return stoppable(lambda c: _core.play_again(c, "calibrated.toml", machine, recording))


def native_ns(
    binary: Path, name: str, cpu: int, ghz: float, *, huge: bool = False, starts: int = _STARTS
) -> float:
    """Nanoseconds that a program's recorded stretch takes on a CPU of this machine: the least of
    all starts.

    Raises:
        RunError: the program cannot be run here.
    """
    words = [str(binary), name, "1", str(int(huge))]
    least = math.inf
    for _ in range(starts):
        with _pinned(cpu):
            # Else the predictor still knows the last start's branches, and after forty starts all.
            native.forget_branches()
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


def record_programs(folder: Path) -> None:
    """Records the programs of a folder again, by single steps: workloads/host/make.sh."""
    listed = subprocess.run([str(folder / "programs")], capture_output=True, text=True, check=True)
    for name in listed.stdout.split():
        command = [str(folder / "programs"), name]
        found = native.record_program(name, command, folder / f"{name}.hwt", _MOST)
        sys.stderr.write(f"{name}: {found['instructions']} instructions\n")


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        record_programs(Path(argument))
