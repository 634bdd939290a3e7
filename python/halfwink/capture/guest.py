"""The recorded machine's software: a Debian system in a few archives, built once.

A guest is a folder in the cache: the kernel, a module, archives ("layers") that together make the
file system, and the list of packages. Its name is a hash of everything it is made from.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path

from . import host, paths, scratch
from .cpio import CpioWriter
from .drivers import driver_name, in_order
from .errors import MissingRequirementError, WrongUseError
from .progress import Progress, Report

SUITE = "bookworm"
KERNEL_PACKAGE = "linux-image-cloud-amd64"
DRIVERS = ("veth", "msr")
"""What joins the server's and the clients' network, and what sets a CPU's registers."""

SERVERS = "servers"
"""The guest with the servers, where programs of the user's own run too."""
PROGRAMS = "programs"
"""The guest with the computing programs."""
JAVA = "java"
"""The guest with Java."""
STORAGE = "storage"
"""The guest with block devices."""


@dataclass(frozen=True)
class Kernel:
    """Source of a guest's kernel.

    Attributes:
        package: package that names the newest kernel.
        suite: suite of Debian that has it.
    """

    package: str = KERNEL_PACKAGE
    suite: str = SUITE


_OWN = "own"
"""The folder of what a guest with the user's own packages has beside them."""

NEWER_KERNEL = Kernel("linux-image-amd64", f"{SUITE}-backports")
"""With drivers that Debian 12's own kernels lack, ublk's among them."""


@dataclass(frozen=True)
class Guest:
    """Files of a built guest."""

    folder: Path
    kernel_release: str
    packages: dict[str, str]
    """Versions by name."""

    @property
    def kernel(self) -> Path:
        """Path of the kernel image."""
        return self.folder / "vmlinuz"

    @property
    def drivers(self) -> list[Path]:
        """Its kernel modules, each after those that it depends on."""
        return [self.folder / f"{name}.ko" for name in _lines(self.folder / "drivers")]

    @property
    def busybox(self) -> Path:
        """A static shell with the usual commands."""
        return self.folder / "busybox"

    def layer(self, name: str) -> Path:
        """An archive that is part of the file system."""
        return self.folder / f"{name}.cpio"


@dataclass(frozen=True)
class Recipe:
    """Ingredients of a guest."""

    packages: tuple[str, ...]
    leave_out: tuple[str, ...]
    layers: dict[str, tuple[str, ...]]
    """Patterns of the paths that are not in the base layer, by layer."""
    prepare: str
    """Shell commands to run inside the unpacked system."""
    drivers: tuple[str, ...] = DRIVERS
    """Kernel modules; what they depend on comes along."""

    @property
    def key(self) -> str:
        """Changes whenever the guest would."""
        parts = (SUITE, KERNEL_PACKAGE, self.drivers, self.packages, self.leave_out)
        text = json.dumps([*parts, sorted(self.layers.items()), self.prepare])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def layer_of(self, path: str) -> str | None:
        """The layer that a path belongs to; None if it is left out."""
        if any(fnmatch(path, pattern) for pattern in self.leave_out):
            return None
        for name, patterns in self.layers.items():
            if any(fnmatch(path, pattern) for pattern in patterns):
                return name
        return "base"


def _lines(path: Path) -> tuple[str, ...]:
    text = path.read_text(encoding="utf-8")
    lines = (line.split("#")[0].strip() for line in text.splitlines())
    return tuple(line for line in lines if line)


def recipe(name: str = SERVERS, packages: tuple[str, ...] = ()) -> Recipe:
    """Reads a guest's recipe: the servers' from `capture/guest`, others from a folder in it.

    With packages of the user's own these are all that it has beside the minimal system.

    Raises:
        WrongUseError: a package has no name that one can have.
    """
    if packages:
        for package in packages:
            if not re.fullmatch(r"[a-z0-9][a-z0-9+.-]+", package):
                raise WrongUseError(f"package `{package}`: expected the name of a Debian package")
        own = recipe(_OWN)
        return replace(own, packages=tuple(dict.fromkeys((*own.packages, *sorted(packages)))))
    folder = paths.sources() / "guest"
    if name != SERVERS:
        folder /= name
    layers = {file.stem: _lines(file) for file in sorted((folder / "layers").glob("*.txt"))}
    leave_out = layers.pop("none", ())
    prepare = (folder / "prepare.sh").read_text(encoding="utf-8")
    own = folder / "drivers.txt"
    drivers = _lines(own) if own.exists() else DRIVERS
    return Recipe(_lines(folder / "packages.txt"), leave_out, layers, prepare, drivers)


