"""Captures of workloads and programs."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from halfwink import installed
from halfwink.files import replacing

from . import build, guest, host, image, machine, program, scratch
from .errors import (
    CaptureError,
    CaptureInterruptedError,
    FailedError,
    GuestError,
    WrongUseError,
)
from .guest import Guest
from .host import Requirement
from .image import Plan
from .progress import Progress
from .workload import Workload
from .workloads import find

DIRECT_MAP_BASE = 0xFFFF_8880_0000_0000
"""Where Linux maps all physical memory with four-level paging and without KASLR."""

_MAX_SEED = (1 << 32) - 1


@dataclass(frozen=True)
class Result:
    """Result of a finished capture."""

    path: Path
    workload: str
    instructions: int
    kernel_instructions: int
    requests: int
    bytes: int
    seconds: float
    """Host time of the recording itself."""
    idle_ns: int
    virtual_ns: int
    """The recorded CPU's own time: its instructions and its idle periods."""
    unexplained: int
    """Continuations that the code before does not explain."""
    exit_status: int | None
    """Of the program, as shells count it; None if the recording ended before it."""
    said: tuple[str, ...]
    """What the guest's console showed last."""
    details: dict[str, Any]
    """The recorder's whole report."""

    @property
    def kernel_share(self) -> float:
        """Part of the instructions that ran in the kernel."""
        return self.kernel_instructions / max(self.instructions, 1)

    @property
    def bytes_per_instruction(self) -> float:
        """Size of the file, per instruction."""
        return self.bytes / max(self.instructions, 1)

    @property
    def mips(self) -> float:
        """Million recorded instructions per host second."""
        return self.instructions / 1e6 / max(self.seconds, 1e-9)

    @property
    def idle_share(self) -> float:
        """Part of the virtual time in which the recorded CPU was halted."""
        return self.idle_ns / max(self.virtual_ns, 1)


def available() -> list[Requirement]:
    """Returns the requirements of `capture` on this machine, for `halfwink doctor`."""
    try:
        built = guest.find(guest.recipe()) is not None
    except (CaptureError, OSError) as error:
        missing = Requirement("sources", False, str(error), installed.fix("capture"))
        return [*host.requirements(), missing]
    if built:
        ready = Requirement("guest", True, "the guest is built", "")
        return [*host.requirements(), ready]
    return [*host.requirements(), *host.guest_requirements()]


def set_up(progress: Callable[[Progress], None], packages: Sequence[str] = ()) -> Guest:
    """Installs QEMU and builds the guest: all that may need root, and no capture."""
    host.ensure_qemu()
    return guest.ensure(progress, packages=tuple(packages))


def capture(
    workload: str | None,
    command: list[str] | None,
    out: Path,
    *,
    instructions: int | None,
    seed: int,
    time_limit_s: float,
    rootfs: Path | None,
    packages: Sequence[str] = (),
    progress: Callable[[Progress], None],
) -> Result:
    """Records a workload, or a command of the user's own, into the file `out`.

    `instructions` None means the workload's default, or the whole run of a command. Equal arguments
    on equal software give equal files. A command may need Debian `packages`: the guest then has
    them, and little else. A command that ends badly is recorded all the same: see `exit_status`.
    """
    plan = _plan(workload, command, seed, rootfs, tuple(packages))
    limit = instructions
    if limit is None and plan.program is None:
        limit = plan.workload.instructions
    if limit is not None and limit <= 0:
        raise WrongUseError(f"{limit} instructions: expected at least one")
    if not out.parent.is_dir():
        raise WrongUseError(f"{out}: there is no folder {out.parent}")
    try:
        return _capture(plan, out, limit, time_limit_s, progress)
    except KeyboardInterrupt as error:
        raise CaptureInterruptedError("interrupted; nothing was kept") from error
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        raise FailedError(f"{place}{error.strerror or error}") from error


