"""Public names of packages, imported when they are first used."""

from __future__ import annotations

from importlib import import_module
from types import FunctionType

#: As `typing` has it, which takes longer to import than all else that is here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

#: Packages whose public names belong to one subject.
SUBJECTS = ("advice", "calibrate", "live", "models", "policies", "runs", "targets")


def lazily(
    package: str, homes: Mapping[str, str], spelled: Mapping[str, str] | None = None
) -> Callable[[str], Any]:
    """Returns the `__getattr__` of a package whose names are imported when they are first used.
    Functions look at the types of their arguments (`halfwink.checked`).

    Args:
        package: name of the package.
        homes: module of each public name, below `halfwink`.
        spelled: names that their modules spell otherwise.
    """
    spelled = spelled or {}
    handed: dict[FunctionType, Any] = {}

    def found(name: str) -> Any:
        home = homes.get(name)
        if home is not None:
            value = getattr(import_module(f"halfwink.{home}"), spelled.get(name, name))
            if not isinstance(value, FunctionType):
                return value
            from halfwink.checked import checked

            if value not in handed:
                handed[value] = checked(value, name)
                # Pickled by where it is found, and one object each time.
                handed[value].__module__, handed[value].__qualname__ = package, name
            return handed[value]
        error = f"module '{package}' has no attribute '{name}'"
        raise AttributeError(error + _elsewhere(package, name), name=name)

    return found


def _elsewhere(package: str, name: str) -> str:
    """Returns the other package in which a name is public, as the end of a sentence."""
    from importlib.util import find_spec

    # Python asks for `__path__` and others, and for modules that it imports next.
    if package != "halfwink" or name.startswith("_") or find_spec(f"halfwink.{name}"):
        return ""
    for subject in SUBJECTS:
        if name in import_module(f"halfwink.{subject}").__all__:
            return f": expected halfwink.{subject}.{name}"
    return ""
