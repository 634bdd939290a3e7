"""A small Linux machine under QEMU: Debian's kernel and drivers, busybox, programs of this host.

Its time is counted in instructions: one is one nanosecond, and when nothing is to be done time
leaps to the next timer. Equal files give equal runs, bit for bit.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from . import guest as guests
from . import host, machine, paths, scratch
from .cpio import CpioWriter
from .drivers import driver_bytes, driver_name, in_order
from .errors import GuestError, MissingRequirementError, TimeLimitError
from .program import libraries
from .progress import Progress, Report

_FOLDERS = ("bin", "proc", "sys", "dev", "run", "tmp")
_PROGRAMS = "halfwink/programs"
_PREFIX = "@guest "
RAM_MIB = 512

_INIT = """#!/halfwink/busybox sh
/halfwink/busybox --install -s /bin
export PATH=/halfwink/programs:/bin LC_ALL=C HOME=/
say() { echo "@guest $*"; }
finish() { sleep 0.1; poweroff -f; }
fail() { say "error: $*"; finish; }
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs run /run
mount -t tmpfs tmp /tmp
stty -F /dev/console raw -echo
while read -r driver; do insmod "/halfwink/$driver" || fail "insmod $driver"; done \\
    </halfwink/order
say "booted"
. /halfwink/run.sh
finish
"""


@dataclass(frozen=True)
class Small:
    """Parts of the guest that do not change from run to run."""

    folder: Path
    packages: dict[str, str]
    """Versions by name: the kernel's, the shell's."""

    @property
    def kernel(self) -> Path:
        """Path of the kernel image."""
        return self.folder / "vmlinuz"

    @property
    def base(self) -> Path:
        """Drivers, shell and programs: the begin of the initial file system."""
        return self.folder / "base.cpio"


def ensure(
    drivers: Sequence[str],
    programs: Sequence[Path],
    report: Report,
    kernel: guests.Kernel = guests.Kernel(),  # noqa: B008  (it never changes)
) -> Small:
    """The machine with this kernel, these drivers and programs, from the cache or made now.

    Raises:
        MissingRequirementError: a part is missing, with the line that adds it.
    """
    host.ensure_qemu()
    contents = [hashlib.sha256(path.read_bytes()).hexdigest() for path in programs]
    parts = (kernel.suite, kernel.package, list(drivers), contents)
    key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
    folder = paths.cache() / f"small-{key}"
    if not (folder / "packages.json").is_file():
        with scratch.alone(folder.name):
            if not (folder / "packages.json").is_file():
                _make(folder, kernel, drivers, programs, report)
    text = (folder / "packages.json").read_text(encoding="utf-8")
    return Small(folder, dict(json.loads(text)))


def _make(
    folder: Path,
    kernel: guests.Kernel,
    drivers: Sequence[str],
    programs: Sequence[Path],
    report: Report,
) -> None:
    if not host.is_debian_12():
        raise MissingRequirementError(
            "the guest is not built yet and needs Debian 12, whose packages become it; build"
            " it on Debian 12 and copy the cache directory"
        )
    report(Progress("set-up", "fetching the guest's kernel and shell (once)"))
    with scratch.folder("building-") as work:
        out = work / "out"
        out.mkdir()
        _build(work, out, kernel, drivers, programs)
        shutil.rmtree(folder, ignore_errors=True)
        out.rename(folder)
    paths.give_to_user(folder)


def _build(
    work: Path,
    out: Path,
    kernel: guests.Kernel,
    drivers: Sequence[str],
    programs: Sequence[Path],
) -> None:
    packages = guests.Packages(host.mirror(), work)
    busybox, busybox_version = packages.unpack("busybox-static")
    if kernel.suite != guests.SUITE:
        other = work / "other"
        other.mkdir()
        packages = guests.Packages(host.mirror(kernel.suite), other, kernel.suite)
    name = packages.kernel(kernel.package)
    files, kernel_version = packages.unpack(name)
    shutil.copy(next((files / "boot").glob("vmlinuz-*")), out / "vmlinuz")
    modules = in_order(drivers, {driver_name(path): path for path in files.glob("**/*.ko*")})
    with (out / "base.cpio").open("wb") as archive, CpioWriter(archive) as cpio:
        for folder in _FOLDERS:
            cpio.directory(folder)
        cpio.console()
        cpio.file("init", _INIT.encode(), 0o755)
        cpio.file("halfwink/busybox", (busybox / "bin/busybox").read_bytes(), 0o755)
        order = {f"{driver_name(path)}.ko": path for path in modules}
        cpio.file("halfwink/order", "".join(f"{file}\n" for file in order).encode())
        for file, path in order.items():
            cpio.file(f"halfwink/{file}", driver_bytes(path))
        for program in programs:
            add_program(cpio, program)
    facts = {name: kernel_version, "busybox-static": busybox_version}
    (out / "packages.json").write_text(json.dumps(facts), encoding="utf-8")


def add_program(cpio: CpioWriter, program: Path) -> None:
    """A program of this host, with the libraries that it is linked to."""
    cpio.file(f"{_PROGRAMS}/{program.name}", program.read_bytes(), 0o755)
    for place, source in sorted(libraries(program).items()):
        cpio.file(place, source.read_bytes(), 0o755)


def command_line(small: Small, initrd: Path, seed: int) -> list[str]:
    """Returns the command line of QEMU."""
    return [
        host.QEMU,
        *("-machine", "pc", "-cpu", machine.CPU, "-m", str(RAM_MIB)),
        *("-nographic", "-nodefaults", "-no-user-config", "-no-reboot"),
        *("-serial", "stdio", "-monitor", "none"),
        *("-kernel", str(small.kernel), "-initrd", str(initrd)),
        # A thread that has a slot to meet waits for no system call of another.
        *("-append", f"{machine.KERNEL_ARGUMENTS} preempt=full"),
        *("-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off"),
        *("-rtc", machine.CLOCK, "-seed", str(seed)),
    ]


def run(
    small: Small,
    script: str,
    *,
    files: dict[str, bytes],
    programs: Sequence[Path] = (),
    seed: int,
    time_limit_s: float,
) -> list[str]:
    """Boots the machine and runs a shell script in it; the lines that it printed by ``say``.

    Args:
        small: the machine.
        script: shell script to run; `fail` ends it with a reason.
        files: further files, by path.
        programs: further programs of this host.
        seed: seed of the random numbers of kernel and programs.
        time_limit_s: timeout, in seconds of this host.

    Raises:
        GuestError: the script failed, with its reason.
        TimeLimitError: the script did not end in time.
    """
    with scratch.folder("run-") as work:
        initrd = work / "initrd.cpio"
        with initrd.open("wb") as archive:
            with small.base.open("rb") as base:
                shutil.copyfileobj(base, archive, 1 << 20)
            with CpioWriter(archive) as cpio:
                cpio.file("halfwink/run.sh", script.encode())
                for path, data in sorted(files.items()):
                    cpio.file(path, data)
                for program in programs:
                    add_program(cpio, program)
        try:
            done = subprocess.run(
                command_line(small, initrd, seed),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=time_limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise TimeLimitError(f"the guest did not end in {time_limit_s:.0f} s") from error
    said = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    told = [line.removeprefix(_PREFIX) for line in said if line.startswith(_PREFIX)]
    failed = next((line for line in told if line.startswith("error: ")), None)
    if failed is not None:
        raise GuestError(f"in the guest: {failed.removeprefix('error: ')}")
    if done.returncode != 0 or not told:
        last = [*said, *done.stderr.splitlines()][-1:]
        raise GuestError(f"the guest ended with status {done.returncode}; it said last: {last}")
    return told
