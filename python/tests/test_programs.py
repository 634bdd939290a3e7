"""Optional programs: one list, by which they are found, asked for, installed and named."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from conftest import Halfwink, need

from halfwink import bed, programs

ROOT = Path(__file__).parents[2]
#: Where packages may be named: the list, the prerequisites, and what installs QEMU and its guest.
MAY_NAME_PACKAGES = {
    "README.md",
    "python/halfwink/programs.py",
    "python/halfwink/capture/host.py",
    "tools/bare.sh",
    "tools/install.sh",
    "tools/require.sh",
}


def test_every_program_is_named_once_with_its_packages():
    names = [program.name for program in programs.PROGRAMS]
    assert len(names) == len(set(names))
    for program in programs.PROGRAMS:
        assert program.packages, program
        assert program.used_by, program
        assert program.fix in program.missing
    for name in (*bed.NEEDS, *(name for kind in bed.KINDS for name in bed.Kind(kind).programs)):
        assert programs.find(name)


def test_packages_are_named_nowhere_else():
    folders = ("python", "benches", "tools", "xtask", ".ci")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.*") if path.is_file()]
    files = [path for path in files if path.suffix in {".py", ".rs", ".sh"}]
    assert len(files) > 100
    own = Path(__file__)
    naming = {
        str(path.relative_to(ROOT))
        for path in files
        if path != own and "apt-get install" in path.read_text()
    }
    assert naming <= MAY_NAME_PACKAGES


def test_doctor_names_all_of_them(halfwink: Halfwink):
    found = {f["what"]: f for f in halfwink("doctor", "--json").rows("findings")}
    for program in programs.PROGRAMS:
        finding = found[f"{program.used_by}: {program.name}"]
        assert finding["present"] == (program.path is not None)
        assert finding["present"] or finding["fix"] == program.fix


def test_packages_of_what_is_missing_are_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    gone = {"ping", "cc", "javac"}
    monkeypatch.setattr(programs, "which", lambda name: None if name in gone else f"/bin/{name}")
    monkeypatch.setattr(programs, "_first", lambda pattern: f"/{pattern}")
    assert programs.main() == 0
    wanted = [programs.find(name).packages for name in ("l3fwd-power", "ping")]
    assert capsys.readouterr().out.splitlines() == wanted
    # Of those that are named: benchmarks', too, but not what is here.
    assert programs.main(["javac", "tar", "ping"]) == 0
    wanted = [programs.find(name).packages for name in ("javac", "ping")]
    assert capsys.readouterr().out.splitlines() == wanted


def test_modules_are_printed_apart(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(programs, "find_spec", lambda name: None)
    assert programs.main(["-m"]) == 0
    tests = [p for p in programs.PROGRAMS if p.module and p.used_by.startswith("tests")]
    assert capsys.readouterr().out.splitlines() == [p.packages for p in tests] != []
    # What installs them has an exact version of each.
    lock = (ROOT / "requirements-tests.lock").read_text()
    for name in " ".join(p.packages for p in tests).split():
        assert re.search(rf"(?m)^{name.partition('[')[0]}==", lock), name


@pytest.mark.parametrize(
    "words", [["tar", "--version"], ["env", "PATH=/bin", "tar"], ["true", "--", "/bin/tar"]]
)
def test_nothing_is_started_that_was_not_asked_for(words: list[str]):
    with pytest.raises(AssertionError, match=r"starts tar: ask first, by need\('tar'\)"):
        subprocess.run(words, check=True, capture_output=True)
    need("tar")
    subprocess.run([*words[:1], "--version"], check=True, capture_output=True)


def test_only_what_is_listed_can_be_asked_for():
    with pytest.raises(KeyError, match="frobnicate"):
        need("frobnicate")
