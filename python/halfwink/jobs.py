"""Jobs to run, by names."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby, islice
from typing import TYPE_CHECKING

from halfwink import _core
from halfwink.errors import HalfwinkError
from halfwink.library import library

if TYPE_CHECKING:
    from halfwink.policies.finding import Code, Technique
    from halfwink.policies.policy import AnyPolicy

#: Values to set, by path.
Settings = Mapping[str, object]
Pairs = tuple[tuple[str, str], ...]
#: The end of a technique that is a class of the caller's own, and of all policies of users.
CLASS = "()"
OWN = (".wasm", ".py", CLASS)
#: Jobs that are prepared at once.
AT_ONCE = 4096


def pairs(values: Settings | Iterable[tuple[str, object]] | None) -> Pairs:
    """Values to set as they are written on a command line; true, false and lists as in TOML.

    Raises:
        HalfwinkError: no mapping from paths to values.
    """
    try:
        items = dict(values or ()).items()
    except (TypeError, ValueError):
        raise HalfwinkError(f"{values!r}: expected a mapping, {{'path': value}}") from None
    return tuple((path, _written(value)) for path, value in items)


def _written(value: object) -> str:
    if isinstance(value, list | tuple):
        # Without blanks, which stand between the values in the column ``set``.
        return f"[{','.join(_in_list(each) for each in value)}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _in_list(value: object) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else _written(value)


def counted(values: Settings | None, **counts: object) -> dict[str, object]:
    """The options of jobs that these counts are; those that are None were not given.

    Raises:
        HalfwinkError: the values set name one of them, too, which would win.
    """
    given = {name: count for name, count in counts.items() if count is not None}
    for path, value in pairs(values):
        if path in given:
            twice = f"{path} {given[path]}, and {value} among the values set"
            raise HalfwinkError(f"given twice: {twice}; expected it once")
    return given


def names(given: str | Iterable[str] | None) -> list[str]:
    """Names as a list: a lone text is one name, not its letters."""
    if given is None:
        return []
    return [given] if isinstance(given, str) else list(given)


def is_own(name: str) -> bool:
    """Returns whether a technique's name, without parameters, is a policy of the user's own; it
    may have the digest of the content behind it."""
    return name.partition("@")[0].endswith(OWN)


def technique_list(given: Technique | Iterable[Technique] | None) -> list[str] | None:
    """Techniques as texts, one or several; None as it is. Classes of policies are found under their
    texts from then on.

    Raises:
        HalfwinkError: a value is neither a text nor a policy.
    """
    if given is None or isinstance(given, str):
        return None if given is None else [given]
    # What is needed for classes takes long to import, and most comparisons have none.
    listed = list(given) if isinstance(given, list | tuple) else None
    if listed is not None and all(isinstance(each, str) for each in listed):
        return [each for each in listed if isinstance(each, str)]
    from halfwink.policies.finding import texts

    return texts(given if listed is None else listed)


def technique_text(given: Technique) -> str:
    """A technique as text; see `technique_list`."""
    if isinstance(given, str):
        return given
    from halfwink.policies.finding import named

    return named(given)


def chosen(technique: str, **parameters: object) -> str:
    """A technique with those of these parameters that it has: ``hybrid:threshold=8``."""
    known = {
        p["name"] for t in _core.techniques() if t["name"] == technique for p in t["parameters"]
    }
    values = [f"{name}={value}" for name, value in parameters.items() if name in known]
    return f"{technique}:{','.join(values)}" if values else technique


@dataclass(frozen=True, slots=True)
class Job:
    """One technique on one workload on one machine of a world. It is small, and it pickles.

    Attributes:
        world: `halfwink list worlds`.
        workload: name such as ``nginx``, ``ipv4@evaluation``, ``count@30``.
        machine: name such as ``ev6-16``, ``westmere``, ``niccolini``.
        technique: name, with values for some of its parameters: ``tap:wake=last``.
        set: values of the machine, of techniques' parameters (``tap:wake``) or of options, that
            tell this job from its neighbours: they stand in the column ``set`` of results. A
            mapping will do.
        options: options of the world that all jobs beside it have too, as ``instructions``. A
            mapping will do.
        mutant: change that breaks the machines (`halfwink.targets.mutation`); none if None.
    """

    world: str
    workload: str
    machine: str
    technique: str
    set: Pairs = ()
    options: Pairs = ()
    mutant: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "set", pairs(self.set))
        object.__setattr__(self, "options", pairs(self.options))

    def __reduce__(self) -> tuple[object, ...]:
        """Pickles it with the classes of the caller's own that its technique names."""
        fields = (self.world, self.workload, self.machine, self.technique)
        whole = (*fields, self.set, self.options, self.mutant)
        if CLASS not in self.technique:
            return Job, whole
        from halfwink.policies.finding import given

        return _with_classes, (whole, given(self.technique))

    def prepare(self) -> _core.PreparedJob:
        """Finds what the job names; raises HalfwinkError in one line if it cannot be."""
        return library(self.mutant).prepare(
            self.world, self.workload, self.machine, self.technique, self.set, self.options
        )


def _with_classes(
    whole: tuple[str, str, str, str, Pairs, Pairs, str | None],
    classes: list[type[AnyPolicy] | Code],
) -> Job:
    """Returns a job, where the classes of its technique can be found from then on."""
    from halfwink.policies.finding import arrived

    arrived(classes)
    return Job(*whole)


@dataclass(frozen=True, slots=True)
class Planned:
    """Properties of a job before it runs.

    Attributes:
        key: key of everything that determines the result: equal jobs have equal keys.
        work: amount of work, in the world's unit.
        unit: unit of work, such as ``instructions`` or ``packets``.
        pace: key of shared runs: jobs with an equal one may share a run; None shares with none.
    """

    key: str
    work: int
    unit: str
    pace: str | None = None


def plan(jobs: Iterable[Job]) -> list[Planned]:
    """Finds what the jobs name, before any of them runs.

    Nothing that was opened for a job is kept: thousands of jobs need no more memory or file
    descriptors than one.

    Raises:
        HalfwinkError: the first name or value that cannot be, in one line.
    """
    found: list[Planned] = []
    # Jobs of one mutant go to the native module together; not all, so that memory stays small.
    for mutant, group in groupby(jobs, key=lambda job: job.mutant):
        told = ((j.world, j.workload, j.machine, j.technique, j.set, j.options) for j in group)
        while some := list(islice(told, AT_ONCE)):
            found.extend(
                Planned(key, work, sys.intern(unit), pace and sys.intern(pace))
                for key, work, unit, pace in library(mutant).plan(some)
            )
    return found
