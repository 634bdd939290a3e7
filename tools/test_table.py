"""The table of tests in docs/testing.md, from the tests themselves and their budgets.

.venv/bin/python tools/test_table.py            write it (`make tables`)
.venv/bin/python tools/test_table.py --check    fail where it is not as it should be
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/testing.md"
BEGIN, END = "<!-- tests: written by `make tables` -->", "<!-- end of tests -->"


def files() -> list[str]:
    """Returns a row for each file of Python's tests."""
    tests = ROOT / "python/tests"
    budgets = tomllib.loads((tests / "budgets.toml").read_text())
    rows = ["| file | what it guards | CPU s | parts of test-full |", "|---|---|---|---|"]
    for path in sorted(tests.glob("test_*.py")):
        about = (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n\n")[0]
        parts = dict.fromkeys(re.findall(r'mark\.full\("(\w+)"\)', path.read_text()))
        cost = budgets.get(path.name, "")
        rows.append(f"| {path.stem} | {' '.join(about.split())} | {cost} | {', '.join(parts)} |")
    return rows


def parts() -> list[str]:
    """Returns a row for each part of `make test-full` that pytest plays."""
    known = tomllib.loads((ROOT / "python/tests/shards.toml").read_text())
    rows = ["| part | what it plays | played by CI when these change |", "|---|---|---|"]
    for name, part in known.items():
        paths = ", ".join(f"`{path}`" for path in part["paths"])
        rows.append(f"| {name} | {part['about']} | {paths} |")
    return rows


def main() -> int:
    """Writes the page, or says where it differs."""
    tables = "\n\n".join("\n".join(rows) for rows in (parts(), files()))
    old = PAGE.read_text()
    start, end = old.index(BEGIN) + len(BEGIN), old.index(END)
    new = f"{old[:start]}\n\n{tables}\n\n{old[end:]}"
    if sys.argv[1:] == ["--check"]:
        if new != old:
            print(f"{PAGE.relative_to(ROOT)} is not what its tests say; run: make tables")
        return int(new != old)
    PAGE.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
