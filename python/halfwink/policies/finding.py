"""Finds policies in Python: the class of a file, or a class that a caller handed over."""

from __future__ import annotations

import hashlib
import inspect
import marshal
import os
import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TypeAlias, TypeGuard
from weakref import WeakKeyDictionary

from halfwink import _core, inputs
from halfwink.errors import HalfwinkError
from halfwink.jobs import CLASS
from halfwink.policies.content import content_of, neighbours
from halfwink.policies.policy import AnyPolicy, Policy, about, parameters_of

#: Most bytes of a file with a policy, as of a module.
MOST_BYTES = 1 << 20

#: A technique: its name, or a policy of the caller's own, also in a file.
Technique: TypeAlias = "str | os.PathLike[str] | AnyPolicy | type[AnyPolicy]"

#: Classes that were handed over, by their names as techniques. A later one of a name replaces it.
_given: dict[str, type[AnyPolicy]] = {}
#: Module of what a program itself, a notebook or a prompt defines.
MAIN = "__main__"
#: Digest and file, where they were defined, of classes that came to this process by their code.
_travelled: WeakKeyDictionary[type, tuple[str, str | None]] = WeakKeyDictionary()
#: Held while a file runs: another thread shall not find half of its names.
_running = threading.RLock()


def named(technique: Technique) -> str:
    """Returns a technique as text, ``MyGate():after_us=5``; the class is found under it later.

    Raises:
        HalfwinkError: the value is neither a text, nor a path, nor a policy.
    """
    if isinstance(technique, str):
        return technique
    if isinstance(technique, os.PathLike):
        return _core.technique_of_file(os.fspath(technique))
    policy = technique if isinstance(technique, type) else type(technique)
    if not is_policy(policy):
        raise HalfwinkError(f"technique {technique!r}: expected a name or a policy")
    name = f"{policy.__name__}{CLASS}"
    _given[name] = policy
    if isinstance(technique, type):
        return name
    values = vars(technique)
    _check_made_anew(technique, policy)
    written = [f"{p.name}={values[p.name]!r}" for p in parameters_of(policy) if p.name in values]
    return f"{name}:{','.join(written)}" if written else name


def _check_made_anew(technique: AnyPolicy, policy: type[AnyPolicy]) -> None:
    """Checks that an object holds no more than its parameters: each run makes one of its own.

    Raises:
        HalfwinkError: the object has an attribute that a new one has not, which would be lost.
    """
    try:
        fresh = vars(policy())
    except Exception as error:
        raise HalfwinkError(f"{policy.__name__}: {said(error, _file_of(policy))}") from error
    known = {parameter.name for parameter in parameters_of(policy)}
    for name, value in vars(technique).items():
        if name not in known and (name not in fresh or repr(fresh[name]) != repr(value)):
            raise HalfwinkError(
                f"{policy.__name__}: attribute `{name}` would be lost, since each run makes an "
                "object of its own; make it a Parameter"
            )


def texts(techniques: Technique | Iterable[Technique]) -> list[str]:
    """Returns techniques as texts, one or several.

    Raises:
        HalfwinkError: two classes have one name, or see :func:`named`.
    """
    if isinstance(techniques, str | os.PathLike | type | Policy):
        techniques = [techniques]
    found: dict[str, object] = {}
    written: list[str] = []
    for technique in techniques:
        written.append(text := named(technique))
        if not isinstance(technique, str | os.PathLike):
            policy = _given[name := text.partition(":")[0]]
            if found.setdefault(name, policy) is not policy:
                raise HalfwinkError(f"two classes are named {policy.__name__}: rename one")
    return written


def is_policy(value: object) -> TypeGuard[type[AnyPolicy]]:
    """Tells whether a value is a class of policies of some family."""
    return isinstance(value, type) and issubclass(value, Policy) and hasattr(value, "family")


@dataclass(frozen=True)
class Code:
    """A class that travels by its code, since other processes cannot import it.

    Attributes:
        pickled: the class as cloudpickle writes it.
        digest: digest of its content.
        file: the file that it was defined in; None if it was in none.
    """

    pickled: bytes
    digest: str
    file: str | None


def given(technique: str) -> list[type[AnyPolicy] | Code]:
    """Returns the classes that a technique names: what travels with a job to other processes.

    Raises:
        HalfwinkError: other processes can neither import a class nor be sent its code.
    """
    if CLASS not in technique:
        return []
    parts = (part.partition(":")[0].partition("@")[0] for part in technique.split("+"))
    return [_sent(_given[part]) for part in parts if part in _given]


def arrived(sent: Iterable[type[AnyPolicy] | Code]) -> None:
    """Makes classes that travelled with a job known in this process."""
    for one in sent:
        if not isinstance(one, Code):
            named(one)
            continue
        policy = import_module("cloudpickle").loads(one.pickled)
        # The file may not be here, and the content decided about what is kept of its runs.
        _travelled[policy] = one.digest, one.file
        named(policy)


