"""What pip installs from a wheel, without clone or compiler: the first minute of a user."""

from __future__ import annotations

import importlib
import json
import os
import platform
import re
import resource
import subprocess
import sys
import time
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import Halfwink, lacking, need
from cyclopts import App

from halfwink.cli.main import COMMANDS, build

ROOT = Path(__file__).resolve().parents[2]
MADE_BY = ROOT / "tools/wheels.py"
#: What the base wheel must stay under, in bytes: as the suite builds it, without the link-time
#: optimisation that brings what is published below 12 MB.
LIMIT = 14_000_000

#: A wheel is built for these, with all that it links.
packages = pytest.mark.full("packages")


@dataclass(frozen=True)
class Installed:
    """A virtual environment in an empty folder, and what it has been given."""

    folder: Path
    wheels: Path

    @property
    def bin(self) -> Path:
        return self.folder / "venv/bin"

    def run(self, *words: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
        """A command of the environment, where no clone, cargo or compiler is in reach."""
        kept = ("LANG", "LD_LIBRARY_PATH", "TMPDIR")
        environment = {key: os.environ[key] for key in kept if key in os.environ}
        environment |= {"HOME": str(self.folder), "PATH": f"{self.bin}:{self.folder / 'none'}"}
        command = [self.bin / words[0], *words[1:]]
        return subprocess.run(
            [str(word) for word in command],
            cwd=self.folder / "empty",
            env=environment | more,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    def rows(self, table: str, *words: str | Path) -> list[dict[str, Any]]:
        """The rows of a table that a command prints as JSON."""
        return self.json(*words)["tables"][table]["rows"]

    def json(self, *words: str | Path) -> Any:
        """What a command prints with ``--json``."""
        done = self.run("halfwink", *words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def wheel(self, part: str) -> Path:
        """The wheel of a package."""
        (found,) = self.wheels.glob(f"{part.replace('-', '_')}-0*.whl")
        return found

    def pip(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """Runs pip on the environment, from outside: one of its own takes 4 CPU seconds to make."""
        command = [sys.executable, "-m", "pip", "--python", self.bin / "python", *words]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)

    def install(self, part: str, *options: str) -> None:
        """Installs a wheel as a user does, with the index that other tests have."""
        # Modules are compiled when a command first imports them, and most are never imported.
        words = ("install", "--quiet", "--no-input", "--no-compile", *options)
        done = self.pip(*words, self.wheel(part))
        if done.returncode and "halfwink" not in done.stderr.splitlines()[-1]:
            lacking(f"pip cannot install what halfwink needs: {done.stderr.splitlines()[-1]}")
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of them, of what `make setup` has built."""
    if not (ROOT / "tools/packaging").is_dir():
        lacking("wheels are made in a clone")
    folder = tmp_path_factory.mktemp("wheels")
    done = subprocess.run(
        [sys.executable, MADE_BY, "--profile", "release", "--out", folder],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    return folder


@pytest.fixture(scope="module")
def installed(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The base wheel, and nothing else of halfwink."""
    folder = tmp_path_factory.mktemp("first minute")
    (folder / "empty").mkdir()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    found = Installed(folder, wheels)
    begun = time.monotonic()
    found.install("halfwink")
    print(f"installed in {time.monotonic() - begun:.1f} s")
    return found


@pytest.fixture
def grown(installed: Installed) -> Any:
    """Installs more for one test."""
    added: list[str] = []

    def install(part: str) -> None:
        installed.install(part, "--no-deps")
        added.append(part)

    yield install
    for part in added:
        done = installed.pip("uninstall", "--quiet", "--yes", part)
        assert done.returncode == 0, done.stderr


@packages
def test_one_line_gives_one_answer(installed: Installed) -> None:
    words = ("compare", "nginx", "--technique", "idle-gate,tap", "-n", "3000000")
    begun = time.monotonic()
    done = installed.run("halfwink", *words)
    print(f"first chart after {time.monotonic() - begun:.1f} s")
    assert done.returncode == 0, done.stderr
    assert "tap" in done.stdout
    (report,) = (installed.folder / "empty/halfwink-out").rglob("report.html")
    assert "vega" in report.read_text()
    document = installed.json(*words)
    names = re.findall(r'"technique": "([a-z-]+)"', json.dumps(document))
    assert {"idle-gate", "tap"} <= set(names)


@packages
def test_lists_are_those_of_the_clone(installed: Installed, halfwink: Halfwink) -> None:
    for what in ("techniques", "machines", "studies", "targets", "mutants", "networks"):
        assert installed.json("list", what) == halfwink("list", what, "--json").json(), what


@packages
def test_doctor_says_what_pip_adds(installed: Installed, grown: Any) -> None:
    def found() -> dict[str, dict[str, Any]]:
        findings = installed.rows("findings", "doctor")
        return {finding["what"]: finding for finding in findings}

    at = found()["recorded workloads"]
    assert str(installed.folder) in at["detail"]
    assert not at["fix"]
    for what in ("live: all of it", "energy meter"):
        finding = found()[what]
        assert (finding["present"], finding["fix"]) == (False, "pip install halfwink-live")
    done = installed.run("halfwink", "measure")
    assert done.returncode == 2
    assert "is missing; run: pip install halfwink-live" in done.stderr
    assert found()["capture: sources"]["fix"] == "pip install halfwink-capture"

    grown("halfwink-live")
    grown("halfwink-capture")
    listed = found()
    for what in ("block devices", "circuits in virtual time", "preload library"):
        assert listed[f"live: {what}"]["present"], listed[f"live: {what}"]
    for name in ("router", "steer", "block"):
        done = installed.run(f"halfwink-{name}", "--help")
        assert done.returncode == 0, done.stderr
        assert "Usage" in done.stdout
    assert "capture: sources" not in found()


@packages
def test_other_recordings_come_with_another_wheel(installed: Installed, grown: Any) -> None:
    line = "the recording `redis` is not installed; run: pip install halfwink-workloads"
    for words in (["compare", "nginx+redis"], ["sample", "redis"]):
        done = installed.run("halfwink", *words)
        assert (done.returncode, done.stderr.strip()) == (2, f"halfwink: {line}")
    # One number: all of gating would first play what needs no recording.
    done = installed.run("halfwink", "reproduce", "strong/PT-2.19", "--json")
    assert done.returncode == 2
    assert done.stderr.strip().endswith("is not installed; run: pip install halfwink-workloads")

    grown("halfwink-workloads")
    listed = installed.rows("workloads", "list", "workloads")
    names = {w["name"] for w in listed if w.get("kind") == "trace"}
    assert names >= {path.stem for path in (ROOT / "workloads").glob("*.hwt")}
    done = installed.run("halfwink", "compare", "redis", "-t", "tap", "-n", "1000000")
    assert done.returncode == 0, done.stderr


@packages
def test_a_small_area_is_reproduced(installed: Installed) -> None:
    targets = installed.rows("targets", "reproduce", "switching")
    verdicts = {target["verdict"] for target in targets}
    assert "match" in verdicts, verdicts
    assert all(target["id"] and target["area"] == "switching" for target in targets)


@packages
def test_without_its_data_it_says_so(installed: Installed) -> None:
    done = installed.run("halfwink", "list", "machines", HALFWINK_HOME=str(installed.folder))
    assert done.returncode == 2
    assert "no machines, workloads, studies and targets in $HALFWINK_HOME" in done.stderr


@packages
def test_manual_pages_stand_beside_their_programs(installed: Installed, wheels: Path) -> None:
    page = installed.folder / "venv/share/man/man1/halfwink.1"
    assert page.read_bytes() == (ROOT / "docs/man/halfwink.1").read_bytes()
    (live,) = wheels.glob("halfwink_live-*.whl")
    with zipfile.ZipFile(live) as archive:
        names = [Path(name) for name in archive.namelist()]
    programs = {path.name for path in names if path.parent.name == "scripts"}
    assert {path.stem for path in names if path.parent.name == "man1"} == programs


def test_a_wheel_for_another_machine_is_the_base_wheel_alone() -> None:
    other = "aarch64" if platform.machine() == "x86_64" else "x86_64"
    for words in (["base"], ["--zig"], ["--zig", "base", "live"]):
        script = [sys.executable, MADE_BY, "--machine", other, *words]
        done = subprocess.run(script, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert f"--machine {other}: expected --zig, and base alone" in done.stderr


def test_notes_of_a_release_are_its_section_of_the_changes(tmp_path: Path) -> None:
    for name in ("tools/release_notes.sh", "Cargo.toml", "CHANGELOG.md"):
        copied = tmp_path / name
        copied.parent.mkdir(exist_ok=True)
        copied.write_bytes((ROOT / name).read_bytes())

    def notes(version: str) -> subprocess.CompletedProcess[str]:
        script = ["sh", tmp_path / "tools/release_notes.sh", version]
        return subprocess.run(script, capture_output=True, text=True, check=False)

    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    changes = tmp_path / "CHANGELOG.md"
    changes.write_text(
        f"# Changes\n\n## Unreleased\n\n* a\n\n## {version}\n\n* b\n\n## 0.0.1\n\n* c\n"
    )
    assert (notes(version).stdout.strip(), notes(version).returncode) == ("* b", 0)
    assert "Cargo.toml: expected version" in notes("99.0.0").stderr
    changes.write_text(f"## {version}\n\n## 0.0.1\n\n* c\n")
    assert f"expected a section ## {version} with notes" in notes(version).stderr
    assert notes(version).returncode == 1


@packages
@pytest.mark.parametrize(
    ("part", "crate", "own"),
    [("halfwink", "pyo3", "halfwink-py"), ("halfwink-live", "rustls", "halfwink-daemon")],
)
def test_a_wheel_names_the_crates_in_it(wheels: Path, part: str, crate: str, own: str) -> None:
    (wheel,) = wheels.glob(f"{part.replace('-', '_')}-0*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (place,) = [name for name in archive.namelist() if "/sboms/" in name]
        found = json.loads(archive.read(place))
    assert place.endswith(f".dist-info/sboms/{part}.cdx.json")
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.5")
    parts = {one["name"]: one for one in found["components"]}
    # Tests alone use the last one.
    assert {crate, own} <= set(parts)
    assert "proptest" not in parts
    locked = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    sums = {one.get("checksum") for one in locked}
    assert {one["hashes"][0]["content"] for one in parts.values() if "purl" in one} <= sums
    assert "purl" not in parts[own]
    references = {one["bom-ref"] for one in found["components"]}
    for one in found["dependencies"]:
        assert set(one["dependsOn"]) <= references


@packages
def test_help_imports_no_data_frames(installed: Installed) -> None:
    done = installed.run("python", "-X", "importtime", "-m", "halfwink", "--help")
    assert done.returncode == 0
    heavy = [name for name in ("polars", "altair", "rich.progress") if f" {name}\n" in done.stderr]
    assert not heavy
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    installed.run("halfwink", "--help")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
    print(f"`halfwink --help` takes {spent:.2f} s of a CPU; the goal is 0.3")


def test_the_short_help_of_commands_is_theirs() -> None:
    for name, (place, summary) in COMMANDS.items():
        module, _, attribute = place.partition(":")
        found = getattr(importlib.import_module(f"halfwink.cli.{module}"), attribute)
        said = found.help if isinstance(found, App) else found.__doc__.split("\n\n")[0]
        assert " ".join(said.split()) == summary, name
    app = build("capture")
    assert "A program of your own" in app["capture"].help
    assert app["compare"].help == COMMANDS["compare"][1]


@packages
def test_wheels_are_small_and_their_tag_is_true(wheels: Path) -> None:
    (base,) = wheels.glob("halfwink-0*.whl")
    assert base.stat().st_size < LIMIT
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
            contents = [archive.read(name) for name in names]
        # A static program needs no glibc, yet its wheel is of one machine.
        programs = [content for content in contents if content[:4] == b"\x7fELF"]
        needed = {
            int(minor) for content in programs for minor in re.findall(rb"GLIBC_2\.(\d+)", content)
        }
        tags = re.findall(r"manylinux_2_(\d+)", wheel.name)
        assert bool(programs) == bool(tags), wheel.name
        assert not needed or max(needed) <= int(tags[0]), wheel.name
        assert not any("/target/" in name or name.startswith("python/") for name in names)


@packages
def test_sources_hold_what_their_wheel_is_built_of(wheels: Path, tmp_path: Path) -> None:
    (archive,) = wheels.glob("*.tar.gz")
    # Not by tarfile: Debian 12's Python has no filters there, and later ones ask for one.
    need("tar")
    subprocess.run(["tar", "-xf", archive, "-C", tmp_path], check=True)
    (folder,) = tmp_path.iterdir()
    for place in ("machines", "studies", "targets", "workloads", "tools/packaging", "docs/man"):
        there = {str(path.relative_to(folder)) for path in (folder / place).rglob("*.*")}
        listed = subprocess.run(
            ["git", "-C", ROOT, "ls-files", place], capture_output=True, text=True, check=True
        )
        assert not {p for p in listed.stdout.split() if p.count(".")} - there, place
    done = subprocess.run(
        ["cargo", "metadata", "--locked", "--format-version=1", "--no-deps", "--quiet"],
        cwd=folder / "crates/py",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
