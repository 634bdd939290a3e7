"""Kernel code of recorded programs on the simulated cores of Strong 2013, chapter 3.

python tools/kernel_code.py            print `kernel_code` of machines/switching/alpha.toml
python tools/kernel_code.py --check    fail where the file has other numbers

The cores are those of machines/ev6.toml and machines/ev4.toml with the clocks, caches and memory of
the thesis' Table 3.2. A number is the time that the chip world's cores spend in kernel mode, over
the kernel instructions that they retire, in nanoseconds.
"""

from __future__ import annotations

import re
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from functools import reduce
from operator import getitem
from pathlib import Path

import polars as pl

import halfwink as hw

ROOT = Path(__file__).parents[1]
ALPHA = ROOT / "machines" / "switching" / "alpha.toml"
#: Recorded programs whose kernel code stands for that of the thesis' programs.
PROGRAMS = ("apache", "postgresql", "tcp-stream")
INSTRUCTIONS = 4_000_000
#: Machine, clock in GHz, cycles of a read of the first level: Table 3.2.
KINDS = {
    "complex": ("ev6", 3.0, 2),
    "complex-slow": ("ev6", 0.75, 2),
    "simple": ("ev4", 3.0, 1),
    "simple-slow": ("ev4", 0.75, 1),
}
#: Size and ways of each first-level cache of a machine, and other shapes of the simple core's.
FIRST_LEVEL = {"ev6": ("64KB", 2), "ev4": ("8KB", 1)}
SHAPES = {"l1.16-kb": ("16KB", 1), "l1.16-kb-2-way": ("16KB", 2)}
#: One shared cache of 3.5 MB whose misses find memory after 25 ns, all alike; no third level.
BELOW = {
    "l2": 'size = "3584KB"\nways = 7\nlatency_ns = 4.0',
    "l3": 'size = "none"\nways = 1\nlatency_ns = 0.1\nbanks = 1\noccupancy_ns = 0.0',
    "memory": 'device = "uniform"\nchannels = 1\nranks = 2\nlatency_ns = 20.0\n'
    "request_ns = 2.5\nresponse_ns = 2.5",
}
#: No estimate may come after the data; nothing gates here.
TOKENS = (r"(?m)^eta_ns = .*$", "eta_ns = 2.0")
#: Numbers of the file have four digits behind the point.
TOLERANCE = 6e-5


def machine(name: str, folder: Path) -> Path:
    """Writes a machine of Table 3.2."""
    text = (ROOT / "machines" / f"{name}.toml").read_text()
    for section, body in BELOW.items():
        text = re.sub(rf"(?ms)^\[{section}\].*?(?=^\[)", f"[{section}]\n{body}\n\n", text)
    # Watts are not asked for here; a uniform memory has no device that they could be taken from.
    other = (ROOT / "machines" / "ultrasparc-os.toml").read_text()
    power = re.search(r"(?ms)^\[power\.memory\].*?(?=^\[|\Z)", other)
    assert power is not None
    text = re.sub(r"(?ms)^\[power\.memory\].*?(?=^\[|\Z)", "", text) + "\n" + power[0]
    path = folder / f"{name}.toml"
    path.write_text(re.sub(*TOKENS, text))
    return path


def nanoseconds(path: Path, program: str, kind: str, shape: tuple[str, int]) -> float:
    """Time of an instruction of kernel code."""
    _, clock_ghz, read_cycles = KINDS[kind]
    size, ways = shape
    found = hw.compare(
        program,
        techniques="always-on",
        machine=str(path),
        instructions=INSTRUCTIONS,
        set={
            "chip.clock_ghz": clock_ghz,
            "l1i.size": size,
            "l1i.ways": ways,
            "l1d.size": size,
            "l1d.ways": ways,
            "l1d.latency_cycles": read_cycles,
        },
    )
    # A core that waits in the kernel for a line is in its kernel code; a halted one is not.
    spent = found.ledger.filter(pl.col("mode") == "kernel", pl.col("state") != "idle")
    return 1e9 * spent["time_s"].sum() / found.runs["kernel_instructions"][0]


def tables(programs: Sequence[str] = PROGRAMS) -> dict[str, dict[str, dict[str, float]]]:
    """Times by program, key of the file (`ns`, and one for each other shape) and kind of core."""
    with tempfile.TemporaryDirectory(prefix="halfwink-") as folder:
        paths = {name: machine(name, Path(folder)) for name in FIRST_LEVEL}

        def on(program: str, kind: str, shape: tuple[str, int] | None = None) -> float:
            name = KINDS[kind][0]
            return nanoseconds(paths[name], program, kind, shape or FIRST_LEVEL[name])

        return {
            program: {
                "ns": {kind: on(program, kind) for kind in KINDS},
                **{
                    key: {kind: on(program, kind, shape) for kind in ("simple", "simple-slow")}
                    for key, shape in SHAPES.items()
                },
            }
            for program in programs
        }


def lines(found: dict[str, dict[str, dict[str, float]]]) -> list[str]:
    """The tables as they stand in the file."""

    def inline(values: dict[str, float]) -> str:
        return "{ " + ", ".join(f"{kind} = {ns:.4f}" for kind, ns in values.items()) + " }"

    written: list[str] = []
    for program, times in found.items():
        written += [f"[kernel_code.{program}]", 'reference = "complex"']
        written += [f"{key} = {inline(values)}" for key, values in times.items()]
        written.append("")
    return written


def differences(found: dict[str, dict[str, dict[str, float]]]) -> list[str]:
    """Numbers of the file that are not those of the chip world."""
    stated = tomllib.loads(ALPHA.read_text())["kernel_code"]
    wrong: list[str] = []
    for program, times in found.items():
        for key, values in times.items():
            table = reduce(getitem, key.split("."), stated[program])
            for kind, ns in values.items():
                if abs(table[kind] - ns) > TOLERANCE:
                    wrong.append(f"kernel_code.{program}.{key}: {kind} {table[kind]}, now {ns:.4f}")
    return wrong


def main() -> int:
    """Prints the tables, or what is wrong with those of the file."""
    found = tables()
    if "--check" not in sys.argv[1:]:
        print("\n".join(lines(found)))
        return 0
    wrong = differences(found)
    print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
