"""Claims of the five works: loads `targets/claims/*.toml` and refuses what is wrong in them."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from halfwink.errors import FileError

#: Kinds of what a claim says: it helps at all, one before another, within the stated band, the same
#: program or setting leads, a knee or an optimum lies there.
KINDS = ("sign", "order", "size", "who", "shape")
#: In a null: the value without any effect.
UNCHANGED = "unchanged"
SCHEMA = 1
CLAIM_KEYS = ("id", "claim", "source", "figure", "null", *KINDS)
Target = Mapping[str, Any]


class ClaimError(FileError):
    """A file of claims is wrong."""


@dataclass(frozen=True)
class Part:
    """A comparison that carries a kind of a claim.

    Attributes:
        how: ``alone`` (one target as published), ``rank`` (each below the next), ``most`` or
            ``least`` (the first against all others).
        ids: targets in the order of the comparison.
    """

    how: str
    ids: tuple[str, ...]


@dataclass(frozen=True)
class Null:
    """Values of a model without the mechanism.

    Attributes:
        text: the model in words, as the end of a sentence.
        values: a value, ``unchanged`` or the id of a fitted target for each target.
    """

    text: str
    values: dict[str, float | str]


@dataclass(frozen=True)
class Claim:
    """A headline claim of a work.

    Attributes:
        id: the work and a name, such as ``mogul/netperf-gains``.
        text: the claim in plain words.
        source: abstract, table, figure or section.
        figure: the target whose printed value stands beside ours.
        kinds: the comparisons that carry the claim, by kind.
        null: the model without the mechanism, if the claim names one.
    """

    id: str
    text: str
    source: str
    figure: str
    kinds: dict[str, tuple[Part, ...]]
    null: Null | None

    @property
    def work(self) -> str:
        """The name of the work."""
        return self.id.split("/")[0]

    @property
    def ids(self) -> list[str]:
        """Targets that carry the claim, each once."""
        found = [id for parts in self.kinds.values() for part in parts for id in part.ids]
        return list(dict.fromkeys(found))

    @property
    def read(self) -> list[str]:
        """Targets whose values the verdict and its sentence read."""
        fitted = [v for v in self.null.values.values() if isinstance(v, str)] if self.null else []
        return list(dict.fromkeys([*self.ids, self.figure, *(v for v in fitted if v != UNCHANGED)]))


def neutral(target: Target) -> float:
    """Returns the value without any effect."""
    return float(target["neutral"])


def is_number(target: Target) -> bool:
    """Returns whether a target publishes a number."""
    published = target["published"]
    return isinstance(published, int | float) and not isinstance(published, bool)


def is_given(target: Target) -> bool:
    """Returns whether a target repeats what was fitted, taken from print or calculated from it."""
    compute = target["compute"] or {}
    return target["class"] in ("arithmetic", "input") or bool(compute.get("calibrated"))


def load(folder: Path, targets: Sequence[Target]) -> list[Claim]:
    """Loads the claims of all works, in the order of their files.

    Raises:
        ClaimError: the first thing that is wrong.
    """
    by_id = {target["id"]: target for target in targets}
    works = list(dict.fromkeys(id.split("/")[0] for id in by_id))
    found: list[Claim] = []
    for path in sorted(folder.glob("*.toml"), key=lambda p: _place(p.stem, works)):
        found += _File(path, by_id, works).claims()
    return found


def _place(work: str, works: Sequence[str]) -> tuple[int, str]:
    return (works.index(work) if work in works else len(works), work)


class _File:
    """A file of claims and the targets that it may name."""

    def __init__(self, path: Path, targets: Mapping[str, Target], works: Sequence[str]) -> None:
        self.path, self.targets, self.works = path, targets, works

    def claims(self) -> list[Claim]:
        """Returns the claims of the file."""
        try:
            file = tomllib.loads(self.path.read_text())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ClaimError(self.path, "the file", f"no TOML ({error})", "TOML") from error
        self._keys("the file", file, ("schema", "work", "claim"))
        if file.get("schema") != SCHEMA:
            raise self._error("schema", repr(file.get("schema")), str(SCHEMA))
        work = self._text("the file", file, "work")
        if work not in self.works or work != self.path.stem:
            raise self._error("work", repr(work), f"the file's name, of {', '.join(self.works)}")
        entries = self._list("claim", file.get("claim"), dict)
        found: list[Claim] = []
        for number, entry in enumerate(entries, 1):
            claim = self._claim(work, number, entry)
            if any(claim.id == other.id for other in found):
                raise self._error(f"claim `{claim.id}`", "the id twice", "each id once")
            found.append(claim)
        return found

    def _claim(self, work: str, number: int, entry: dict[str, Any]) -> Claim:
        name = self._text(f"claim {number}", entry, "id")
        where = f"claim `{work}/{name}`"
        self._keys(where, entry, CLAIM_KEYS)
        text, source = self._text(where, entry, "claim"), self._text(where, entry, "source")
        figure = self._id(f"{where}, figure", work, self._text(where, entry, "figure"))
        kinds = {
            kind: self._parts(f"{where}, {kind}", work, kind, entry[kind])
            for kind in KINDS
            if kind in entry
        }
        if not kinds:
            raise self._error(where, "no kind", f"one or more of {', '.join(KINDS)}")
        claim = Claim(f"{work}/{name}", text, source, figure, kinds, None)
        if "null" not in entry:
            return claim
        null = self._null(f"{where}, null", claim, entry["null"])
        return Claim(claim.id, text, source, figure, kinds, null)

    def _parts(self, where: str, work: str, kind: str, listed: object) -> tuple[Part, ...]:
        parts = [self._part(where, work, kind, text) for text in self._list(where, listed, str)]
        for part in parts:
            if parts.count(part) > 1:
                raise self._error(where, f"`{' < '.join(part.ids)}` twice", "each target once")
        return tuple(parts)

    def _part(self, where: str, work: str, kind: str, text: str) -> Part:
        if " > " in text or (kind == "who" and " < " in text):
            if kind != "who":
                raise self._error(where, f"`{text}`", "a target, or `A < B < C` in an order")
            sign = ">" if " > " in text else "<"
            first, _, others = text.partition(f" {sign} ")
            names = [first, *others.split(", ")]
            part = self._compared(where, work, "most" if sign == ">" else "least", names)
        elif " < " in text:
            if kind != "order":
                raise self._error(where, f"`{text}`", "a target")
            part = self._compared(where, work, "rank", text.split(" < "))
        else:
            part = Part("alone", (self._id(where, work, text),))
            self._check_alone(where, kind, self.targets[part.ids[0]])
        return part

    def _check_alone(self, where: str, kind: str, target: Target) -> None:
        """Refuses a target that cannot carry its kind alone."""
        said, published = f"`{target['id']}`", target["published"]
        if kind in ("order", "who") and is_number(target):
            raise self._error(where, f"the number {said} alone", "a comparison, or a claim or text")
        if kind != "sign" or isinstance(published, bool):
            return
        if not is_number(target):
            raise self._error(where, f"the text {said}", "a number or a claim")
        if published == neutral(target):
            raise self._error(where, f"{said}, printed as no effect", "a value with a sign")

    def _compared(self, where: str, work: str, how: str, names: Sequence[str]) -> Part:
        """Returns a comparison that holds in print, of different targets with one unit."""
        ids = tuple(self._id(where, work, name) for name in names)
        shown = ", ".join(ids)
        if len(set(ids)) < len(ids):
            raise self._error(where, f"a target twice in {shown}", "each target once")
        targets = [self.targets[id] for id in ids]
        words = [t["id"] for t in targets if not is_number(t)]
        if words:
            raise self._error(where, f"`{words[0]}`, which is no number", "numbers to compare")
        units = list(dict.fromkeys(t["unit"] for t in targets))
        if len(units) > 1:
            raise self._error(where, f"units {', '.join(units)} in {shown}", "one unit")
        if not compares(how, [float(t["published"]) for t in targets]):
            raise self._error(where, f"{shown}, which print orders otherwise", "what is printed")
        return Part(how, ids)

    def _null(self, where: str, claim: Claim, entry: object) -> Null:
        if not isinstance(entry, dict):
            raise self._error(where, repr(entry), "a table with text and values")
        table = cast("dict[str, Any]", entry)
        self._keys(where, table, ("text", "values"))
        text, listed = self._text(where, table, "text"), table.get("values")
        if not isinstance(listed, dict) or not listed:
            raise self._error(f"{where}, values", repr(listed), "a value for a target")
        values: dict[str, float | str] = {}
        for name, value in cast("dict[str, object]", listed).items():
            id = self._id(f"{where}, values", claim.work, name)
            if id not in claim.ids:
                raise self._error(f"{where}, values", f"`{id}`", "a target that carries the claim")
            values[id] = self._null_value(f"{where}, {name}", claim.work, value)
        return Null(text, values)

    def _null_value(self, where: str, work: str, value: object) -> float | str:
        if isinstance(value, bool | int | float):
            return float(value)
        if not isinstance(value, str):
            raise self._error(where, repr(value), f"a number, `{UNCHANGED}` or a target")
        if value == UNCHANGED:
            return value
        id = self._id(where, work, value)
        if not is_given(self.targets[id]):
            expected = "a target that is calibrated, input or arithmetic"
            raise self._error(where, f"`{id}`, a prediction", expected)
        return id

    def _id(self, where: str, work: str, name: str) -> str:
        id = f"{work}/{name}"
        if id not in self.targets:
            near = get_close_matches(id, self.targets, 1)
            hint = f"a target such as `{near[0]}`" if near else "a target of this work"
            raise self._error(where, f"`{id}`", hint)
        return id

    def _list(self, where: str, listed: object, kind: type) -> list[Any]:
        if not isinstance(listed, list) or not listed:
            raise self._error(where, repr(listed), "a list with entries")
        entries = cast("list[object]", listed)
        wrong = [entry for entry in entries if not isinstance(entry, kind)]
        if wrong:
            raise self._error(where, repr(wrong[0]), "a table" if kind is dict else "a text")
        return entries

    def _text(self, where: str, table: Mapping[str, Any], key: str) -> str:
        value = table.get(key)
        if not isinstance(value, str) or not value.strip():
            raise self._error(f"{where}, {key}", repr(value), "a text")
        return value

    def _keys(self, where: str, table: Mapping[str, Any], known: Sequence[str]) -> None:
        for key in table:
            if key not in known:
                raise self._error(where, f"the key `{key}`", f"one of {', '.join(known)}")

    def _error(self, where: str, found: str, expected: str) -> ClaimError:
        return ClaimError(self.path, where, found, expected)


_COMPARES: dict[str, Callable[[float, float], bool]] = {
    "most": lambda first, other: first > other,
    "least": lambda first, other: first < other,
}


def compares(how: str, values: Sequence[float]) -> bool:
    """Returns whether values are ranked as a part says, without ties."""
    if how == "rank":
        return all(a < b for a, b in pairwise(values))
    return all(_COMPARES[how](values[0], other) for other in values[1:])
