"""Writes a folder from which a user builds a policy of their own, as a WebAssembly module."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

from halfwink.errors import HalfwinkError

TEMPLATES = Path(__file__).parent / "templates"
#: Files of every folder, beside those of its family.
COMMON = "common"
#: Facts of a family that the common files quote.
FACTS = "family.toml"
NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
LONGEST = 40


def families() -> list[str]:
    """Returns the families whose policies can be modules."""
    return sorted(folder.parent.name for folder in TEMPLATES.glob(f"*/{FACTS}"))


def facts(family: str) -> dict[str, str]:
    """Returns what a family decides, what its first policy does, and how that is compared."""
    return tomllib.loads((TEMPLATES / family / FACTS).read_text())


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
        *others, last = families()
        raise HalfwinkError(f"family `{family}`: expected {', '.join(others)} or {last}")
    made = (folder or Path()) / name
    replaced = {"name": name, "crate": name.replace("-", "_")} | facts(family)
    sources = {
        source.relative_to(TEMPLATES / part): source
        for part in (COMMON, family)
        for source in (TEMPLATES / part).rglob("*")
        if source.is_file() and source.name != FACTS
    }
    try:
        made.mkdir()
        for place, source in sorted(sources.items()):
            text = source.read_text()
            for placeholder, value in replaced.items():
                text = text.replace(f"@{placeholder.upper()}@", value)
            target = made / place
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
    except FileExistsError:
        raise HalfwinkError(f"{made}: is there already, expected a new folder") from None
    except OSError as error:
        shutil.rmtree(made, ignore_errors=True)
        raise HalfwinkError(f"{made}: {error.strerror}") from None
    return made
