"""Requirements of a capture on the machine, and the ways to meet them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from . import paths
from .errors import MissingRequirementError

QEMU = "qemu-system-x86_64"
QEMU_NEEDED = (10, 0)
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
#: Another installation may be at work.
_APT_GET = ("apt-get", "-oDPkg::Lock::Timeout=300")
_BACKPORTS_FILE = Path("/etc/apt/sources.list.d/halfwink-backports.sources")
_BACKPORTS = "bookworm-backports"


@dataclass(frozen=True)
class Requirement:
    """A requirement of a capture."""

    name: str
    present: bool
    detail: str
    """What was found, or what is missing."""
    fix: str
    """The one line that adds it."""


def set_up_line(packages: Sequence[str] = ()) -> str:
    """Returns the command by which a user without root gets QEMU installed and the guest built."""
    modules = Path(__file__).resolve().parents[2]
    settings = f"XDG_CACHE_HOME={paths.cache().parents[1]} PYTHONPATH={modules}"
    own = "".join(f" --package {name}" for name in packages)
    return f"sudo {settings} {sys.executable} -m halfwink.capture --set-up{own}"


def run(command: list[str], *, timeout_s: float = 1800, env: dict[str, str] | None = None) -> str:
    """Runs a command to its end and returns what it printed; its error is the last line it said."""
    environment = os.environ | {"LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"} | (env or {})
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            env=environment,
            check=False,
        )
    except FileNotFoundError as error:
        raise MissingRequirementError(f"the program {command[0]} is missing") from error
    except subprocess.TimeoutExpired as error:
        raise MissingRequirementError(f"{command[0]} took more than {timeout_s:.0f} s") from error
    if done.returncode != 0:
        said = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        last = said[-1].strip() if said else f"exit status {done.returncode}"
        raise MissingRequirementError(f"`{' '.join(command[:4])} ...` failed: {last}")
    return done.stdout


def qemu_version() -> tuple[str, tuple[int, int]] | None:
    """The version of the installed QEMU, as it says it and as numbers."""
    if shutil.which(QEMU) is None:
        return None
    said = run([QEMU, "--version"], timeout_s=60).splitlines()
    match = re.search(r"version (\d+)\.(\d+)\S*(?: \(([^)]*)\))?", said[0] if said else "")
    if match is None:
        return None
    text = match.group(3) or f"{match.group(1)}.{match.group(2)}"
    return text, (int(match.group(1)), int(match.group(2)))


def is_debian_12() -> bool:
    """Returns whether Debian's packages for bookworm fit this machine."""
    try:
        release = Path("/etc/os-release").read_text(encoding="utf-8")
    except OSError:
        return False
    return "VERSION_CODENAME=bookworm" in release.splitlines()


def mirror(suite: str = "bookworm") -> str:
    """Returns the mirror of Debian 12 in this machine's package sources.

    Raises:
        MissingRequirementError: the sources do not name the suite.
    """
    form = "$(CODENAME)|$(COMPONENT)|$(SITE)"
    for line in run(["apt-get", "indextargets", "--format", form]).splitlines():
        codename, component, site = [*line.split("|"), "", ""][:3]
        if (codename, component) == (suite, "main") and site.startswith(("http:", "https:")):
            return site
    if suite != "bookworm":
        raise MissingRequirementError(
            f"no package source for {suite} (main); add one to /etc/apt/sources.list.d and run:"
            " apt-get update"
        )
    raise MissingRequirementError(
        "no package source for Debian 12 (bookworm, main): capture runs on Debian 12"
    )


def _qemu_requirement() -> Requirement:
    found = qemu_version()
    needed = f"QEMU {QEMU_NEEDED[0]}.{QEMU_NEEDED[1]} or newer, for its plugin interface"
    if found is not None and found[1] >= QEMU_NEEDED:
        # Only a missing QEMU needs the line that adds it, and apt takes 0.5 s of a CPU to answer.
        return Requirement("qemu", True, f"{needed}: found {found[0]}", "")
    detail = f"{needed}: not installed" if found is None else f"{needed}: found {found[0]}"
    is_known = _backports_known()
    fix = f"sudo apt-get install -t {_BACKPORTS} qemu-system-x86" if is_known else set_up_line()
    return Requirement("qemu", False, detail, fix)


def _program_requirement(name: str, purpose: str, fix: str) -> Requirement:
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    detail = f"{name}, {purpose}: " + ("found" if path else "not installed")
    return Requirement(name, path is not None, detail, fix)


def requirements() -> list[Requirement]:
    """Returns the requirements of a capture beside the guest itself."""
    return [
        _qemu_requirement(),
        _program_requirement("cargo", "builds the recorder", "install Rust 1.90 or newer"),
        _program_requirement("cc", "links the recorder", "sudo apt-get install gcc libc6-dev"),
    ]


def guest_requirements(packages: Sequence[str] = ()) -> list[Requirement]:
    """Returns the requirements of building the guest, once; one with packages of the user's own if
    there are any.
    """
    return [
        Requirement(
            "debian-12",
            is_debian_12(),
            "Debian 12, whose packages become the guest",
            "run the first capture on Debian 12 and copy the cache directory",
        ),
        Requirement(
            "root",
            os.geteuid() == 0,
            "root, to unpack the guest's packages (once; captures themselves need no root)",
            set_up_line(packages),
        ),
        _program_requirement(
            "debootstrap", "unpacks the guest", "sudo apt-get install debootstrap"
        ),
    ]


def _backports_known() -> bool:
    if shutil.which("apt-get") is None:
        return False
    listed = run(["apt-get", "indextargets", "--format", "$(CODENAME)"])
    return _BACKPORTS in listed.split()


def install_qemu() -> None:
    """Installs QEMU from backports, adding that source if the machine does not know it."""
    if not _backports_known():
        signed = f"Signed-By: {KEYRING}\n" if KEYRING.exists() else ""
        _BACKPORTS_FILE.write_text(
            f"Types: deb\nURIs: {mirror()}\nSuites: {_BACKPORTS}\nComponents: main\n{signed}",
            encoding="utf-8",
        )
        run([*_APT_GET, "update"])
    # Else apt takes all of QEMU's packages from there, and `halfwink record` needs an older one.
    alone = "-oAPT::Get::Upgrade-By-Source-Package=false"
    words = ["install", "-y", "--no-install-recommends", alone, "-t", _BACKPORTS]
    run([*_APT_GET, *words, "qemu-system-x86"])


def install_debootstrap() -> None:
    """Installs what builds the guest."""
    run([*_APT_GET, "update"])
    run([*_APT_GET, "install", "-y", "--no-install-recommends", "debootstrap"])


def ensure_qemu() -> None:
    """Gets QEMU, or tells that it is missing."""
    requirement = _qemu_requirement()
    if requirement.present:
        return
    if os.geteuid() == 0 and is_debian_12():
        install_qemu()
        return
    raise MissingRequirementError(f"{requirement.detail}; run: {requirement.fix}")


def ensure() -> None:
    """Gets everything that a capture needs, or tells what is missing."""
    ensure_qemu()
    for requirement in requirements():
        if requirement.present:
            continue
        raise MissingRequirementError(f"{requirement.detail}; run: {requirement.fix}")


def ensure_for_guest(packages: Sequence[str] = ()) -> None:
    """Gets everything that building the guest needs, or tells what is missing."""
    for requirement in guest_requirements(packages):
        if requirement.present:
            continue
        if requirement.name == "debootstrap" and os.geteuid() == 0:
            install_debootstrap()
            continue
        raise MissingRequirementError(
            f"the guest is not built yet and needs {requirement.detail}; run: {requirement.fix}"
        )
