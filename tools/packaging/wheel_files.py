"""What each wheel holds, and how a wheel is written.

The base wheel is the package with ``halfwink/data`` in it: a clone's machines, studies,
targets and some workloads. The others add files to the same package, laid out the same way.
"""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import subprocess
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from platform import machine as host_machine

import maturin
from sbom import bill

ROOT = Path(__file__).resolve().parents[2]
DATA = "halfwink/data"
#: Recordings in the base wheel: two services, two programs. With gcc's it would come too near to
#: 12 MB.
RECORDINGS = ("nginx", "memcached", "hmmer", "perl")
#: What else of `workloads/` does: loads of servers, flows, a recorded prototype.
FOLDERS = (
    "machines",
    "profiles",
    "studies",
    "targets",
    "workloads/server",
    "workloads/flows",
)
MORE = ("workloads/prototype", "workloads/README.md", "workloads/worldcup98-1998-06-30.csv")
LIBRARIES = ("libhalfwink_delegate.so", "libhalfwink_preheat_preload.so", "libhalfwink_wasm.so")
PROGRAMS = tuple(
    f"halfwink-{name}" for name in ("router", "steer", "circuits", "block", "preheat", "delegate")
)
#: Crates of the workspace that are compiled into the base wheel, and into that of live programs.
CRATES = ("halfwink-py",)
_LIVE = ("py-live", "daemon", "delegate", "preheat-preload", "live-wasm")
LIVE_CRATES = tuple(f"halfwink-{name}" for name in _LIVE)
#: Machines by their number in the head of an ELF file.
MACHINES = {62: "x86_64", 183: "aarch64"}
LICENSES = ("LICENSE-MIT", "LICENSE-APACHE")
#: Zip's first day: two builds of the same files are the same wheel.
EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass
class Contents:
    """Files of a wheel: their bytes and whether they can be run, by path."""

    files: dict[str, tuple[bytes, bool]] = field(default_factory=dict[str, tuple[bytes, bool]])

    def add(self, place: str, content: bytes, *, runs: bool = False) -> None:
        """One file."""
        assert place not in self.files, place
        self.files[place] = (content, runs)

    def add_tree(self, path: Path, place: str) -> None:
        """A file, or all files in a folder but what was built there."""
        if path.is_file():
            self.add(place, path.read_bytes(), runs=bool(path.stat().st_mode & 0o100))
            return
        for entry in sorted(path.iterdir()):
            if entry.name not in ("target", "__pycache__"):
                self.add_tree(entry, f"{place}/{entry.name}")

    def write(self, wheel: Path, info: str) -> Path:
        """The wheel, with its RECORD in the folder ``info``."""
        lines: list[str] = []
        with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            # As the format asks: what is about the wheel comes last.
            for place in sorted(self.files, key=lambda p: (p.startswith(info), p)):
                content, runs = self.files[place]
                entry = zipfile.ZipInfo(place, EPOCH)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = (0o100755 if runs else 0o100644) << 16
                archive.writestr(entry, content)
                digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest())
                lines.append(f"{place},sha256={digest.decode().rstrip('=')},{len(content)}")
            record = zipfile.ZipInfo(f"{info}/RECORD", EPOCH)
            record.compress_type = zipfile.ZIP_DEFLATED
            record.external_attr = 0o100644 << 16
            archive.writestr(record, "\n".join([*lines, f"{info}/RECORD,,", ""]))
        return wheel


def version() -> str:
    """The version of everything here."""
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text())
    return cargo["workspace"]["package"]["version"]


def stripped(content: bytes) -> bytes:
    """Returns a program or library without symbols and line tables, where there is a `strip` for
    its machine."""
    if shutil.which("strip") is None or elf_machine(content) != host_machine():
        return content
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(content)
        subprocess.run(["strip", "--strip-all", "--remove-section=.comment", path], check=True)
        return path.read_bytes()


def elsewhere() -> list[str]:
    """Recordings that the base wheel does not hold."""
    known = sorted(path.stem for path in (ROOT / "workloads").glob("*.hwt"))
    return [name for name in known if name not in RECORDINGS]


