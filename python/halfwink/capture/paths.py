"""Paths that captures use."""

from __future__ import annotations

import os
from pathlib import Path

from halfwink import installed

from .errors import MissingRequirementError


def cache() -> Path:
    """Returns the folder in which guests are kept between captures."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "halfwink" / "capture"


def make_cache() -> None:
    """Creates the cache folder, for the user who asked even if root works for them."""
    folder = cache()
    if not folder.is_dir():
        folder.mkdir(parents=True)
        give_to_user(folder.parent)
        give_to_user(folder)


def give_to_user(folder: Path) -> None:
    """Under `sudo`: hands a folder in the cache to the user who typed it."""
    user, group = os.environ.get("SUDO_UID"), os.environ.get("SUDO_GID")
    if os.geteuid() == 0 and user is not None and group is not None:
        for path in (folder, *folder.iterdir()):
            os.chown(path, int(user), int(group), follow_symlinks=False)


def sources() -> Path:
    """The `capture/` folder of the source tree: recorder, load generator, guest scripts."""
    named = os.environ.get("HALFWINK_CAPTURE_SOURCES")
    folder = Path(named) if named else (installed.clone() or installed.data() or Path()) / "capture"
    if not (folder / "Cargo.toml").is_file():
        raise MissingRequirementError(
            f"the recorder's sources are not at {folder}; run: {installed.fix('capture')}; or set"
            " HALFWINK_CAPTURE_SOURCES to a clone's capture folder"
        )
    return folder


def build() -> Path:
    """Returns the folder in which recorder and load generator are built: beside their sources in a
    clone.
    """
    named = os.environ.get("CARGO_TARGET_DIR")
    beside = sources() / "target"
    return Path(named) if named else beside if installed.clone() else cache() / "target"


def programs() -> Path:
    """Sources of the programs that the guest compiles: `workloads/programs`, beside `capture/`."""
    folder = sources().parent / "workloads" / "programs"
    if not folder.is_dir():
        raise MissingRequirementError(f"the programs to compile are not at {folder}")
    return folder
