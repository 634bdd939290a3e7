"""Other people's programs that the benchmarks measure beside halfwink, where they are installed."""

from __future__ import annotations

import os
import random
import re
import resource
import shutil
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PROGRAM = Path(__file__).parent / "programs" / "misses.c"
FLAGS = [
    *("-O2", "-static", "-nostdlib", "-ffreestanding", "-fno-pic", "-no-pie"),
    *("-fno-stack-protector", "-fno-tree-vectorize", "-fno-tree-loop-distribute-patterns"),
]

#: Caches for the comparison with Cachegrind: halfwink's words for them, and Cachegrind's.
SHAPES = ["32KB:8", "32KB:8", "256KB:8"]
CACHEGRIND_SHAPES = ["--I1=32768,8,64", "--D1=32768,8,64", "--LL=262144,8,64"]


def user_seconds(command: Sequence[str | Path], cwd: Path | None = None) -> tuple[float, str]:
    """User CPU time of a command, and everything it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    out, err = subprocess.PIPE, subprocess.STDOUT
    done = subprocess.run(command, cwd=cwd, stdout=out, stderr=err, text=True, check=False)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, done.stdout


def compile_program(folder: Path) -> Path:
    """The program whose misses are compared."""
    binary = folder / "misses"
    subprocess.run(["gcc", *FLAGS, "-o", binary, PROGRAM], check=True)
    return binary


@dataclass(frozen=True)
class Cachegrind:
    """What Cachegrind counted, and how long it took."""

    fetches: tuple[int, int, int]
    loads: tuple[int, int, int]
    stores: tuple[int, int, int]
    user_s: float


def cachegrind(*words: str | Path) -> Cachegrind | None:
    """Runs a command under Cachegrind; None if it is not installed.

    Valgrind's tracing across conditional branches is off: with it, Valgrind 3.19 counts the
    instructions of this program's hottest loop twice when it leaves the loop's unrolled copy.
    """
    if shutil.which("valgrind") is None:
        return None
    command = ["valgrind", "--tool=cachegrind", "--vex-guest-chase=no"]
    command += ["--cachegrind-out-file=/dev/null", *CACHEGRIND_SHAPES, *map(str, words)]
    seconds, text = user_seconds(command)

    def numbers(label: str) -> list[int]:
        found = re.search(rf"{label}\s*:\s*(.*)", text)
        assert found is not None, text
        return [int(n.replace(",", "")) for n in re.findall(r"[\d,]+", found[1])]

    refs, l1, last = numbers("D   refs"), numbers("D1  misses"), numbers("LLd misses")
    fetches = (numbers("I   refs")[0], numbers("I1  misses")[0], numbers("LLi misses")[0])
    return Cachegrind(fetches, (refs[1], l1[1], last[1]), (refs[2], l1[2], last[2]), seconds)


def champsim_program() -> Path | None:
    """A ChampSim binary, from $CHAMPSIM."""
    named = os.environ.get("CHAMPSIM")
    return Path(named) if named else None


def champsim(binary: Path, trace: Path, instructions: int) -> float:
    """Millions of instructions per second of user CPU time."""
    words = ["--warmup-instructions", "0", "--simulation-instructions", str(instructions)]
    seconds, _ = user_seconds([binary, *words, trace])
    return instructions / seconds / 1e6


def _record(ip: int, *, branch: bool, destination: int, source: int, load: int) -> bytes:
    # ChampSim's input_instr: ip, is_branch, taken, 2 + 4 registers, 2 + 4 addresses.
    registers = (destination, 0, source, 0, 0, 0)
    return struct.pack("<QBB6B6Q", ip, branch, branch, *registers, 0, 0, load, 0, 0, 0)


def write_alu_records(path: Path, count: int) -> None:
    """A loop of seven independent operations and a branch."""
    instruction_pointer, flags = 26, 25
    with path.open("wb") as out:
        for n in range(count):
            at = n % 8
            if at < 7:
                out.write(
                    _record(0x1000 + 4 * at, branch=False, destination=1 + at, source=9, load=0)
                )
            else:
                registers = (instruction_pointer, 0, flags, instruction_pointer, 0, 0)
                pc = 0x1000 + 4 * at
                out.write(struct.pack("<QBB6B6Q", pc, 1, 1, *registers, 0, 0, 0, 0, 0, 0))


def write_chase_records(path: Path, count: int) -> None:
    """Loads over 256 MB, the address of each depending on the one before."""
    draw = random.Random(1)
    with path.open("wb") as out:
        for _ in range(count):
            line = draw.randrange(1 << 22)
            load = 0x1000_0000 + 64 * line
            out.write(_record(0x1000, branch=False, destination=1, source=1, load=load))
