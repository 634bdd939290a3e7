"""Arguments of public functions, held to the types that the functions declare.

`lazily` hands each public function out with this check around it. What a function declares is its
annotations; a value of another type is an error of the package, in one line, before anything runs.
A path is taken wherever a text is: names of workloads, machines and studies may be files.
"""

from __future__ import annotations

import ast
import functools
import inspect
import math
import os
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from pathlib import PurePath
from typing import Any, NamedTuple, ParamSpec, TypeVar

from halfwink.errors import HalfwinkError

P = ParamSpec("P")
R = TypeVar("R")


class Kind(NamedTuple):
    """Values that an annotation allows, in words and as a test."""

    words: str
    holds: Callable[[Any], bool]


def _is_anything(_: object) -> bool:
    return True


def _is_none(value: object) -> bool:
    return value is None


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


def _is_text(value: object) -> bool:
    # No file, name or option of the system has a NUL.
    return isinstance(value, str) and "\0" not in value


def _is_whole(value: object) -> bool:
    # What the native module counts in.
    return isinstance(value, Integral) and not _is_bool(value) and abs(int(value)) < 2**64


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not _is_bool(value) and not math.isnan(float(value))


def _is_path(value: object) -> bool:
    return isinstance(value, os.PathLike) and _is_text(os.fspath(value))


def _is_place(value: object) -> bool:
    from halfwink.remote import Remote

    return isinstance(value, PurePath | Remote)


def _is_technique(value: object) -> bool:
    from halfwink.policies.policy import Policy

    # A path is no name yet: some of its characters mean something else in one.
    return _is_text(value) or _is_path(value) or isinstance(value, Policy | type)


def _is_store(value: object) -> bool:
    from halfwink.results.store import RunStore

    return isinstance(value, RunStore)


def _is_results(value: object) -> bool:
    from halfwink.results.results import Results

    return isinstance(value, Results)


def _is_executor(value: object) -> bool:
    # That it has the right methods is looked at where it is used, which knows more kinds of it.
    return not isinstance(value, str | bytes | Integral | Real | Mapping | Sequence | PurePath)


def _is_mapping(value: Any, of: Callable[[Any], bool]) -> bool:
    if not isinstance(value, Mapping):
        return False
    mapping: Mapping[Any, Any] = value
    return all(_is_text(key) and of(each) for key, each in mapping.items())


def _is_settings(value: object) -> bool:
    return _is_mapping(value, _is_anything)


_NAMED = {
    "None": Kind("None", _is_none),
    "str": Kind("a text", _is_text),
    "bool": Kind("a truth value", _is_bool),
    "int": Kind("a whole number", _is_whole),
    "float": Kind("a number", _is_number),
    "os.PathLike": Kind("a path", _is_path),
    "Path": Kind("a path", _is_path),
    "Place": Kind("a path", _is_place),
    "Callable": Kind("a function", callable),
    "Technique": Kind("a technique", _is_technique),
    "Executor": Kind("an executor", _is_executor),
    "Submits": Kind("a pool", _is_executor),
    "RunStore": Kind("a store of runs", _is_store),
    "Results": Kind("results", _is_results),
    "Settings": Kind("a mapping from paths to values", _is_settings),
}
#: What this module knows nothing of.
_ANY = Kind("", _is_anything)


def _list_of(kind: Kind) -> Kind:
    def holds(value: Any) -> bool:
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
            return False
        values: Iterable[Any] = value
        # An iterator would be empty afterwards.
        return not isinstance(values, Sequence) or all(map(kind.holds, values))

    many = " or ".join(f"{each.partition(' ')[2]}s" for each in kind.words.split(" or "))
    return Kind(f"a list of {many}" if kind.words else "a list", holds)


def _mapping_to(kind: Kind) -> Kind:
    def holds(value: Any) -> bool:
        return _is_mapping(value, kind.holds)

    return Kind(f"a mapping from names to {kind.words or 'values'}", holds)


def _either(a: Kind, b: Kind) -> Kind:
    def holds(value: Any) -> bool:
        return a.holds(value) or b.holds(value)

    if _ANY in (a, b):
        return _ANY
    if a.words == b.words:
        return a
    # "a text, a list of texts or None": the last alternative alone has its "or".
    return Kind(f"{a.words.replace(' or ', ', ')} or {b.words}", holds)


def _tuple_of(kinds: Sequence[Kind]) -> Kind:
    def holds(value: Any) -> bool:
        if not isinstance(value, tuple | list):
            return False
        values: Sequence[Any] = value
        return len(values) == len(kinds) and all(
            kind.holds(each) for kind, each in zip(kinds, values, strict=True)
        )

    return Kind(f"({', '.join(kind.words for kind in kinds)})", holds)


#: A range of numbers, as `tune` takes it.
_NAMED["Range"] = _tuple_of([_NAMED["float"]] * 2)


def _plain(node: ast.expr) -> str:
    # `halfwink.capture` imports under private names, since it is a function, too.
    return ast.unparse(node).removeprefix("_")


def _kind(node: ast.expr) -> Kind:
    """Returns what an annotation allows; anything, where it names what is not known here."""
    match node:
        case ast.Constant(value=None):
            return _NAMED["None"]
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _either(_kind(left), _kind(right))
        case ast.Subscript(value=outer, slice=ast.Tuple(elts=inner)):
            kinds = [_kind(each) for each in inner]
            match _plain(outer):
                case "tuple":
                    return _tuple_of(kinds)
                case "Mapping":
                    return _mapping_to(kinds[1])
                case name:
                    return _NAMED.get(name, _ANY)
        case ast.Subscript(value=outer, slice=inner):
            name = _plain(outer)
            if name in ("Sequence", "list", "Iterable"):
                return _list_of(_kind(inner))
            return _NAMED.get(name, _ANY)
        case _:
            return _NAMED.get(_plain(node), _ANY)


def _named(value: Any) -> Any:
    """Returns paths as texts, alone or in a list, and all else as it is."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, list | tuple):
        listed: Sequence[Any] = value
        return [_named(each) for each in listed]
    return value


def _declared(annotation: Any) -> Kind:
    # `self` has none.
    is_text = isinstance(annotation, str)
    return _kind(ast.parse(annotation, mode="eval").body) if is_text else _ANY


def checked(function: Callable[P, R], name: str | None = None) -> Callable[P, R]:
    """Returns a function that looks at its arguments before it is called.

    Args:
        function: a function or a method whose annotations are texts, as `from __future__ import
            annotations` makes them.
        name: name in errors, if users do not call it as it is defined.
    """
    name = name or function.__qualname__.removesuffix(".__init__")
    signature = inspect.signature(function)
    kinds: dict[str, Kind] = {}

    @functools.wraps(function)
    def call(*args: P.args, **given: P.kwargs) -> R:
        try:
            bound = signature.bind(*args, **given)
        except TypeError:
            # Too many, too few, or of another name: Python's own words say so.
            return function(*args, **given)
        values = bound.arguments
        for parameter, value in values.items():
            if parameter not in kinds:
                kinds[parameter] = _declared(signature.parameters[parameter].annotation)
            kind = kinds[parameter]
            if kind.holds(value):
                continue
            if not kind.holds(named := _named(value)):
                raise HalfwinkError(
                    f"{name}: {parameter}: found {reprlib.repr(value)}, expected {kind.words}"
                )
            values[parameter] = named
        return function(*bound.args, **bound.kwargs)  # pyright: ignore[reportCallIssue]

    return call
