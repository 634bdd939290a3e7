"""What counts the costs of tests, and deals files by them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import costs
import pytest


def _dealt(names: list[str], **config: object) -> list[str]:
    items: list[Any] = [
        SimpleNamespace(path=Path(file), name=test)
        for file, test in (name.split("::") for name in names)
    ]
    asked: Any = SimpleNamespace(**config)
    costs.Costs("warn").pytest_collection_modifyitems(asked, items)
    return [f"{item.path}::{item.name}" for item in items]


@pytest.fixture
def _budgets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "BUDGETS", tmp_path / "budgets.toml")
    costs.BUDGETS.write_text('"test_cheap.py" = 1\n"test_dear.py" = 90\n')


CHEAP, DEAR, NEW = "test_cheap.py::b", "test_dear.py::b", "test_new.py::b"


@pytest.mark.usefixtures("_budgets")
def test_workers_begin_with_files_of_unknown_cost_then_with_dear_ones():
    second = [name.replace("::b", "::a") for name in (CHEAP, DEAR, NEW)]
    dealt = _dealt([CHEAP, second[0], DEAR, second[1], NEW, second[2]], workerinput={})
    assert dealt == [NEW, second[2], DEAR, second[1], CHEAP, second[0]]


@pytest.mark.usefixtures("_budgets")
def test_one_process_keeps_the_order_in_which_it_was_asked():
    assert _dealt([CHEAP, DEAR, NEW]) == [CHEAP, DEAR, NEW]


def test_a_file_outgrows_its_share_of_the_run_not_its_seconds():
    budgets = {"a.py": 10.0, "b.py": 10.0, "c.py": 80.0}
    slow_host = Counter({"a.py": 40.0, "b.py": 40.0, "c.py": 320.0})
    assert costs.over_budget(slow_host, budgets) == []
    grown = Counter({"a.py": 160.0, "b.py": 40.0, "c.py": 320.0})
    assert [line.split()[0] for line in costs.over_budget(grown, budgets)] == ["a.py"]
    # Without a budget a file has no share to outgrow.
    assert costs.over_budget(Counter({"d.py": 500.0}), budgets) == []
