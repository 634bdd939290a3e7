"""Where things are."""

from __future__ import annotations

import os
from pathlib import Path

from .errors import MissingRequirementError


def cache() -> Path:
    """Where guests are kept between captures."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "halfwink" / "capture"


def sources() -> Path:
    """The `capture/` folder of the source tree: recorder, load generator, guest scripts."""
    named = os.environ.get("HALFWINK_CAPTURE_SOURCES")
    folder = Path(named) if named else Path(__file__).resolve().parents[3] / "capture"
    if not (folder / "Cargo.toml").is_file():
        raise MissingRequirementError(
            f"the recorder's sources are not at {folder}; run from a clone, or set"
            " HALFWINK_CAPTURE_SOURCES to its capture folder"
        )
    return folder
