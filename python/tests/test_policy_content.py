"""Contents of classes of policies: two that decide otherwise never share a digest or a result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import halfwink as hw
from halfwink import HalfwinkError
from halfwink.policies import US, Gating, Parameter, finding, gating
from halfwink.policies.content import content_of

#: Waits of which the first gates often in this run, and the second never.
SHORT_US, LONG_US = 5, 100_000


class Waits(Gating):
    """Gates when a core has been halted for as long as a subclass says."""

    wait_us = SHORT_US
    factor = Parameter(1, least=0, most=10, title="multiplies the wait")

    events = (gating.IdleBegin, gating.IdleEnd)

    def on_event(self, now: int, event: gating.Event) -> gating.Action | None:
        if isinstance(event, gating.IdleEnd):
            self.timer = None
            return gating.Wake()
        self.timer = now + int(self.wait() * self.factor) * US
        return None

    def on_timer(self, now: int) -> gating.Action:
        return gating.Gate()

    def wait(self) -> int:
        return self.wait_us


def saved(technique: Any, **options: Any) -> float:
    found = hw.compare("exponential@20", world="toy", techniques=[technique], **options)
    return found.runs["energy_saving_pct"][-1]


def enclosing(us: int) -> type[Waits]:
    class Enclosing(Waits):
        def wait(self) -> int:
            return us

    return Enclosing


def with_default(us: int) -> type[Waits]:
    class Default(Waits):
        def wait(self, us: int = us) -> int:
            return us

    return Default


def with_keyword(us: int) -> type[Waits]:
    class Keyword(Waits):
        def wait(self, *, us: int = us) -> int:
            return us

    return Keyword


def with_static(us: int) -> type[Waits]:
    class Static(Waits):
        @staticmethod
        def wait(us: int = us) -> int:
            return us

    return Static


def with_property(us: int) -> type[Waits]:
    class Property(Waits):
        @property
        def wait_us(self) -> int:  # type: ignore[override]
            return us

    return Property


def made(us: int) -> type[Waits]:
    return type("Made", (Waits,), {"wait_us": us})


MAKERS = [enclosing, with_default, with_keyword, with_static, with_property, made]


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_classes_of_one_place_with_other_values_have_other_contents(
    make: Callable[[int], type[Waits]],
):
    def content(policy: type[Waits]) -> list[str]:
        return list(content_of(policy, __file__))

    assert content(make(SHORT_US)) == content(make(SHORT_US))
    assert content(make(SHORT_US)) != content(make(LONG_US))


@dataclass
class Held:
    us: int


class Slotted:
    __slots__ = ("us",)

    def __init__(self, us: int) -> None:
        self.us = us


@pytest.mark.parametrize("kind", [Held, Slotted, partial(lambda us: {"a": [us]})])
def test_objects_count_by_their_state_whatever_their_module_is_called(kind: Any):
    def content(us: int) -> list[str]:
        return list(content_of(type("Made", (Waits,), {"held": kind(us)}), None))

    assert content(1) == content(1) != content(2)
    # Processes of a pool have the main program under this name.
    before = content(1)
    Held.__module__ = Slotted.__module__ = "__mp_main__"
    try:
        assert content(1) == before
    finally:
        Held.__module__ = Slotted.__module__ = __name__


def test_every_entry_of_a_table_counts():
    def content(last: int) -> list[str]:
        # Entries are temporary pairs, which Python makes at the same place again and again.
        table = {n: {"a": (n, last if n == 99 else 0)} for n in range(100)}
        return list(content_of(type("Made", (Waits,), {"table": table}), None))

    assert content(1) == content(1) != content(2)
    assert len(content(1)) > 100


def test_second_class_of_a_factory_is_played_itself(tmp_path: Path):
    assert saved(enclosing(SHORT_US)) > 1 > saved(enclosing(LONG_US))
    # Values of a class that are changed later count for results that are kept, too.
    policy = made(SHORT_US)
    first = saved(policy, out=tmp_path)
    policy.wait_us = LONG_US
    assert first > 1 > saved(policy, out=tmp_path)


def test_object_with_more_than_its_parameters_is_refused():
    class Held(Waits):
        def __init__(self, us: int = SHORT_US, **parameters: float) -> None:
            super().__init__(**parameters)
            self.us = us

    assert finding.named(Held()) == "Held()"
    assert finding.named(Held(factor=2)) == "Held():factor=2.0"
    with pytest.raises(HalfwinkError, match="Held: attribute `us` would be lost"):
        finding.named(Held(LONG_US))
    late = Waits()
    late.wait_us = LONG_US
    with pytest.raises(HalfwinkError, match="Waits: attribute `wait_us` would be lost"):
        finding.named(late)


FILE = """
from halfwink.policies import Gating, US, gating
from held import WAIT_US

class Held(Gating):
    events = (gating.IdleBegin, gating.IdleEnd)

    def on_event(self, now, event):
        if isinstance(event, gating.IdleEnd):
            self.timer = None
            return gating.Wake()
        self.timer = now + WAIT_US * US

    def on_timer(self, now):
        return gating.Gate()
"""


def test_file_has_the_module_beside_it_and_notices_its_changes(tmp_path: Path):
    files: list[Path] = []
    for name, us in (("short", SHORT_US), ("long", LONG_US)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "held.py").write_text(f"WAIT_US = {us}\n")
        files.append(tmp_path / name / "own.py")
        files[-1].write_text(FILE)
    assert saved(files[0], out=tmp_path / "kept") > 1 > saved(files[1])
    (tmp_path / "short/held.py").write_text(f"WAIT_US = {LONG_US}\n")
    assert saved(files[0], out=tmp_path / "kept") < 1


def test_parameter_without_an_end_is_refused():
    with pytest.raises(HalfwinkError, match="most: found inf, expected a finite number"):
        Parameter(5, least=0, most=float("inf"), title="x")