def data() -> Iterator[tuple[Path, str]]:
    """Files and folders of the base wheel's data, and where they go in it."""
    recordings = [f"workloads/{name}.hwt" for name in RECORDINGS]
    for place in (*FOLDERS, *MORE, *recordings):
        yield ROOT / place, f"{DATA}/{place}"


def complete(wheel: Path, out: Path) -> Path:
    """Maturin's wheel, stripped and with data, in a folder, under its own name."""
    contents = Contents()
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            content = archive.read(entry)
            if entry.filename.endswith(".so"):
                content = stripped(content)
            if not entry.filename.endswith("/RECORD"):
                contents.add(entry.filename, content, runs=entry.filename.endswith(".so"))
    info = next(place.split("/")[0] for place in contents.files if ".dist-info/" in place)
    add_data(contents)
    add_pages(contents, info, "halfwink")
    return contents.write(out / wheel.name, info)


def add_data(contents: Contents) -> None:
    """Adds the data of the base wheel."""
    for path, place in data():
        contents.add_tree(path, place)
    names = "".join(f'  "{name}",\n' for name in elsewhere())
    text = f'add = "pip install halfwink-workloads"\nnames = [\n{names}]\n'
    contents.add(f"{DATA}/workloads/elsewhere.toml", text.encode())


def add_pages(contents: Contents, info: str, *programs: str) -> None:
    """Adds manual pages, which pip installs where `man` looks for them beside `bin`."""
    folder = f"{info.removesuffix('.dist-info')}.data/data/share/man/man1"
    for name in programs:
        contents.add(f"{folder}/{name}.1", (ROOT / f"docs/man/{name}.1").read_bytes())


def add_bill(contents: Contents, info: str, name: str, crates: Sequence[str]) -> None:
    """Adds the bill of materials of the crates that are compiled into a wheel."""
    target = f"{machine(contents)}-unknown-linux-gnu"
    contents.add(f"{info}/sboms/{name}.cdx.json", bill(name, version(), crates, target))


def base(out: Path, module: Path) -> Path:
    """Writes the base wheel of this clone around a native module that was built already."""
    contents = Contents()
    for path in sorted((ROOT / "python/halfwink").rglob("*")):
        place = path.relative_to(ROOT / "python")
        left_out = {"_native", "__pycache__"} & set(place.parts) or path.suffix == ".so"
        if path.is_file() and not left_out:
            contents.add(str(place), path.read_bytes())
    contents.add("halfwink/_core.abi3.so", stripped(module.read_bytes()), runs=True)
    tag = f"cp311-abi3-{platform(contents)}"
    add_data(contents)
    info = add_metadata(contents, tag)
    add_pages(contents, info, "halfwink")
    add_bill(contents, info, "halfwink", CRATES)
    return contents.write(out / f"{info.removesuffix('.dist-info')}-{tag}.whl", info)


def editable(out: Path) -> Path:
    """Writes a wheel that names this clone's `python/` as the place of the package."""
    contents = Contents()
    contents.add("halfwink.pth", f"{ROOT / 'python'}\n".encode())
    info = add_metadata(contents, "py3-none-any")
    return contents.write(out / f"{info.removesuffix('.dist-info')}-py3-none-any.whl", info)


def add_metadata(contents: Contents, tag: str) -> str:
    """Adds the package's metadata, which maturin writes from pyproject.toml; returns its folder."""
    with tempfile.TemporaryDirectory() as folder:
        info = Path(folder) / maturin.prepare_metadata_for_build_wheel(folder)
        wheel = info / "WHEEL"
        wheel.write_text(re.sub(r"(?m)^Tag: .*$", f"Tag: {tag}", wheel.read_text()))
        contents.add_tree(info, info.name)
        return info.name


def addition(
    part: str, summary: str, contents: Contents, out: Path, *, terms: str, licenses: dict[str, Path]
) -> Path:
    """A wheel ``halfwink-PART`` that adds files to the package of the same version."""
    name, number = f"halfwink_{part}", version()
    info = f"{name}-{number}.dist-info"
    tag = f"py3-none-{platform(contents)}"
    kept = "".join(f"License-File: {file}\n" for file in licenses)
    metadata = (
        f"Metadata-Version: 2.4\nName: halfwink-{part}\nVersion: {number}\nSummary: {summary}\n"
        f"License-Expression: {terms}\n{kept}Requires-Python: >=3.11\n"
        f"Requires-Dist: halfwink=={number}\n"
    )
    pure = "true" if tag.endswith("-any") else "false"
    wheel = f"Wheel-Version: 1.0\nGenerator: halfwink\nRoot-Is-Purelib: {pure}\nTag: {tag}\n"
    contents.add(f"{info}/METADATA", metadata.encode())
    contents.add(f"{info}/WHEEL", wheel.encode())
    for file, path in licenses.items():
        contents.add(f"{info}/licenses/{file}", path.read_bytes())
    return contents.write(out / f"{name}-{number}-{tag}.whl", info)


