"""Commands as forks of a warm process end as processes of their own do."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from conftest import Halfwink
from warm import Commands


@pytest.mark.parametrize(
    "words",
    [
        ["list", "worlds"],
        ["list", "worlds", "--json"],
        ["compare", "nosuch"],
        ["report", "."],
        ["idle", "-"],
    ],
    ids=" ".join,
)
def test_a_fork_ends_as_a_new_process_does(words: list[str], halfwink: Halfwink):
    # With an environment of its own a command is a new process.
    assert halfwink(*words) == halfwink(*words, env={})


def test_a_fork_writes_where_its_test_looks(tmp_path: Path, halfwink: Halfwink):
    words = ("hybrid", "readfile@30", "-t", "always-on", "--set", "requests=500", "-q", "-o", "out")
    assert halfwink(*words).status == 0
    assert "vegaEmbed" in (tmp_path / "out/report.html").read_text()
    # The warm process has made the script of reports, which costs more than most commands.
    assert not list((tmp_path / "cache").rglob("vega-*"))
    # Nothing of one command is left for the next.
    assert halfwink("report", "out", "-q").status == 0


def test_a_command_that_takes_too_long_is_killed(tmp_path: Path):
    # A command that does not end on any host, however fast.
    (tmp_path / "stuck.py").write_text("import time\nwhile True:\n    time.sleep(60)\n")
    words = ["compare", "nginx", "-t", "./stuck.py", "-n", "20000"]
    commands = Commands()
    with pytest.raises(subprocess.TimeoutExpired):
        commands.run(words, cwd=tmp_path, env=dict(os.environ), timeout=1)
    commands.close()
