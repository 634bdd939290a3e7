"""Tests of `make test-full`, in parts: which of them a run plays.

A test of a part is marked ``@pytest.mark.full("captures")``; `shards.toml` has the parts. They run
with ``--shards NAME,...``, ``--shards all``, or ``--shards touched``: those with a path that has
changed since the part last passed with ``--record-shards``, which writes `shards.lock`. A part that
was never recorded is played by name alone.
"""

from __future__ import annotations

import hashlib
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LOCK = HERE / "shards.lock"


def parts() -> dict[str, dict[str, Any]]:
    """Returns the parts by name."""
    return tomllib.loads((HERE / "shards.toml").read_text())


def digest(paths: list[str]) -> str:
    """Returns a digest of the committed content of paths; without Git, of nothing."""
    words = ["git", "ls-tree", "-r", "HEAD", "--", *paths]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, check=False)
    return hashlib.sha256(done.stdout).hexdigest()[:16]


def locked() -> dict[str, str]:
    """Returns the digest at which each part last passed."""
    return tomllib.loads(LOCK.read_text()) if LOCK.exists() else {}


def chosen(wanted: str) -> set[str]:
    """Returns the parts that ``--shards`` names.

    Raises:
        pytest.UsageError: a name is not in `shards.toml`.
    """
    known = parts()
    if wanted == "all":
        return set(known)
    if wanted == "touched":
        return {name for name, old in locked().items() if digest(known[name]["paths"]) != old}
    names = {name for name in wanted.split(",") if name}
    if unknown := names - known.keys():
        raise pytest.UsageError(f"no such shard: {', '.join(unknown)}; known: {', '.join(known)}")
    return names


def shard_of(item: pytest.Item) -> str | None:
    """Returns the part that a test belongs to; None for a test of `make test`."""
    mark = item.get_closest_marker("full")
    return None if mark is None else str(mark.args[0])


class Shards:
    """A plugin that leaves out the tests of parts that were not asked for."""

    def __init__(self, wanted: str, *, record: bool) -> None:
        self.chosen = chosen(wanted)
        self.record = record

    def pytest_report_header(self) -> str:
        """Says which parts are played."""
        return f"parts of test-full: {', '.join(sorted(self.chosen)) or 'none'}"

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Deselects tests; refuses a mark whose part does not exist."""
        known = parts()
        for item in items:
            shard = shard_of(item)
            if shard is not None and shard not in known:
                raise pytest.UsageError(f"{item.nodeid}: no shard `{shard}` in shards.toml")
        left_out = [i for i in items if (shard_of(i) or "") not in self.chosen | {""}]
        items[:] = [item for item in items if item not in set(left_out)]
        config.hook.pytest_deselected(items=left_out)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Writes down at which content the parts have passed."""
        if not self.record or exitstatus != 0 or hasattr(session.config, "workerinput"):
            return
        found = locked() | {name: digest(parts()[name]["paths"]) for name in self.chosen}
        LOCK.write_text("".join(f'{name} = "{found[name]}"\n' for name in sorted(found)))
