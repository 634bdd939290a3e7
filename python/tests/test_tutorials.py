"""Tutorials and some how-to guides: every command runs, and prints what the page says."""

from __future__ import annotations

import os
import re
import shutil
import socket
from pathlib import Path

import pytest
from conftest import lacking, need, need_recorder
from dialogue import blocks, matches, play

from halfwink.doctor import WASM
from halfwink.doctor import _has_target as has_target
from halfwink.library import cache_dir

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs/tutorials"
#: How-to guides and others that have dialogues, beside the tutorials.
PLAYED = {
    "advise",
    "drmemtrace",
    "figures",
    "gallery",
    "idle",
    "json",
    "logs",
    "own-policy",
    "record",
    "resctrl",
    "sampling",
    "studies",
    "verdict",
}
#: Folders of the clone that how-to guides read. A tutorial needs none.
CLONE = ("crates", "workloads")
#: The port that a page names; tests take a free one.
PORT = "8480"
PAGES = sorted(path.stem for path in FOLDER.glob("*.md") if path.stem != "index")


def played(
    name: str, folder: Path, *, cache: Path | None = None, port: int = 0, clone: bool = False
) -> int:
    """Plays a page in an empty folder; returns the number of its commands.

    Args:
        name: the page, relative to the tutorials.
        folder: where its files go.
        cache: what was built before (the recorder); a new one if none is named.
        port: in place of the port that the page names.
        clone: the folder has links to `CLONE`, as if it were a clone.
    """
    home, work = folder / "home", folder / "work"
    kept = home / "cache/halfwink"
    for new in (kept, work):
        new.mkdir(parents=True)
    for linked in CLONE if clone else ():
        (work / linked).symlink_to(ROOT / linked)
    # The script of reports, which takes two seconds of a CPU to make.
    for script in cache_dir().glob("vega-*.js"):
        shutil.copy(script, kept)
    env = {"HOME": str(home), "XDG_CACHE_HOME": str(cache or home / "cache")}
    # Where Rust is, wherever the user's own folder is.
    for variable, place in (("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")):
        env[variable] = os.environ.get(variable) or str(Path.home() / place)
    page = folder / f"{Path(name).name}.md"
    page.write_text((FOLDER / f"{name}.md").read_text().replace(PORT, str(port or PORT)))
    return play(page, work, env | {"HALFWINK_HOME": str(ROOT)})


def test_first_chart(tmp_path: Path):
    assert played("first-chart", tmp_path) >= 4


def test_cluster_sweep(tmp_path: Path):
    assert played("cluster-sweep", tmp_path) >= 9


def test_live_proxy(tmp_path: Path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert played("live-proxy", tmp_path, port=port) >= 12


@pytest.mark.full("docs")
@pytest.mark.parametrize("name", sorted(PLAYED))
def test_how_to(name: str, tmp_path: Path):
    cache = None
    if name == "record":
        need_recorder()
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    assert played(f"../{name}", tmp_path, cache=cache, clone=True) > 0


def test_each_how_to_with_dialogues_is_played():
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")}
    assert {n for n in pages if "```console\n" in (ROOT / f"docs/{n}.md").read_text()} == PLAYED


@pytest.mark.full("docs")
def test_paper_figure(tmp_path: Path):
    assert played("paper-figure", tmp_path) >= 5


@pytest.mark.full("docs")
def test_own_service(tmp_path: Path):
    need("gcc")
    need_recorder()
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    assert played("own-service", tmp_path, cache=Path(cache)) >= 7


@pytest.mark.full("docs")
def test_own_policy(tmp_path: Path):
    need("rustc")
    if not has_target(WASM):
        lacking(f"the Rust target {WASM} is missing; run: rustup target add {WASM}")
    assert played("own-policy", tmp_path) >= 12


@pytest.mark.parametrize("name", PAGES)
def test_tutorial_has_dialogues_files_and_nothing_else(name: str):
    found = blocks((FOLDER / f"{name}.md").read_text())
    assert any(block.language == "console" for block in found)
    for block in found:
        assert block.title or block.language in ("console", "text"), block
    assert f"def test_{name.replace('-', '_')}(" in Path(__file__).read_text()


@pytest.mark.parametrize("name", PAGES)
def test_tutorial_says_for_whom_it_is_and_what_to_read_next(name: str):
    text = (FOLDER / f"{name}.md").read_text()
    first = text.split("\n\n")[1]
    assert re.match(r"This tutorial is for \w+", first)
    assert re.search(r"\bminutes?\b", first)
    assert text.count("\n## What to read next\n") == 1


def test_other_output_is_refused(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("# A\n\n```console\n$ echo one two\none three\n```\n")
    said = re.escape("page.md:4: 'echo one two' printed\none two\n")
    with pytest.raises(AssertionError, match=said):
        play(page, tmp_path, {})
    page.write_text("# A\n\n```console\n$ false\n```\n")
    with pytest.raises(AssertionError, match="ended with status 1"):
        play(page, tmp_path, {})


def test_page_plays_in_one_shell(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text(
        '```text title="a.txt"\nhere\n```\n\n```console\n$ mkdir b && cd b\n$ sleep 60 &\n'
        "$ cat \\\n  ../a.txt\nhere\n$ jobs\n[1]+  Running ... sleep 60 &\n```\n"
    )
    assert play(page, tmp_path, {}) == 4


def test_dots_stand_for_any_text():
    assert matches(["a", "...", "c 1... s"], ["a", "b", "b", "c 12.5 s  "])
    assert matches(["a", "..."], ["a"])
    assert not matches(["a", "..."], ["b"])
    assert not matches(["a... s"], ["a", "b s"])
    assert not matches(["a"], ["a", "b"])