def _plan(
    workload: str | None,
    command: list[str] | None,
    seed: int,
    rootfs: Path | None,
    packages: tuple[str, ...],
) -> Plan:
    if not 0 <= seed <= _MAX_SEED:
        raise WrongUseError(f"seed {seed}: expected 0 to {_MAX_SEED}")
    if (workload is None) == (command is None):
        raise WrongUseError("expected either the name of a workload or `-- COMMAND`")
    if rootfs is not None and not rootfs.is_dir():
        raise WrongUseError(f"{rootfs}: not a folder with a root file system")
    if rootfs is not None and packages:
        raise WrongUseError("a root file system of your own has its own packages")
    if command is None:
        if rootfs is not None:
            raise WrongUseError("a root file system of your own needs `-- COMMAND`")
        if packages:
            raise WrongUseError("packages of your own need `-- COMMAND`")
        return Plan(find(workload or ""), seed)
    own = program.locate(command, own_root=rootfs is not None)
    name = Path(command[0]).name
    described = Workload(
        name=name,
        description=f"the program {name}, from its start",
        kind="program",
        script="",
        layers=() if packages else ("gcc", "postgresql"),
    )
    return Plan(described, seed, own, rootfs, packages)


def _capture(
    plan: Plan,
    out: Path,
    limit: int | None,
    time_limit_s: float,
    progress: Callable[[Progress], None],
) -> Result:
    host.ensure()
    built = guest.ensure(progress, plan.workload.guest, plan.packages)
    progress(Progress("build", "building the recorder"))
    tools = build.tools()
    with scratch.folder("capture-") as work:
        initrd, header = work / "initrd.cpio", work / "header.json"
        progress(Progress("build", "packing the guest's files"))
        image.write(plan, built, tools.load, initrd)
        header.write_text(json.dumps(make_header(plan, built)), encoding="utf-8")
        boot = machine.Boot(
            kernel=built.kernel,
            initrd=initrd,
            plugin=tools.plugin,
            header=header,
            # QEMU splits its arguments at commas.
            out=work / "trace.hwt",
            cpus=plan.workload.cpus,
            recorded=plan.workload.recorded,
            seed=plan.seed,
            instructions=limit,
        )
        report = machine.run(boot, progress, time_limit_s)
        if plan.program is None and report["exit_status"]:
            raise GuestError(
                f"in the guest: {plan.workload.name} ended with status "
                f"{report['exit_status']}{machine.last_words(report['said'])}"
            )
        with replacing(out) as partial:
            shutil.move(boot.out, partial)
    result = _result(plan.workload.name, out, report)
    progress(Progress("done", f"{result.instructions} instructions", result.instructions, limit))
    return result


def make_header(plan: Plan, built: Guest) -> dict[str, Any]:
    """The trace's provenance. Nothing in it depends on when or where the capture runs."""
    workload = plan.workload
    version = host.qemu_version()
    notes = [
        "Instructions, addresses and events of an emulated machine; no times but the virtual ones:"
        " one instruction is one nanosecond.",
    ]
    if workload.is_server:
        notes.append(
            "Holds the CPU of the server alone. The load generator ran on CPU 0; while it ran and"
            " the server had work to do, the server's virtual time stood still."
        )
    header: dict[str, Any] = {
        "workload": workload.name,
        "description": workload.description,
        "isa": "x86-64",
        "command": _command(plan),
        "kernel": f"Linux {built.kernel_release}",
        "tools": {"qemu": version[0] if version else "unknown"},
        "seed": plan.seed,
        "unit_of_work": workload.unit_of_work,
        "cpus": workload.cpus,
        "ps_per_instruction": 1000,
        "code": "bytes",
        "direct_map": {"virt_base": DIRECT_MAP_BASE, "bytes": machine.RAM_MIB << 20},
        "notes": notes,
    }
    packages = built.packages
    if plan.rootfs is not None:
        # Not the user's files; what is left of ours is the kernel.
        packages = {n: v for n, v in packages.items() if n.startswith("linux-image-")}
    header["packages"] = [{"name": n, "version": v} for n, v in sorted(packages.items())]
    if workload.is_server:
        load: dict[str, Any] = {"kind": workload.kind, "connections": workload.connections}
        if workload.rate_per_s is not None:
            load["rate_per_s"] = workload.rate_per_s
        header["load"] = load
    return header


def _command(plan: Plan) -> list[str]:
    if plan.program is not None:
        first, *rest = plan.program.command
        return [Path(first).name if plan.program.files else first, *rest]
    return list(plan.workload.command)


def _result(name: str, path: Path, report: dict[str, Any]) -> Result:
    fields = {field.name for field in dataclasses.fields(Result)}
    numbers = {key: value for key, value in report.items() if key in fields}
    span = int(report["to_ns"]) - int(report["from_ns"])
    return Result(path=path, workload=name, virtual_ns=span, details=report, **numbers)
