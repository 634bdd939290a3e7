"""The recipe of a conda package has the version, requirements and licence of the wheel."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
RECIPE = (ROOT / "tools/conda/recipe.yaml").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CARGO = tomllib.loads((ROOT / "Cargo.toml").read_text())


def listed(part: str) -> list[str]:
    """The packages of a part of its requirements, without blanks."""
    [block] = re.findall(rf"(?m)^  {part}:\n((?:    - .*\n)+)", RECIPE)
    return [line.replace(" ", "").removeprefix("-") for line in block.splitlines()]


def test_version_is_that_of_the_workspace():
    version = CARGO["workspace"]["package"]["version"]
    assert re.findall(r'(?m)^  version: "(.*)"$', RECIPE) == [version]


def test_requirements_are_those_of_the_wheel():
    project = PROJECT["project"]
    python = f"python{project['requires-python']}"
    assert listed("run") == [python, *project["dependencies"]]
    assert listed("host") == [python, "pip", *PROJECT["build-system"]["requires"]]


def test_licence_and_its_files_are_those_of_the_wheel():
    [files] = re.findall(r"license_file: \[(.*)\]", RECIPE)
    assert files.split(", ") == PROJECT["project"]["license-files"]
    assert f"  license: {PROJECT['project']['license']}\n" in RECIPE
