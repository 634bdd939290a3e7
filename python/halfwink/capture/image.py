"""The initial file system of one capture: the guest's layers and what only this capture needs."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from . import guest as guests
from . import paths
from .cpio import CpioWriter
from .guest import Guest
from .program import Program
from .workload import Workload

_FOLDERS = ("proc", "sys", "dev", "run", "tmp", "root")


@dataclass(frozen=True)
class Plan:
    """Plan of a capture, as far as the guest needs it."""

    workload: Workload
    seed: int
    program: Program | None = None
    rootfs: Path | None = None
    packages: tuple[str, ...] = ()
    """Of the user's own, which the guest has instead of what workloads need."""
    variables: dict[str, str] = field(default_factory=dict[str, str])


def load_arguments(workload: Workload, seed: int) -> list[str]:
    """Arguments of the load generator, behind the server's address."""
    arguments = ["--connections", str(workload.connections), "--seed", str(seed)]
    arguments += ["--warmup", str(workload.warmup)]
    if workload.items is not None:
        arguments += ["--items", str(workload.items)]
    if workload.rate_per_s is not None:
        arguments += ["--rate", str(workload.rate_per_s)]
    return arguments


def environment(plan: Plan) -> str:
    """Returns the settings of the guest as shell assignments."""
    workload = plan.workload
    values = {
        "KIND": "server" if workload.is_server else "program",
        "PROTOCOL": workload.protocol,
        "WARMUP": str(workload.warmup),
        "CPUS": str(workload.cpus),
        "LOAD_ARGUMENTS": " ".join(load_arguments(workload, plan.seed)),
    }
    if workload.items is not None:
        values["ITEMS"] = str(workload.items)
    if workload.record_after_s is not None:
        # The program runs unrecorded at first: `record_later` in `later.sh` starts the recording.
        values |= {
            "WARMUP": "0",
            "OWN_START": "--own-start",
            "RECORD_AFTER": f"{workload.record_after_s:g}",
        }
    if workload.source:
        values |= {"SOURCE": workload.source, "ARGUMENTS": shlex.join(workload.command[1:])}
    if workload.marks_start:
        values |= {"WARMUP": "0", "OWN_START": "--own-start"}
    values |= {**workload.variables, **plan.variables}
    if plan.program is not None:
        values["COMMAND"] = shlex.join(plan.program.command)
        values["OWN_START"] = "--own-start" if plan.program.starts_itself else ""
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items())


def write(plan: Plan, guest: Guest, load: Path, out: Path) -> None:
    """Writes the archive that the kernel unpacks."""
    workload = plan.workload
    with out.open("wb") as archive:
        if plan.rootfs is not None:
            with CpioWriter(archive) as cpio:
                for path, source in guests.walk(plan.rootfs):
                    cpio.copy(path, source)
        else:
            for name in ("base", *workload.layers):
                with guest.layer(name).open("rb") as layer:
                    shutil.copyfileobj(layer, archive, 1 << 20)
        with CpioWriter(archive) as cpio:
            _write_own(plan, guest, load, cpio)


def _write_own(plan: Plan, guest: Guest, load: Path, cpio: CpioWriter) -> None:
    scripts = paths.sources() / "guest"
    for folder in _FOLDERS:
        cpio.directory(folder, 0o1777 if folder == "tmp" else 0o755)
    cpio.console()
    cpio.file("init", (scripts / "init.sh").read_bytes(), 0o755)
    cpio.file("halfwink/busybox", guest.busybox.read_bytes(), 0o755)
    cpio.file("halfwink/load", load.read_bytes(), 0o755)
    cpio.file("halfwink/environment", environment(plan).encode())
    if plan.workload.script:
        if plan.workload.record_after_s is not None:
            cpio.file("halfwink/later.sh", (scripts / "later.sh").read_bytes())
        script = scripts / "workloads" / f"{plan.workload.script}.sh"
        cpio.file("halfwink/workload.sh", script.read_bytes())
        for extra in sorted((scripts / "workloads" / plan.workload.script).glob("*")):
            cpio.file(f"halfwink/{extra.name}", extra.read_bytes())
    if plan.workload.source:
        for name in (plan.workload.source, *(["mark.h"] if plan.workload.marks_start else [])):
            cpio.file(f"halfwink/{name}", (paths.programs() / name).read_bytes())
    if plan.workload.cpus > 1:
        names = "".join(f"{driver.stem}\n" for driver in guest.drivers)
        cpio.file("halfwink/drivers", names.encode())
        for driver in guest.drivers:
            cpio.file(f"halfwink/{driver.name}", driver.read_bytes())
    if plan.program is not None:
        for place, source in sorted(plan.program.files.items()):
            cpio.file(place, source.read_bytes(), 0o755)
