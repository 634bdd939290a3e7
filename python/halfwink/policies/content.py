"""Contents of policies in Python: what decides how a class behaves, written the same in each
process, and the files beside a file that it imports."""

from __future__ import annotations

import ast
import pickle
from abc import ABC
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Generic

from halfwink.policies.policy import Parameter, about

#: Types of values that are written the same in every process.
WRITTEN = (int, float, str, bytes, type(None))
#: Bases of all policies that are Python's own.
GIVEN = (object, ABC, Generic)
#: Containers of such.
HOLDERS = (tuple, list, dict, set, frozenset)


def content_of(policy: type[Any], file: str | None) -> Iterator[str]:
    """Yields what a class does: its file, if it has one, and what its functions reach."""
    if file is not None and Path(file).is_file():
        yield Path(file).read_bytes().hex() + policy.__qualname__
    yield str(about(policy))
    seen: dict[int, object] = {}
    for base in policy.__mro__:
        if base not in GIVEN and base.__module__.partition(".")[0] != "halfwink":
            for name, value in sorted(vars(base).items(), key=lambda item: item[0]):
                # Python adds the place of the class (`__firstlineno__`), and its dictionaries.
                is_method = isinstance(value, FunctionType)
                if is_method or not name.startswith("__"):
                    yield name
                    yield from _value(value, seen)


def _value(value: object, seen: dict[int, object]) -> Iterator[str]:
    """Yields what a value is; of a function its code, and what that reaches."""
    if isinstance(value, WRITTEN):
        yield repr(value)
        return
    # Parameters stand in the description.
    if id(value) in seen or isinstance(value, Parameter):
        return
    # Held, so that no later object is taken for this one by its number.
    seen[id(value)] = value
    if isinstance(value, FunctionType):
        yield from _function(value, seen)
    elif isinstance(value, staticmethod | classmethod):
        yield from _value(value.__func__, seen)
    elif isinstance(value, property):
        for each in (value.fget, value.fset):
            yield from _value(each, seen)
    elif isinstance(value, partial):
        yield from _value((value.func, value.args, value.keywords), seen)
    elif isinstance(value, HOLDERS):
        items = list(value.items()) if isinstance(value, dict) else list(value)
        if isinstance(value, set | frozenset):
            items.sort(key=repr)
        yield type(value).__name__
        for item in items:
            yield from _value(item, seen)
    elif isinstance(value, type):
        # Without its module: what is `__main__` here is `__mp_main__` in processes of a pool.
        yield value.__qualname__
    else:
        yield type(value).__qualname__
        state = {**getattr(value, "__dict__", {})}
        slots = (name for each in type(value).__mro__ for name in getattr(each, "__slots__", ()))
        state |= {name: getattr(value, name, None) for name in slots if name not in state}
        yield from _value(state, seen) if state else (_pickled(value),)


def _function(function: FunctionType, seen: dict[int, object]) -> Iterator[str]:
    """Yields a function's code, its defaults, what it encloses, and its module's values."""
    yield plain(function.__code__)
    yield from _value(function.__defaults__, seen)
    yield from _value(function.__kwdefaults__, seen)
    for cell in function.__closure__ or ():
        try:
            yield from _value(cell.cell_contents, seen)
        except ValueError:
            # It is filled later, as that of a class that names itself.
            yield "empty"
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        # Modules and classes are named by the code; their content is not the policy's.
        if isinstance(value, (*WRITTEN, *HOLDERS)) or (
            isinstance(value, FunctionType) and value.__module__ == function.__module__
        ):
            yield name
            yield from _value(value, seen)
    wrapped = getattr(function, "__wrapped__", None)
    if wrapped is not None:
        yield from _value(wrapped, seen)


def _pickled(value: object) -> str:
    """Returns an object of a native module, such as an array; nothing of one that is of this
    process alone."""
    try:
        return pickle.dumps(value).hex()
    except Exception:
        return ""


def plain(code: CodeType) -> str:
    """Returns code without the places where it stands."""
    constants = [plain(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return repr((code.co_code, code.co_names, code.co_varnames, constants))


def neighbours(path: Path, text: str) -> list[Path]:
    """Returns the modules beside a file that it imports, and those that they import, sorted."""
    found: dict[Path, None] = {}
    texts = [text]
    while texts:
        for name in _imported(texts.pop()):
            beside = path.parent / f"{name}.py"
            if beside.is_file() and beside != path and beside not in found:
                found[beside] = None
                texts.append(beside.read_text(errors="replace"))
    return sorted(found)


def _imported(text: str) -> Iterator[str]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        # Running it says what is wrong.
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]
