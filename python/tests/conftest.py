"""What tests share."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

REQUIRED = bool(os.environ.get("HALFWINK_REQUIRE_ALL"))


def need(program: str, fix: str) -> str:
    """The path of a program; else skips with the line that adds it, or fails if required."""
    path = shutil.which(program)
    if path is None:
        message = f"{program} is missing; run: {fix}"
        if REQUIRED:
            pytest.fail(message)
        pytest.skip(message)
    return path


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    status: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def complaint(self) -> str:
        """The one line of an error."""
        lines = self.err.strip().splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("halfwink: ")
        return lines[0].removeprefix("halfwink: ")


Halfwink = Callable[..., Done]


@pytest.fixture
def halfwink(tmp_path: Path) -> Halfwink:
    """Runs the command line in an empty folder."""

    def run(*words: str, env: dict[str, str] | None = None, timeout: float = 300) -> Done:
        cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
        done = subprocess.run(
            [sys.executable, "-m", "halfwink", *words],
            cwd=tmp_path,
            env=os.environ | cache | (env or {}),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    return run