def platform(contents: Contents) -> str:
    """The tag of what is in a wheel: `any`, or the oldest glibc that it runs on."""
    binaries = [content for content, _ in contents.files.values() if content[:4] == b"\x7fELF"]
    if not binaries:
        return "any"
    # PEP 600. Symbols of another library would only make it newer than it need be.
    needed = {int(minor) for b in binaries for minor in re.findall(rb"GLIBC_2\.(\d+)", b)}
    return f"manylinux_2_{max(needed | {17})}_{machine(contents)}"


def machine(contents: Contents) -> str:
    """Returns the machine that the binaries of a wheel run on."""
    binaries = [content for content, _ in contents.files.values() if content[:4] == b"\x7fELF"]
    (found,) = set(map(elf_machine, binaries))
    return found


def elf_machine(binary: bytes) -> str:
    """Returns the machine that a program or library runs on."""
    return MACHINES[int.from_bytes(binary[18:20], "little")]


def workloads(out: Path) -> Path:
    """All recordings that the base wheel leaves out."""
    contents = Contents()
    for name in elsewhere():
        contents.add_tree(ROOT / f"workloads/{name}.hwt", f"{DATA}/workloads/{name}.hwt")
    more = len(contents.files)
    # Programs that `halfwink calibrate host` times, with a recording of each.
    contents.add_tree(ROOT / "workloads/host", f"{DATA}/workloads/host")
    return addition(
        "workloads",
        f"{more} more recorded workloads for halfwink",
        contents,
        out,
        terms="MIT OR Apache-2.0",
        licenses={name: ROOT / name for name in LICENSES},
    )


def capture(out: Path) -> Path:
    """The recorder as sources: QEMU's plugin is built against the QEMU that is there."""
    contents = Contents()
    contents.add_tree(ROOT / "capture", f"{DATA}/capture")
    contents.add_tree(ROOT / "workloads/programs", f"{DATA}/workloads/programs")
    return addition(
        "capture",
        "The recorder of `halfwink capture`: sources of a QEMU plugin and its guest",
        contents,
        out,
        terms="GPL-2.0-or-later AND (MIT OR Apache-2.0)",
        licenses={"LICENSE-GPL": ROOT / "capture/LICENSE"}
        | {name: ROOT / name for name in LICENSES},
    )


def live(out: Path, built: Path) -> Path:
    """Programs, their manual pages, preload libraries and native module of `halfwink live`, as
    cargo built them."""
    contents = Contents()
    module = stripped((built / "lib_live.so").read_bytes())
    contents.add("halfwink/_live.abi3.so", module, runs=True)
    for name in LIBRARIES:
        contents.add(f"halfwink/_native/{name}", stripped((built / name).read_bytes()), runs=True)
    scripts = f"halfwink_live-{version()}.data/scripts"
    for name in PROGRAMS:
        contents.add(f"{scripts}/{name}", stripped((built / name).read_bytes()), runs=True)
    info = f"halfwink_live-{version()}.dist-info"
    add_pages(contents, info, *PROGRAMS)
    add_bill(contents, info, "halfwink-live", LIVE_CRATES)
    return addition(
        "live",
        "Programs, preload libraries and native module of `halfwink live`",
        contents,
        out,
        terms="MIT OR Apache-2.0",
        licenses={name: ROOT / name for name in LICENSES},
    )


def sizes(folder: Path) -> list[tuple[str, float]]:
    """Files in a folder and their megabytes."""
    return [(path.name, path.stat().st_size / 1e6) for path in sorted(folder.iterdir())]


def fresh(folder: Path) -> Path:
    """The folder, empty."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
