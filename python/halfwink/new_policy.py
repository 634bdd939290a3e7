"""Writes what a policy of the user's own begins with: a folder from which a WebAssembly module is
built, or a file in Python."""

from __future__ import annotations

import re
import secrets
import shutil
import tomllib
from pathlib import Path

from halfwink.errors import HalfwinkError
from halfwink.files import naming, write_whole

TEMPLATES = Path(__file__).parent / "templates"
#: Files of every folder, beside those of its family.
COMMON = "common"
#: Facts of a family that the common files quote.
FACTS = "family.toml"
#: Policies in Python, a file for each family, and the name of the class in each.
PYTHON, CLASS = "python", "OwnPolicy"
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
    _check(name, family)
    made = (folder or Path()) / name
    if made.exists():
        raise HalfwinkError(f"{made}: is there already, expected a new folder")
    # Its name is the last thing that it gets: a command that is killed leaves no half of it.
    partial = made.with_name(f".{name}.{secrets.token_hex(8)}")
    replaced = {"name": name, "crate": name.replace("-", "_")} | facts(family)
    sources = {
        source.relative_to(TEMPLATES / part): source
        for part in (COMMON, family)
        for source in (TEMPLATES / part).rglob("*")
        if source.is_file() and source.name != FACTS
    }
    try:
        partial.mkdir()
        for place, source in sorted(sources.items()):
            text = source.read_text()
            for placeholder, value in replaced.items():
                text = text.replace(f"@{placeholder.upper()}@", value)
            target = partial / place
            with naming(made / place):
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text)
        partial.rename(made)
    except BaseException as error:
        shutil.rmtree(partial, ignore_errors=True)
        if not isinstance(error, OSError):
            raise
        is_named = error.filename not in (None, str(partial))
        where = error.filename if is_named else made
        raise HalfwinkError(f"{where}: {error.strerror}") from None
    return made


def new_python_policy(name: str, family: str, folder: Path | None = None) -> Path:
    """Writes a new file with a class, and returns it: ``my-gate`` is ``MyGate`` in ``my_gate.py``.

    Raises:
        HalfwinkError: the name or the family is wrong, or the file is there already.
    """
    _check(name, family)
    made = (folder or Path()) / f"{name.replace('-', '_')}.py"
    text = (TEMPLATES / PYTHON / f"{family}.py").read_text()
    if made.exists():
        raise HalfwinkError(f"{made}: is there already, expected a new file")
    try:
        write_whole(made, text.replace(CLASS, "".join(map(str.capitalize, name.split("-")))))
    except OSError as error:
        raise HalfwinkError(f"{made}: {error.strerror}") from None
    return made


def _check(name: str, family: str) -> None:
    if not NAME.fullmatch(name) or len(name) > LONGEST:
        raise HalfwinkError(
            f"policy `{name}`: expected up to {LONGEST} small letters, digits and hyphens, "
            "a letter first, no hyphen last or beside another, as my-gate"
        )
    if family not in families():
        *others, last = families()
        raise HalfwinkError(f"family `{family}`: expected {', '.join(others)} or {last}")
