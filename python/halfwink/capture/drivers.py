"""Kernel modules of a guest, in the order in which they can be loaded."""

from __future__ import annotations

import lzma
import re
from collections.abc import Iterable
from pathlib import Path


def driver_name(path: Path) -> str:
    """The name of a kernel module, as other modules know it."""
    return path.name.removesuffix(".xz").removesuffix(".ko").replace("-", "_")


def driver_bytes(path: Path) -> bytes:
    """A kernel module as it is loaded: newer kernels' are compressed in their packages."""
    packed = path.read_bytes()
    return lzma.decompress(packed) if path.suffix == ".xz" else packed


def in_order(wanted: Iterable[str], drivers: dict[str, Path]) -> list[Path]:
    """Kernel modules behind those that they depend on; what is built in is left out."""
    found: dict[str, Path] = {}

    def add(name: str) -> None:
        if name not in found and name in drivers:
            listed = re.search(rb"\0depends=([^\0]*)\0", driver_bytes(drivers[name]))
            for other in (listed.group(1).decode() if listed else "").split(","):
                add(other.replace("-", "_"))
            found[name] = drivers[name]

    for name in wanted:
        add(name.replace("-", "_"))
    return list(found.values())
