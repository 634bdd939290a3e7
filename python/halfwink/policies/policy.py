"""Base of all policies in Python: classes of a family, with parameters and a timer."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, ClassVar, Generic, TypeVar, overload

from halfwink.errors import HalfwinkError

#: Times are whole picoseconds from the start of the run. So many picoseconds are a nanosecond, a
#: microsecond, a millisecond, a second.
NS, US, MS, S = 10**3, 10**6, 10**9, 10**12

StartT = TypeVar("StartT")
EventT = TypeVar("EventT")
ActionT = TypeVar("ActionT")


class Parameter:
    """A number that users of a policy can set: ``after_us = Parameter(5, least=0, most=1e6, ...)``.

    It is read as a plain number, ``self.after_us``.

    Attributes:
        default: value unless another is set.
        least, most: range of the values that are allowed.
        title: description in one line.
        unit: unit of the value, such as ``us``.
    """

    def __init__(
        self, default: float, *, least: float, most: float, title: str, unit: str = ""
    ) -> None:
        self.default, self.least, self.most = float(default), float(least), float(most)
        for name in ("default", "least", "most"):
            if not isfinite(value := vars(self)[name]):
                raise HalfwinkError(f"Parameter: {name}: found {value}, expected a finite number")
        self.title, self.unit = title, unit
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, policy: None, owner: type) -> Parameter: ...
    @overload
    def __get__(self, policy: object, owner: type) -> float: ...
    def __get__(self, policy: object | None, owner: type) -> Parameter | float:
        # Values that are set stand in the policy itself, which Python reads first.
        return self if policy is None else self.default

    def checked(self, value: float) -> float:
        """Returns a value of the range.

        Raises:
            HalfwinkError: the value is out of it.
        """
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = float("nan")
        if not (isfinite(number) and self.least <= number <= self.most):
            allowed = f"{self.least:g} to {self.most:g}"
            raise HalfwinkError(f"`{self.name}` = {value!r}, expected {allowed}")
        return number


@dataclass(frozen=True)
class Family:
    """A family of policies.

    Attributes:
        name: name in `halfwink list techniques`.
        start: properties of the machine that a policy is told.
        events: type of each event, by its name in event logs.
        actions: type of each action, by its name in event logs.
    """

    name: str
    start: type
    events: dict[str, type]
    actions: dict[str, type]


class Policy(ABC, Generic[StartT, EventT, ActionT]):
    """A policy of a family: events in, actions out. Each core, router or pair of machines has one.

    Its first line of documentation is its title. A subclass of a family's class defines
    ``on_event``.

    Attributes:
        family: the family, set by the class of each.
        events: types of the events that it is told of; all of its family if there are none here. A
            policy that is told of few events runs faster.
        timer: time at which ``on_timer`` is called, in picoseconds; None if it is off. It stays
            until it is changed, and is off again when it has rung.
    """

    family: ClassVar[Family]
    events: ClassVar[Sequence[type]] = ()
    timer: int | None = None

    def __init__(self, **parameters: float) -> None:
        """Sets some of its parameters.

        Raises:
            HalfwinkError: there is no such parameter, or the value is out of its range.
        """
        known = {parameter.name: parameter for parameter in parameters_of(type(self))}
        for name, value in parameters.items():
            if name not in known:
                expected = ", ".join(known) or "none"
                raise HalfwinkError(f"no parameter `{name}`, expected {expected}")
            setattr(self, name, known[name].checked(value))

    def on_start(self, start: StartT) -> ActionT | Iterable[ActionT] | None:
        """Takes note of the machine, at time zero and before all events. Returns actions."""

    @abstractmethod
    def on_event(self, now: int, event: EventT) -> ActionT | Iterable[ActionT] | None:
        """Decides on an event at ``now``, in picoseconds. Returns actions: one, several or none."""

    def on_timer(self, now: int) -> ActionT | Iterable[ActionT] | None:
        """Decides when its timer rings. Returns actions."""


#: A class of policies of any family.
AnyPolicy = Policy[Any, Any, Any]


def parameters_of(policy: type[AnyPolicy]) -> list[Parameter]:
    """Returns the parameters of a class, in the order in which they are defined."""
    found: dict[str, Parameter] = {}
    for base in reversed(policy.__mro__):
        for name, value in vars(base).items():
            if isinstance(value, Parameter):
                found[name] = value
            else:
                found.pop(name, None)
    return list(found.values())


def about(policy: type[AnyPolicy]) -> str:
    """Returns what a class says of itself, as modules do (`docs/own-policy.md`).

    Raises:
        HalfwinkError: the class wants events that its family does not have.
    """
    family = policy.family
    said: dict[str, Any] = {"family": family.name, "title": _title(policy)}
    names = {of: name for name, of in family.events.items()}
    if unknown := [of for of in policy.events if of not in names]:
        known = ", ".join(of.__name__ for of in names)
        shown = getattr(unknown[0], "__name__", repr(unknown[0]))
        raise HalfwinkError(f"`events` has {shown}, expected {known}")
    if policy.events:
        said["events"] = [names[of] for of in policy.events]
    said["parameters"] = [
        {
            "name": p.name,
            "unit": p.unit,
            "default": p.default,
            "least": p.least,
            "most": p.most,
            "title": p.title,
        }
        for p in parameters_of(policy)
    ]
    return json.dumps(said)


def _title(policy: type) -> str:
    """Returns the first line of a class's documentation."""
    lines = (policy.__doc__ or "").strip().splitlines()
    return lines[0].strip() if lines else f"the policy {policy.__name__}"
