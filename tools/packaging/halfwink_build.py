"""The build backend: maturin's, and data in the wheel."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import maturin
from maturin import (
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)
from wheel_files import complete, editable

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]


def build_wheel(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """A wheel that needs no clone; its name."""
    with tempfile.TemporaryDirectory() as folder:
        name = maturin.build_wheel(folder, config_settings, metadata_directory)
        return complete(Path(folder) / name, Path(wheel_directory)).name


def build_editable(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Builds a wheel that points to this clone and returns its name.

    With the setting ``prebuilt`` nothing is compiled: ``make setup`` has put the native module
    where Python looks for it.
    """
    if not (config_settings or {}).get("prebuilt"):
        return maturin.build_editable(wheel_directory, config_settings, metadata_directory)
    return editable(Path(wheel_directory)).name