def find(what: Recipe) -> Guest | None:
    """The guest in the cache, if it has been built."""
    folder = paths.cache() / f"guest-{what.key}"
    try:
        facts = json.loads((folder / "guest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return Guest(folder, str(facts["kernel_release"]), dict(facts["packages"]))


def ensure(report: Report, name: str = SERVERS, packages: tuple[str, ...] = ()) -> Guest:
    """A guest, from the cache or built now; see `recipe`."""
    what = recipe(name, packages)
    found = find(what)
    if found is not None:
        return found
    with scratch.alone(f"guest-{what.key}"):
        return find(what) or _made(what, packages, report)


def _made(what: Recipe, packages: tuple[str, ...], report: Report) -> Guest:
    host.ensure_for_guest(packages)
    with scratch.folder("building-") as work:
        finished = work / "guest"
        finished.mkdir()
        _build(what, work, finished, report)
        destination = paths.cache() / f"guest-{what.key}"
        shutil.rmtree(destination, ignore_errors=True)
        finished.rename(destination)
        destination.chmod(0o755)
        paths.give_to_user(destination)
    built = find(what)
    if built is None:
        raise MissingRequirementError("the guest was built but cannot be read back")
    return built


def _build(what: Recipe, work: Path, out: Path, report: Report) -> None:
    def say(message: str) -> None:
        report(Progress("set-up", message))

    root = work / "root"
    site = host.mirror()
    say("unpacking Debian packages for the guest (about two minutes, once)")
    debootstrap = shutil.which("debootstrap") or "/usr/sbin/debootstrap"
    keyring = ["--keyring", str(host.KEYRING)] if host.KEYRING.exists() else []
    include = f"--include={','.join(what.packages)}"
    options = ["--variant=minbase", "--components=main", include, *keyring]
    host.run([debootstrap, *options, SUITE, str(root), site])
    say("fetching the guest's kernel")
    release, version, package = _kernel(what.drivers, site, work, out)
    say("preparing the guest")
    (root / "prepare.sh").write_text(what.prepare, encoding="utf-8")
    host.run(["chroot", str(root), "/bin/sh", "-e", "/prepare.sh"])
    (root / "prepare.sh").unlink()
    say("packing the guest")
    _pack(what, root, out)
    shutil.copy(root / "usr/bin/busybox", out / "busybox")
    facts = {
        "kernel_release": release,
        "packages": _packages(root) | {package: version},
    }
    text = json.dumps(facts, indent=1, sort_keys=True)
    (out / "guest.json").write_text(text, encoding="utf-8")


class Packages:
    """Debian packages, fetched and unpacked into a folder.

    The host's apt does it, with lists of its own, so that the host's configuration stays as it is.
    """

    def __init__(self, site: str, work: Path, suite: str = SUITE) -> None:
        """Reads the lists of a mirror; `work` is a folder for them and for what is fetched."""
        state = work / "apt"
        for folder in ("lists/partial", "archives/partial"):
            (state / folder).mkdir(parents=True)
        signed = f"[signed-by={host.KEYRING}] " if host.KEYRING.exists() else ""
        (state / "sources.list").write_text(f"deb {signed}{site} {suite} main\n", encoding="utf-8")
        settings = {
            "Dir::Etc::SourceList": state / "sources.list",
            "Dir::Etc::SourceParts": "/dev/null",
            "Dir::State::Lists": state / "lists",
            "Dir::Cache": state,
            "APT::Sandbox::User": "root",
        }
        self._work = work
        self._options = [f"-o{name}={value}" for name, value in settings.items()]
        host.run(["apt-get", *self._options, "update"])

    def kernel(self, newest: str = KERNEL_PACKAGE) -> str:
        """The name of the package with the newest kernel."""
        words = ["depends", "--important", newest]
        listed = host.run(["apt-cache", *self._options, *words]).splitlines()
        names = [line.split()[-1] for line in listed if "Depends: linux-image" in line]
        if not names:
            raise MissingRequirementError(f"{newest} names no kernel image")
        return names[0]

    def unpack(self, package: str) -> tuple[Path, str]:
        """A folder with the files of a package, and its version."""
        folder = self._work / package
        folder.mkdir()
        shell = 'cd "$1" && shift && exec apt-get "$@"'
        command = ["sh", "-c", shell, "sh", str(folder), *self._options, "download", package]
        host.run(command)
        archive = next(folder.glob("*.deb"))
        host.run(["dpkg-deb", "-x", str(archive), str(folder / "files")])
        return folder / "files", host.run(["dpkg-deb", "-f", str(archive), "Version"]).strip()


def _kernel(wanted: Iterable[str], site: str, work: Path, out: Path) -> tuple[str, str, str]:
    """Fetches kernel and drivers: the kernel's release, and its package's version and name."""
    packages = Packages(site, work)
    package = packages.kernel()
    files, version = packages.unpack(package)
    release = package.removeprefix("linux-image-")
    shutil.copy(files / "boot" / f"vmlinuz-{release}", out / "vmlinuz")
    there = {driver_name(path): path for path in files.glob("**/*.ko")}
    drivers = in_order(wanted, there)
    for path in drivers:
        shutil.copy(path, out / f"{driver_name(path)}.ko")
    names = "".join(f"{driver_name(path)}\n" for path in drivers)
    (out / "drivers").write_text(names, encoding="utf-8")
    return release, version, package


def _packages(root: Path) -> dict[str, str]:
    form = "${Package} ${Version}\\n"
    listed = host.run(["dpkg-query", f"--root={root}", "-W", f"-f={form}"])
    pairs = (line.split(" ", 1) for line in listed.splitlines() if " " in line)
    return dict(sorted((name, version) for name, version in pairs))


def walk(root: Path) -> Iterator[tuple[str, Path]]:
    """All paths below `root`, parents first, sorted."""
    for folder, directories, files in os.walk(root):
        directories.sort()
        links = [name for name in directories if (Path(folder) / name).is_symlink()]
        for name in sorted([*files, *links, *(d for d in directories if d not in links)]):
            path = Path(folder) / name
            yield str(path.relative_to(root)), path


def _pack(what: Recipe, root: Path, out: Path) -> None:
    files = {name: (out / f"{name}.cpio").open("wb") for name in ("base", *what.layers)}
    writers = {name: CpioWriter(file) for name, file in files.items()}
    for path, source in walk(root):
        layer = what.layer_of(path)
        if layer is not None:
            writers[layer].copy(path, source)
    for name, writer in writers.items():
        writer.close()
        files[name].close()
