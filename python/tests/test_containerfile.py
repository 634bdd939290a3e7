"""The recorder's Containerfile: no package of its own, only files and commands that there are."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from conftest import Halfwink, tool

from halfwink import programs

ROOT = Path(__file__).parents[2]
FILE = ROOT / "capture/Containerfile"


def instructions() -> list[tuple[str, str]]:
    """Its instructions with their words, lines that go on joined."""
    text = re.sub(r"(?m)^#.*\n", "", FILE.read_text()).replace("\\\n", " ")
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line.strip()]
    return [(name, words) for name, words in lines]


def of(kind: str) -> list[str]:
    return [words for name, words in instructions() if name == kind]


def substitutions() -> list[str]:
    """What shells compute in it: the packages."""
    return re.findall(r"\$\(((?:[^()']|'[^']*')*)\)", " ".join(of("RUN")))


def test_it_is_debian_12_by_default():
    assert [name for name, _ in instructions()][:2] == ["ARG", "FROM"]
    assert of("ARG") == ["BASE=docker.io/library/debian:12"]
    assert of("FROM") == ["${BASE}"]


def test_it_names_no_package():
    plain = " && ".join(of("RUN"))
    for inner in substitutions():
        plain = plain.replace(f"$({inner})", "@")
    installed = [words for words in plain.split("&&") if re.search(r"apt-get\s+install", words)]
    assert len(installed) == 2
    for words in installed:
        rest = [w for w in shlex.split(words)[2:] if not w.startswith("-")]
        assert rest == ["@"], words


def test_the_packages_are_those_of_the_readme_and_of_the_list(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    prerequisites, listed = substitutions()
    found = subprocess.run(
        ["sh", "-c", prerequisites], cwd=ROOT, capture_output=True, text=True, check=True
    )
    line = re.search(
        r"(?m)^ {4}apt-get\s+install -y ([a-z0-9 .+-]+)$", (ROOT / "README.md").read_text()
    )
    assert line is not None
    assert found.stdout.split() == line[1].split()
    # A bare Debian is made by the same line.
    assert prerequisites.split("README.md")[0] in (ROOT / "tools/bare.sh").read_text()
    command, *names = listed.split("programs.py")
    assert command == "python3 -I "
    monkeypatch.setattr(programs, "which", lambda _: None)
    assert programs.main(names[0].split()) == 0
    wanted = [programs.find(name) for name in names[0].split()]
    assert capsys.readouterr().out.splitlines() == [program.packages for program in wanted]
    assert all(program.used_by.startswith("capture") for program in wanted)


def test_what_it_copies_is_there_or_made_by_make_wheels():
    wheels = tool("wheels")
    for words in of("COPY"):
        for source in words.split()[:-1]:
            if source.startswith("dist/"):
                part = source.removeprefix("dist/").removesuffix("-*.whl").replace("_", "-")
                assert part in re.findall(r"^    (halfwink\S*) ", str(wheels.__doc__), re.M)
            else:
                assert (ROOT / source).is_file(), source


def test_its_commands_are_taken(halfwink: Halfwink):
    assert of("ENTRYPOINT") == ['["halfwink", "capture"]']
    ran = [w.strip() for words in of("RUN") for w in words.split("&&") if "halfwink capture" in w]
    assert ran == ["halfwink capture --set-up"]
    told = halfwink("capture", "--help").out
    assert "--set-up" in told


def test_actions_of_workflows_are_named_by_digest():
    # A tag can be moved to other content.
    used = [
        line.split("uses:")[1].strip()
        for workflow in sorted((ROOT / ".github/workflows").glob("*.yml"))
        for line in workflow.read_text().splitlines()
        if "uses:" in line
    ]
    assert used
    assert [it for it in used if not re.search(r"@[0-9a-f]{40} # v\d", it)] == []
