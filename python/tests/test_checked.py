"""Arguments of public functions: of another type, they are one line, before anything runs."""

from __future__ import annotations

import inspect
import pickle
from importlib import import_module
from pathlib import Path
from types import FunctionType

import pytest

import halfwink as hw
from halfwink.checked import _ANY, _declared
from halfwink.errors import HalfwinkError
from halfwink.exports import SUBJECTS

PACKAGES = ("halfwink", *(f"halfwink.{subject}" for subject in SUBJECTS))
FUNCTIONS = [
    (package, name)
    for package in PACKAGES
    for name in import_module(package).__all__
    if isinstance(getattr(import_module(package), name), FunctionType)
]
#: What nobody's annotations can say in a way that is worth knowing here.
UNKNOWN = {("record", "stdout"), ("scores", "entries")}
VALUES = (
    *(None, True, 5, 2.5, -1, float("nan"), 10**30, "", "x", "x\0", b"x", (1, 2), ("x",)),
    *([], ["x"], [5], [None], {}, {"x": 1}, {1: 2}, Path("x"), object(), len),
)


def parameters(package: str, name: str) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(getattr(import_module(package), name)).parameters)


@pytest.mark.parametrize(("package", "name"), FUNCTIONS)
def test_a_value_of_another_type_is_one_line_that_names_the_argument(package: str, name: str):
    function, declared = getattr(import_module(package), name), parameters(package, name)
    allowed = {p: _declared(declared[p].annotation) for p in declared}
    assert {(name, p) for p, kind in allowed.items() if kind is _ANY} <= UNKNOWN
    usual = {
        p: next(value for value in VALUES if kind.holds(value))
        for p, kind in allowed.items()
        if declared[p].default is inspect.Parameter.empty
    }
    for parameter, kind in allowed.items():
        # A path is taken where a text is.
        wrong = [
            v for v in VALUES if not kind.holds(v) and not (v == Path("x") and kind.holds("x"))
        ]
        assert wrong or kind is _ANY
        for value in wrong:
            with pytest.raises(HalfwinkError) as error:
                function(**{**usual, parameter: value})
            line = str(error.value)
            assert line.startswith(f"{name}: {parameter}: found ")
            assert line.endswith(f", expected {kind.words}")
            assert "\n" not in line


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (
            lambda: hw.compare("nginx", loads=5),  # type: ignore[arg-type]
            "compare: loads: found 5, expected a text, a list of texts or None",
        ),
        (
            lambda: hw.advise_day("nginx", day="day.csv", servers="3"),  # type: ignore[arg-type]
            "advise_day: servers: found '3', expected a whole number",
        ),
        (
            lambda: hw.tune("menu", {"alike_us": 5}, workload="nginx"),  # type: ignore[dict-item]
            "tune: ranges: found {'alike_us': 5}, "
            "expected a mapping from names to (a number, a number)",
        ),
        (
            lambda: hw.compare("nginx", machine=["ev6-4"]),  # type: ignore[arg-type]
            "compare: machine: found ['ev6-4'], expected a text or None",
        ),
        (
            lambda: hw.capture("nginx", out=5),  # type: ignore[arg-type]
            "capture: out: found 5, expected a path, a text or None",
        ),
        (
            lambda: hw.Dask(5),  # type: ignore[arg-type]
            "Dask: address: found 5, expected a text or None",
        ),
    ],
)
def test_errors_say_what_was_found_and_what_was_expected(call, line: str):
    with pytest.raises(HalfwinkError) as error:
        call()
    assert str(error.value) == line


def test_missing_and_unknown_arguments_are_told_in_the_words_of_python():
    with pytest.raises(TypeError, match=r"run\(\) missing 1 required positional argument: 'name'"):
        hw.run()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'nam'"):
        hw.run(nam="x")  # type: ignore[call-arg]


def test_a_path_names_what_its_text_names(tmp_path: Path):
    study = tmp_path / "none.toml"
    for given in (study, str(study)):
        with pytest.raises(HalfwinkError) as error:
            hw.run(given)  # type: ignore[arg-type]
        assert str(error.value).startswith(f"{study}: ")
        with pytest.raises(HalfwinkError, match=r"none\.toml"):
            hw.compare([given], techniques="menu")  # type: ignore[list-item]


def test_captures_end_in_the_errors_of_the_package():
    assert issubclass(hw.capture.WrongUseError, HalfwinkError)
    assert issubclass(hw.capture.GuestError, hw.RunError)
    with pytest.raises(HalfwinkError, match="expected a workload or a command"):
        hw.capture()


@pytest.mark.parametrize(("package", "name"), FUNCTIONS)
def test_functions_travel_to_other_processes_by_their_public_names(package: str, name: str):
    function = getattr(import_module(package), name)
    assert pickle.loads(pickle.dumps(function)) is function
