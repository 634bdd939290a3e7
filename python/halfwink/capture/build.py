"""Builds the recorder (a QEMU plugin) and the load generator, by cargo."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from . import host, paths

_TARGET = "x86_64-unknown-linux-gnu"
_COMMON = ["cargo", "build", "--quiet", "--release"]


@dataclass(frozen=True)
class Tools:
    """Paths of the built programs."""

    plugin: Path
    load: Path


def tools() -> Tools:
    """Builds what is not up to date, and returns where it is."""
    sources = paths.sources()
    target = paths.build()
    common = [*_COMMON, "--manifest-path", str(sources / "Cargo.toml"), "--target-dir", str(target)]
    host.run([*common, "-p", "halfwink-capture-plugin"])
    # The load generator runs in the guest, which need not have the host's libraries.
    static = {"RUSTFLAGS": "-C target-feature=+crt-static"}
    host.run([*common, "-p", "halfwink-load", "--target", _TARGET], env=static)
    return Tools(
        plugin=target / "release" / "libhalfwink_capture_plugin.so",
        load=target / _TARGET / "release" / "halfwink-load",
    )
