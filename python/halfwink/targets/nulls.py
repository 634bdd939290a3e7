"""Nulls: the values of a model without the mechanism, for every predicted target.

`targets/nulls/WORK.toml` holds rules, each for many targets. The first rule that fits a target
gives its null; the values are computed from printed values that were given to the models.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

import polars as pl

from halfwink.errors import HalfwinkError
from halfwink.targets.claim_files import UNCHANGED, is_given, is_number, neutral

SCHEMA = 1
#: Classes whose values a model computes, and that are judged.
PREDICTED = ("exact", "quantitative", "shape")
#: Verdicts on values that are met.
MET = ("match", "holds")
Target = Mapping[str, Any]
#: Judges values of targets, whatever mutants change: `library().verdicts`.
Judge = Callable[[list[tuple[str, float | None]]], list[str]]


@dataclass(frozen=True)
class Null:
    """The value of a model without the mechanism for one target.

    Attributes:
        text: the model in words, as the end of a sentence.
        value: the value that the model gives; 1 and 0 for claims.
    """

    text: str
    value: float


@dataclass(frozen=True)
class _Rule:
    text: str
    patterns: tuple[re.Pattern[str], ...]
    value: bool | float | str


def is_prediction(target: Target) -> bool:
    """Returns whether a target is judged as a prediction: nothing gave its value to a model."""
    known = target["class"] in PREDICTED and target["compute"] is not None
    return known and not is_given(target) and not target["contradicted"]


def load(folder: Path, targets: Sequence[Target]) -> dict[str, Null]:
    """Loads the null of each predicted target, by its id.

    Raises:
        HalfwinkError: a file is wrong, a rule fits no target, or a target has no rule.
    """
    found: dict[str, Null] = {}
    for path in sorted(folder.glob("*.toml")):
        found |= _File(path, [t for t in targets if _work(t) == path.stem]).nulls()
    bare = [t["id"] for t in targets if is_prediction(t) and t["id"] not in found]
    if bare:
        raise HalfwinkError(
            f"{folder}: found no null for {bare[0]} ({len(bare)} targets), expected a rule for it"
        )
    return found


def judged(nulls: Mapping[str, Null], judge: Judge) -> dict[str, dict[str, Any]]:
    """Returns the text, the value and whether it is as published, for the null of each target."""
    verdicts = judge([(id, null.value) for id, null in nulls.items()])
    return {
        id: {"text": null.text, "value": null.value, "met": verdict in MET}
        for (id, null), verdict in zip(nulls.items(), verdicts, strict=True)
    }


def _work(target: Target) -> str:
    return str(target["id"]).partition("/")[0]


class _File:
    """A file of rules, and the targets of its work."""

    def __init__(self, path: Path, targets: Sequence[Target]) -> None:
        self.path, self.work = path, path.stem
        self.targets = {t["id"].partition("/")[2]: t for t in targets}

    def nulls(self) -> dict[str, Null]:
        """Returns the null of each predicted target that a rule of the file fits."""
        rules = self._rules()
        used: set[_Rule] = set()
        found: dict[str, Null] = {}
        for name, target in self.targets.items():
            if not is_prediction(target):
                continue
            for rule in rules:
                fits = next((m for p in rule.patterns if (m := p.fullmatch(name))), None)
                if fits is not None:
                    used.add(rule)
                    found[target["id"]] = Null(rule.text, self._value(rule, fits, target))
                    break
        idle = [rule.text for rule in rules if rule not in used]
        if idle:
            raise self._error(f"`{idle[0]}`", "no predicted target", "a rule that one needs")
        return found

    def _rules(self) -> list[_Rule]:
        file = tomllib.loads(self.path.read_text())
        if file.get("schema") != SCHEMA or set(file) != {"schema", "null"}:
            raise self._error("the file", ", ".join(file), f"schema = {SCHEMA} and [[null]]")
        return [self._rule(entry) for entry in file["null"]]

    def _rule(self, entry: Mapping[str, Any]) -> _Rule:
        keys = ("text", "targets", "value")
        if set(entry) != set(keys):
            raise self._error(f"`{entry.get('text')}`", ", ".join(entry), ", ".join(keys))
        value, listed = entry["value"], cast("list[str]", entry["targets"])
        if not isinstance(value, bool | int | float | str):
            raise self._error(f"`{entry['text']}`", repr(value), "a number, a claim or SQL")
        return _Rule(entry["text"], tuple(map(_pattern, listed)), value)

    def _value(self, rule: _Rule, fits: re.Match[str], target: Target) -> float:
        if rule.value == UNCHANGED:
            if target["unit"] == "claim":
                raise self._error(target["id"], f"`{UNCHANGED}` for a claim", "true or false")
            return neutral(target)
        if not isinstance(rule.value, str):
            return float(rule.value)
        sql = re.sub(r"\$(\d)", lambda m: fits[int(m[1])], rule.value)
        sql = re.sub(r"\[([^]]*)\]", lambda m: repr(self._given(target, m[1])), sql)
        try:
            return float(pl.select(pl.sql_expr(sql)).item())
        except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
            raise self._error(target["id"], f"`{sql}`", "SQL of one number") from error

    def _given(self, target: Target, name: str) -> float:
        """Returns the printed value of another target that was given to the models."""
        other = self.targets.get(name)
        if other is None:
            near = get_close_matches(name, self.targets, 1)
            hint = f"a target such as `{near[0]}`" if near else "a target of this work"
            raise self._error(target["id"], f"`{name}`", hint)
        if not is_given(other) or not is_number(other):
            expected = "a number that is calibrated, input or arithmetic"
            raise self._error(target["id"], f"`{name}`", expected)
        return float(other["published"])

    def _error(self, where: str, found: str, expected: str) -> HalfwinkError:
        return HalfwinkError(f"{self.path}: {where}: found {found}, expected {expected}")


def _pattern(text: str) -> re.Pattern[str]:
    """Returns a pattern whose groups are its `*` (any part of an id without a slash), `**` (any
    rest) and `{a,b}` (either)."""
    kinds = {"**": "(.*)", "*": "([^/]*)"}
    parts = re.split(r"(\*\*|\*|\{[^}]*\})", text)
    for n in range(1, len(parts), 2):
        listed = map(re.escape, parts[n].strip("{}").split(","))
        parts[n] = kinds.get(parts[n], f"({'|'.join(listed)})")
    return re.compile("".join(p if n % 2 else re.escape(p) for n, p in enumerate(parts)))
