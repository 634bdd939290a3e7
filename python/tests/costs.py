"""What each test costs: CPU seconds of the test and of the processes that it waited for.

With ``--costs`` the run ends with the dearest tests and files, and the share of time spent
waiting. A file that takes more than twice its budget (`budgets.toml`) is named in a warning; it
never fails a run, since hosts differ. ``--costs=record`` writes the budgets anew. Workers are dealt
the dearest files first, so that none of them comes last, when the others have nothing to do.
"""

from __future__ import annotations

import resource
import time
import tomllib
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest

BUDGETS = Path(__file__).with_name("budgets.toml")
#: Tests that are listed at the end of a run.
DEAREST = 20
#: Files below this many CPU seconds are never named: their cost is mostly the start of Python.
LEAST_S = 5.0
#: CPU seconds of commands that are no children of this process, but forks of a warm one.
of_forks_s = 0.0


def cpu_s() -> float:
    """Returns the CPU seconds of this process and of all children that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return of_forks_s + sum(use.ru_utime + use.ru_stime for use in used)


class Costs:
    """A plugin that sums the costs of tests, also of those that ran in workers."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.cpu: Counter[str] = Counter()
        self.wall: Counter[str] = Counter()

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Puts the dearest files first, where workers share them; tests of a file keep their order.

        A file without a budget may be of any cost, and comes before all others.
        """
        if hasattr(config, "workerinput"):
            budgets = tomllib.loads(BUDGETS.read_text())
            items.sort(key=lambda item: -budgets.get(item.path.name, float("inf")))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Measures a test with its fixtures; the first test of a module pays for the module's."""
        cpu, wall = cpu_s(), time.monotonic()
        result = yield
        config = item.config
        found = {"id": item.nodeid, "cpu": cpu_s() - cpu, "wall": time.monotonic() - wall}
        if hasattr(config, "workeroutput"):
            config.workeroutput.setdefault("costs", []).append(found)
        else:
            self.add([found])
        return result

    def add(self, costs: list[dict[str, object]]) -> None:
        """Adds what tests have cost."""
        for cost in costs:
            self.cpu[str(cost["id"])] += float(str(cost["cpu"]))
            self.wall[str(cost["id"])] += float(str(cost["wall"]))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object, error: object) -> None:
        """Takes over the costs of a worker that has ended."""
        self.add(getattr(node, "workeroutput", {}).get("costs", []))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Prints the dearest tests, and the files that outgrew their budgets."""
        if not self.cpu:
            return
        write = terminalreporter.write_line
        files: Counter[str] = Counter()
        for test, cost in self.cpu.items():
            files[Path(test.split("::")[0]).name] += cost
        if self.mode == "record":
            lines = [f'"{name}" = {files[name]:.0f}\n' for name in sorted(files)]
            BUDGETS.write_text(
                "# CPU seconds of each file of tests: pytest --costs=record\n" + "".join(lines)
            )
        if self.mode != "warn":
            terminalreporter.section("the dearest tests (CPU s, wall s)", "=")
            for test, cost in self.cpu.most_common(DEAREST):
                write(f"{cost:8.1f} {self.wall[test]:8.1f}  {test}")
            for name, cost in files.most_common(DEAREST):
                write(f"{cost:8.1f}           {name}")
            cpu, wall = self.cpu.total(), self.wall.total()
            write(f"{cpu:.0f} CPU s in {wall:.0f} s of tests: {max(0, 1 - cpu / wall):.0%} waiting")
        for line in over_budget(files, tomllib.loads(BUDGETS.read_text())):
            write(f"warning: {line}", yellow=True)


def over_budget(files: Counter[str], budgets: dict[str, float]) -> list[str]:
    """Names the files that took more than twice their share of the run.

    Shares are compared, not seconds: a slow host is slow in all files.
    """
    known = {name: cost for name, cost in files.items() if name in budgets}
    budget = sum(budgets[name] for name in known)
    pace = sum(known.values()) / budget if budget else 1.0
    return [
        f"{name} took {cost:.0f} CPU s, more than twice its budget of {budgets[name] * pace:.0f}"
        for name, cost in known.items()
        if cost > 2 * max(budgets[name] * pace, LEAST_S)
    ]
