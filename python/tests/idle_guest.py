"""A guest whose kernel has the idle states of a server, and runs lines that set them.

QEMU passes the kernel an ACPI table with one object `_CST`, which describes the states of CPU 0. A
state deeper than C1 is a read of a port that no device has, so the guest does not rest in it.
"""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

import guest_console
from conftest import lacking, need, need_qemu

from halfwink.capture import guest, host, small
from halfwink.capture.cpio import CpioWriter
from halfwink.capture.errors import MissingRequirementError

#: Longest run, in seconds of this host: a slow machine with busy neighbours.
PATIENCE_S = 600.0
#: The network card's driver takes `rx-usecs`, and has no adaptive moderation.
DRIVERS = ["e1000e"]
#: Address space of a state that the processor enters by an instruction, and by a port.
FIXED_HARDWARE, SYSTEM_IO = 0x7F, 1
UNUSED_PORT = 0x80


def _packed(opcode: bytes, body: bytes) -> bytes:
    """Returns an AML object with its length, which counts its own bytes."""
    if len(body) + 1 < 64:
        return opcode + bytes([len(body) + 1]) + body
    length = len(body) + 2
    return opcode + bytes([0x40 | (length & 15), length >> 4]) + body


def _number(value: int) -> bytes:
    return b"\x0c" + struct.pack("<I", value)


def _package(items: Sequence[bytes]) -> bytes:
    return _packed(b"\x12", bytes([len(items)]) + b"".join(items))


def _register(space: int, address: int) -> bytes:
    width = 8 if space == SYSTEM_IO else 0
    descriptor = struct.pack("<BHBBBBQ", 0x82, 12, space, width, 0, 0, address) + b"\x79\0"
    return _packed(b"\x11", _number(len(descriptor)) + descriptor)


def states_table(latencies_us: Sequence[int]) -> bytes:
    """Returns an ACPI table (SSDT) in which CPU 0 has C1, C2 and C3 with these exit latencies."""
    states = [
        _package(
            [
                _register(*((FIXED_HARDWARE, 0) if kind == 1 else (SYSTEM_IO, UNUSED_PORT))),
                *map(_number, (kind, latency, 1)),
            ]
        )
        for kind, latency in enumerate(latencies_us, 1)
    ]
    cst = b"\x08_CST" + _package([_number(len(states)), *states])
    body = _packed(b"\x10", b"\x5c\x2f\x03_SB_CPUSC000" + cst)
    length, revision, checksum, made_by = 36 + len(body), 2, 0, 1
    ids = (b"HWINK", b"IDLE", 1, b"HW", made_by)
    head = struct.pack("<4sIBB6s8sI4sI", b"SSDT", length, revision, checksum, *ids)
    table = bytearray(head + body)
    table[9] = -sum(table) & 255
    return bytes(table)


def run(folder: Path, script: str, latencies_us: Sequence[int], boot: str = "") -> list[str]:
    """Runs a script in the guest; what it printed by `say`. The test is skipped where there can be
    no guest."""
    need_qemu()
    programs = [Path(need(name)) for name in ("cpupower", "ethtool")]
    try:
        base = small.ensure(DRIVERS, [], lambda _: None, guest.NEWER_KERNEL)
    except MissingRequirementError as error:
        lacking(str(error))
    initrd, table = folder / "initrd.cpio", folder / "states.aml"
    table.write_bytes(states_table(latencies_us))
    with initrd.open("wb") as archive:
        archive.write(base.base.read_bytes())
        with CpioWriter(archive) as cpio:
            cpio.file("halfwink/run.sh", script.encode())
            for program in programs:
                small.add_program(cpio, program)
    words = [
        host.QEMU,
        *("-machine", "pc", "-accel", "tcg", "-cpu", "max", "-smp", "1"),
        *("-m", str(small.RAM_MIB), "-nodefaults", "-no-user-config", "-no-reboot", "-nographic"),
        *("-serial", "stdio", "-monitor", "none"),
        *("-kernel", str(base.kernel), "-initrd", str(initrd)),
        *("-append", f"{guest_console.BOOT} {boot}"),
    ]
    words += ["-netdev", "hubport,hubid=0,id=n", "-device", "e1000e,netdev=n"]
    words += ["-acpitable", f"file={table}"]
    done = subprocess.run(
        words, capture_output=True, text=True, errors="replace", timeout=PATIENCE_S, check=False
    )
    said = [line.partition("@guest ") for line in done.stdout.splitlines()]
    told = [text.strip() for _, mark, text in said if mark]
    assert told[-1:] == ["over"], (done.stdout[-2000:], done.stderr)
    return told
