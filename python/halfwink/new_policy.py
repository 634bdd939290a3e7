"""Writes a folder from which a user builds a policy of their own, as a WebAssembly module."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from halfwink.errors import HalfwinkError

TEMPLATES = Path(__file__).parent / "templates"
NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
LONGEST = 40


def families() -> list[str]:
    """Returns the families whose policies can be modules."""
    return sorted(folder.name for folder in TEMPLATES.iterdir() if folder.is_dir())


def new_policy(name: str, family: str, folder: Path | None = None) -> Path:
    """Writes sources, a test, a Makefile and a README into a new folder, and returns it.

    Args:
        name: name of the policy and of the folder, in small letters, digits and hyphens.
        family: see :func:`families`.
        folder: parent of the new folder; the working folder if none is given.

    Raises:
        HalfwinkError: the name or the family is wrong, or the folder is there already.
    """
    if not NAME.fullmatch(name) or len(name) > LONGEST:
        raise HalfwinkError(
            f"policy `{name}`: expected up to {LONGEST} small letters, digits and hyphens, "
            "as my-gate"
        )
    if family not in families():
        raise HalfwinkError(f"family `{family}`: expected {' or '.join(families())}")
    made = (folder or Path()) / name
    replaced = {"@NAME@": name, "@CRATE@": name.replace("-", "_")}
    try:
        made.mkdir()
        for source in sorted(p for p in (TEMPLATES / family).rglob("*") if p.is_file()):
            text = source.read_text()
            for placeholder, value in replaced.items():
                text = text.replace(placeholder, value)
            target = made / source.relative_to(TEMPLATES / family)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
    except FileExistsError:
        raise HalfwinkError(f"{made}: is there already, expected a new folder") from None
    except OSError as error:
        shutil.rmtree(made, ignore_errors=True)
        raise HalfwinkError(f"{made}: {error.strerror}") from None
    return made
