"""The live router's program for the kernel, compiled from C into text that the crate holds.

python tools/bpf.py            compile forward.c and write forward.bpf beside it
python tools/bpf.py --check    fail where forward.bpf is not what this clang makes of forward.c

Each line of the text is an instruction in hexadecimal, with the name that the loader has to put
there (a map, or the number of a port). Only who changes forward.c needs clang.
"""

from __future__ import annotations

import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from halfwink.programs import which

SOURCE = Path(__file__).parents[1] / "crates/live-router/src/kernel/forward.c"
TARGET = SOURCE.with_suffix(".bpf")
FLAGS = ("-target", "bpf", "-mcpu=v3", "-O2", "-Wall", "-Wextra", "-Werror")
#: Sections of programs are named so.
PREFIX = "xdp/"
#: ELF: kinds of sections, bytes of a symbol, of a relocation, of an instruction.
RELOCATIONS, SYMBOLS, SYMBOL, RELOCATION, INSTRUCTION = 9, 2, 24, 16, 8


@dataclass(frozen=True)
class Section:
    """A section of an object file."""

    name: str
    kind: int
    data: bytes
    target: int


def clang() -> str:
    """First line of clang's version, which decides the instructions."""
    done = subprocess.run(
        [str(which("clang")), "--version"], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()[0]


def compiled(source: Path = SOURCE) -> str:
    """The text of a source, as this machine's clang compiles it."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "forward.o"
        words = [str(which("clang")), *FLAGS, "-c", str(source), "-o", str(target)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"bpf: {(done.stderr.strip().splitlines() or ['clang failed'])[0]}")
        sections = list(read(target.read_bytes()))
    lines = [f"# Compiled from {source.name} by tools/bpf.py with {clang()}: do not edit."]
    names = symbols(sections)
    for number, section in enumerate(sections):
        if section.name.startswith(PREFIX):
            lines += [f"program {section.name.removeprefix(PREFIX)}"]
            lines += instructions(section, relocated(sections, number, names))
    return "\n".join([*lines, ""])


def read(elf: bytes) -> Iterator[Section]:
    """The sections of an object file of 64 bits, least byte first."""
    (start,) = struct.unpack_from("<Q", elf, 0x28)
    size, count, of_names = struct.unpack_from("<HHH", elf, 0x3A)
    heads = [struct.unpack_from("<IIQQQQII", elf, start + n * size) for n in range(count)]
    names = heads[of_names][4]
    for name, kind, _, _, offset, length, _, target in heads:
        text = elf[names + name : elf.index(b"\0", names + name)].decode()
        yield Section(text, kind, elf[offset : offset + length], target)


def symbols(sections: list[Section]) -> list[str]:
    """Names of all symbols, by number."""
    table = next(section for section in sections if section.kind == SYMBOLS)
    texts = next(section.data for section in sections if section.name == ".strtab")
    starts = [
        struct.unpack_from("<I", table.data, at)[0] for at in range(0, len(table.data), SYMBOL)
    ]
    return [texts[start : texts.index(b"\0", start)].decode() for start in starts]


def relocated(sections: list[Section], number: int, names: list[str]) -> dict[int, str]:
    """Names that stand in instructions of a section, by the number of the instruction."""
    found: dict[int, str] = {}
    for section in sections:
        if section.kind == RELOCATIONS and section.target == number:
            for at in range(0, len(section.data), RELOCATION):
                offset, info = struct.unpack_from("<QQ", section.data, at)
                found[offset // INSTRUCTION] = names[info >> 32]
    return found


def instructions(section: Section, names: dict[int, str]) -> Iterator[str]:
    """Lines of a program."""
    for n in range(len(section.data) // INSTRUCTION):
        text = section.data[n * INSTRUCTION : (n + 1) * INSTRUCTION].hex()
        yield f"{text} {names[n]}" if n in names else text


def main() -> int:
    """Writes the text, or compares it."""
    text = compiled()
    if sys.argv[1:] == ["--check"]:
        same = TARGET.read_text() == text
        if not same:
            print(f"bpf: {TARGET.name}: found other instructions, expected those of {clang()}")
        return 0 if same else 1
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
