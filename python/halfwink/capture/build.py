"""Builds the recorders (QEMU plugins) and the load generator, by cargo."""

from __future__ import annotations

from collections.abc import Callable
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


def recorder(say: Callable[[str], None]) -> Path:
    """Builds the plugin of QEMU's user mode if it is not up to date, and returns where it is."""
    plugin = paths.build() / "release" / "libhalfwink_record_plugin.so"
    if not plugin.exists():
        say("building the recorder (once, about a minute)")
    host.run([*_common(), "-p", "halfwink-record-plugin"])
    return plugin


def _common() -> list[str]:
    manifest = paths.sources() / "Cargo.toml"
    return [*_COMMON, "--manifest-path", str(manifest), "--target-dir", str(paths.build())]


def tools() -> Tools:
    """Builds what is not up to date, and returns where it is."""
    target, common = paths.build(), _common()
    host.run([*common, "-p", "halfwink-capture-plugin"])
    # The load generator runs in the guest, which need not have the host's libraries.
    static = {"RUSTFLAGS": "-C target-feature=+crt-static"}
    host.run([*common, "-p", "halfwink-load", "--target", _TARGET], env=static)
    return Tools(
        plugin=target / "release" / "libhalfwink_capture_plugin.so",
        load=target / _TARGET / "release" / "halfwink-load",
    )
