"""CPUs of another server, with their caches and packages: from XML of lstopo or a copy of sysfs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from halfwink.errors import HalfwinkError
from halfwink.inputs import read_text

Cpu = dict[str, Any]

#: Folder of CPUs in a tree that was copied whole, from its root or from `/sys`.
FOLDERS = ("", "devices/system/cpu", "sys/devices/system/cpu")
#: Most bytes of an XML file: the largest machines have a few hundred kilobytes.
MOST_XML = 16 << 20
#: Most CPUs, as of a list of the kernel's.
MOST_CPUS = 1 << 16
CACHE = re.compile(r"L([1-9])Cache$")
SIZES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
EXPECTED = "expected XML of lstopo (`lstopo server.xml`), or a copy of /sys/devices/system/cpu"


def server_cpus(path: Path) -> list[Cpu]:
    """Returns the CPUs of a server by number: ``cpu``, ``package``, ``cache`` (the lowest CPU of
    its package with which it shares its last-level cache), ``level`` and ``cache_bytes`` of that.

    Raises:
        HalfwinkError: the file or folder is none of a server.
    """
    found = list(_tree(path)) if path.is_dir() else list(_xml(path))
    if not found or len(found) > MOST_CPUS:
        raise HalfwinkError(f"{path}: found {len(found)} CPUs; {EXPECTED}")
    first: dict[Any, int] = {}
    found.sort(key=lambda cpu: cpu["cpu"])
    for cpu in found:
        # Where no cache is known, the CPUs of a package count as sharing one.
        shared = (cpu["package"], cpu["cache"])
        cpu["cache"] = first.setdefault(shared, cpu["cpu"])
    return found


def of_server(measured: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Returns a measurement with the CPUs of another server in place of this machine's. What one
    CPU does, and lines within a cache, take the times of this machine; between caches they take
    those of the described one.

    Raises:
        HalfwinkError: the file or folder is none of a server.
    """
    inside = [trip for trip in measured["trips"] if trip["same_cache"]]
    return {**measured, "machine": {"cpus": server_cpus(path)}, "trips": inside}


def _xml(path: Path) -> Iterator[Cpu]:
    try:
        root = ElementTree.fromstring(read_text(path, MOST_XML))
    except ElementTree.ParseError as error:
        raise HalfwinkError(f"{path}: {error}; {EXPECTED}") from error
    if root.tag != "topology":
        raise HalfwinkError(f"{path}: found <{root.tag[:40]}>; {EXPECTED}")
    # Not by recursion, since nothing bounds how deep a file nests.
    todo: list[tuple[ElementTree.Element, int, Any, int | None, int | None]] = [
        (root, 0, None, None, None)
    ]
    while todo:
        at, package, cache, level, size = todo.pop()
        kind, number = at.get("type", ""), at.get("os_index", "")
        if kind in ("Package", "Socket") and number.isdecimal():
            package, cache = int(number), None
        # hwloc 1 writes `Cache` and its depth apart.
        named = CACHE.match(f"L{at.get('depth')}Cache" if kind == "Cache" else kind)
        if named is not None and cache is None:
            cache, level = id(at), int(named[1])
            size = int(at.get("cache_size", "")) if at.get("cache_size", "").isdecimal() else None
        if kind == "PU" and number.isdecimal():
            yield _cpu(int(number), package, cache, level, size)
        todo += [(inner, package, cache, level, size) for inner in at]


def _tree(path: Path) -> Iterator[Cpu]:
    folders = (path / folder for folder in FOLDERS)
    root = next((folder for folder in folders if (folder / "cpu0").is_dir()), None)
    if root is None:
        raise HalfwinkError(f"{path}: found no folder cpu0; {EXPECTED}")
    online = _text(root / "online")
    numbers = _listed(online) if online else None
    for entry in os.scandir(root):
        number = re.fullmatch(r"cpu(\d{1,5})", entry.name)
        if number is None or (numbers is not None and int(number[1]) not in numbers):
            continue
        folder = Path(entry.path)
        package = _text(folder / "topology/physical_package_id")
        last = max(_caches(folder / "cache"), key=lambda cache: cache[0], default=None)
        shared, level, size = (None, None, None) if last is None else (last[1], last[0], last[2])
        whose = int(package) if package.lstrip("-").isdecimal() else 0
        yield _cpu(int(number[1]), whose, shared, level, size)


def _caches(folder: Path) -> Iterator[tuple[int, Any, int | None]]:
    """Returns level, CPUs and bytes of the caches that hold data."""
    for index in sorted(folder.glob("index*")):
        level, shared = _text(index / "level"), _text(index / "shared_cpu_list")
        if level.isdecimal() and shared and _text(index / "type") != "Instruction":
            size = re.fullmatch(r"(\d{1,9})([KMG])", _text(index / "size"))
            yield int(level), shared, int(size[1]) * SIZES[size[2]] if size else None


def _cpu(number: int, package: int, cache: Any, level: int | None, size: int | None) -> Cpu:
    return {
        "cpu": number,
        "package": package,
        "cache": cache,
        "level": level,
        "cache_bytes": size,
    }


def _listed(text: str) -> set[int]:
    """Returns the numbers of a list as the kernel writes it: ``0-3,8``."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise HalfwinkError(f"online: found `{text[:60]}`, expected CPUs as 0-3,8")
        low, high = int(first), int(last or first)
        if high >= MOST_CPUS:
            raise HalfwinkError(f"online: found CPU {high}, expected fewer than {MOST_CPUS}")
        found |= set(range(low, high + 1))
    return found


def _text(path: Path) -> str:
    """Returns the line of a file of sysfs; nothing where it is not there."""
    try:
        with path.open("rb") as file:
            return file.read(4096).decode(errors="replace").strip() if path.is_file() else ""
    except OSError:
        return ""