def _sent(policy: type[AnyPolicy]) -> type[AnyPolicy] | Code:
    """Returns a class as it travels: by its name where that can be imported, else by its code."""
    is_local = "<locals>" in policy.__qualname__
    if policy.__module__ != MAIN and not is_local:
        return policy
    try:
        pickler = import_module("cloudpickle")
    except ImportError:
        # Processes that Python starts run the file of the main program again, and find it there.
        main = getattr(sys.modules[MAIN], "__file__", None)
        if not is_local and main is not None and Path(main).is_file():
            return policy
        where = "inside a function" if is_local else "in a notebook or a prompt"
        raise HalfwinkError(
            f"class {policy.__name__}: it was defined {where}, where processes of a pool cannot "
            "import it; put it into a module, or run: pip install cloudpickle"
        ) from None
    digest, file = _travelled.get(policy) or (_digest_of(policy), _file_of(policy))
    return Code(pickler.dumps(policy), digest, file)


def find(name: str, digest: str) -> tuple[str, str, type[AnyPolicy]]:
    """Returns the digest, the description and the class of a technique; called by the native
    module. With a ``digest`` the content must have it. Nothing of another content is run.

    Raises:
        HalfwinkError: there is none, or it is no policy.
    """
    if name.endswith(CLASS):
        policy = _given.get(name)
        if policy is None:
            raise HalfwinkError("no such class was handed over in this process: name its file")
        found = _digest_of(policy)
        _compare(digest, found)
    else:
        text = inputs.read_text(name, MOST_BYTES)
        beside = neighbours(Path(name).expanduser().resolve(), text)
        found = _digest(text.encode() + b"".join(path.read_bytes() for path in beside))
        _compare(digest, found)
        with _running:
            policy = _class_of(name, text, found, {path.stem for path in beside})
    return found, about(policy), policy


def _compare(expected: str, found: str) -> None:
    if expected and expected != found:
        raise HalfwinkError(f"its content has changed: expected {expected}, found {found}")


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _class_of(name: str, text: str, digest: str, beside: set[str]) -> type[AnyPolicy]:
    """Runs a file, unless this content was run already, and returns the one policy in it."""
    path = Path(name).expanduser().resolve()
    # A module of its own for each path and content: classes of an earlier content stay what they
    # were.
    module_name = f"halfwink_policy_{_digest(f'{path}@{digest}'.encode())}"
    module = sys.modules.get(module_name)
    if module is None:
        module = _run(module_name, path, text, beside)
    own = [
        value
        for value in vars(module).values()
        if is_policy(value) and value.__module__ == module_name
    ]
    if len(own) != 1:
        classes = ", ".join(each.__name__ for each in own) or "none"
        raise HalfwinkError(f"has the policies: {classes}; expected one class of a family")
    return own[0]


def _run(module_name: str, path: Path, text: str, beside: set[str]) -> ModuleType:
    module = ModuleType(module_name)
    module.__file__ = str(path)
    sys.modules[module_name] = module
    # As for a script: what lies beside it can be imported. Another file may have imported modules
    # of the same names from another folder, or before they were changed.
    sys.path.insert(0, str(path.parent))
    others = _forget(beside)
    try:
        exec(compile(text, str(path), "exec"), vars(module))
    except BaseException as error:
        del sys.modules[module_name]
        if isinstance(error, Exception | SystemExit):
            raise HalfwinkError(said(error, str(path))) from error
        raise
    finally:
        sys.path.remove(str(path.parent))
        _forget(beside)
        sys.modules.update(others)
    return module


def _forget(names: set[str]) -> dict[str, ModuleType]:
    """Removes modules, and those within them, from those that were imported; returns them."""
    found = [name for name in sys.modules if name.partition(".")[0] in names]
    return {name: sys.modules.pop(name) for name in found}


def said(error: BaseException, path: str | None) -> str:
    """Returns an error of a user's file in one line, with the last line of the file that it passed.

    ``raised ZeroDivisionError at my_gate.py:12: division by zero``
    """
    line = None
    if isinstance(error, SyntaxError):
        line = error.lineno
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == path:
            line = trace.tb_lineno
        trace = trace.tb_next
    where = f" at {Path(path).name}:{line}" if path and line else ""
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    message = " ".join(message.split())
    return f"raised {type(error).__name__}{where}" + (f": {message}" if message else "")


def said_by(error: BaseException, policy: type) -> str:
    """Returns what a policy raised, see :func:`said`; called by the native module."""
    return said(error, _file_of(policy))


def place_of(policy: type, method: str) -> str:
    """Returns where a method begins, ``on_event at my_gate.py:12``; called by the native module."""
    code = getattr(inspect.unwrap(getattr(policy, method)), "__code__", None)
    if code is None:
        return method
    return f"{method} at {Path(code.co_filename).name}:{code.co_firstlineno}"


def _file_of(policy: type) -> str | None:
    """Returns the file in which a class was defined; None if it was not in a file."""
    if policy in _travelled:
        return _travelled[policy][1]
    try:
        file = inspect.getsourcefile(policy)
    except (TypeError, OSError):
        file = None
    # A class of another process' main program names this one's as its module.
    functions = map(inspect.unwrap, filter(inspect.isfunction, vars(policy).values()))
    files = [function.__code__.co_filename for function in functions]
    if not files or file in files:
        return file
    return files[0] if Path(files[0]).is_file() else None


def _digest_of(policy: type) -> str:
    """Returns the digest of a class that was handed over: of its whole file, since what it calls
    may stand there, and of the values and functions that its own code reaches, which may differ
    between two classes of one place."""
    if policy in _travelled:
        return _travelled[policy][0]
    return _digest(marshal.dumps(tuple(content_of(policy, _file_of(policy)))))
