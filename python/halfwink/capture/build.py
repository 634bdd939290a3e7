"""Builds the recorder (a QEMU plugin) and the load generator, by cargo."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from . import host, paths
from .errors import MissingRequirementError

_TARGET = "x86_64-unknown-linux-gnu"
_COMMON = ["cargo", "build", "--quiet", "--release"]


@dataclass(frozen=True)
class Tools:
    """The built programs."""

    plugin: Path
    load: Path


def tools() -> Tools:
    """Builds what is not up to date, and returns where it is."""
    sources = paths.sources()
    target = Path(os.environ.get("CARGO_TARGET_DIR") or sources / "target")
    common = [*_COMMON, "--manifest-path", str(sources / "Cargo.toml"), "--target-dir", str(target)]
    _cargo([*common, "-p", "halfwink-capture-plugin"], target)
    # The load generator runs in the guest, which need not have the host's libraries.
    static = {"RUSTFLAGS": "-C target-feature=+crt-static"}
    _cargo([*common, "-p", "halfwink-load", "--target", _TARGET], target, env=static)
    return Tools(
        plugin=target / "release" / "libhalfwink_capture_plugin.so",
        load=target / _TARGET / "release" / "halfwink-load",
    )


def _cargo(command: list[str], target: Path, *, env: dict[str, str] | None = None) -> None:
    """Runs cargo, and once more if it fails.

    With many builds at a time cargo's first question to rustc can come back garbled, and cargo
    remembers the failure in its target folder.
    """
    try:
        host.run(command, env=env)
    except MissingRequirementError:
        (target / ".rustc_info.json").unlink(missing_ok=True)
        host.run(command, env=env)
