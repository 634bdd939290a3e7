"""Completion: what could come next, and that shells ask for it when somebody presses TAB."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import Halfwink, need
from cyclopts import App

from halfwink.cli.completing import FILES, OTHERWISE, candidates
from halfwink.cli.main import build
from halfwink.cli.worlds import WORLD


def words(line: str) -> list[str]:
    """What could follow a line, without what it is."""
    return [told.split("\t")[0] for told in candidates(line.split(" ")).lines()]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("comp", ["compare", "completion"]),
        ("trace in", ["info"]),
        ("live resctrl pl", ["plan"]),
        ("compare ngin", ["nginx", "nginx-10pct", "nginx-1pct", "nginx-50pct", FILES]),
        ("compare gcc nginx-5", ["nginx-50pct", FILES]),
        ("compare gcc+nginx-5", ["gcc+nginx-50pct", FILES]),
        ("compare nginx --te", ["--technique"]),
        ("compare nginx -t tap", ["tap", "tap-or-mapg"]),
        ("compare nginx -t idle-menu,orac", ["idle-menu,oracle"]),
        ("compare nginx --technique=orac", ["--technique=oracle"]),
        ("compare nginx -t all-ga", ["all-gating"]),
        ("compare nginx -m golden", ["golden-cove", FILES]),
        # Neither an option's value nor a flag is a workload.
        ("compare -m ev6 --json -q nginx-5", ["nginx-50pct", FILES]),
        ("compare x -w rou", ["router"]),
        ("compare x -w router -m west", ["westmere", FILES]),
        ("compare x --world=router -t power-save-", ["power-save-in-order"]),
        ("compare nope -w nowhere -t t", []),
        ("router -t grout", ["grout", "grout-rss"]),
        ("hybrid -m nicc", ["niccolini", FILES]),
        ("hybrid ks", ["ksort", FILES]),
        ("circuits advise web-s", ["web-search"]),
        ("circuits advise web-search -m opera-6", ["opera-648"]),
        ("storage simulate -t multi", ["multi-queue"]),
        ("preheat simulate nginx-5", ["nginx-50pct"]),
        ("run gating-st", ["gating-stagger", "gating-stream", FILES]),
        ("reproduce seg", ["segregation"]),
        ("trace info nginx-5", ["nginx-50pct", FILES]),
        ("trace export nginx --format dr", ["drmemtrace"]),
        ("trace import ", [FILES]),
        ("capture java", ["java-shop"]),
        ("list tech", ["techniques"]),
        ("completion z", ["zsh"]),
        ("compare nginx -n ", []),
        ("capture -- ./my", [FILES]),
        ("nosuch ", []),
    ],
)
def test_what_could_come_next(line: str, expected: list[str]) -> None:
    assert words(line) == expected


def test_each_word_says_what_it_is() -> None:
    lines = candidates(["compare", "nginx", "-t", "tap"]).lines()
    assert lines[0].startswith("tap\tgates for as long as")


def test_places_that_are_special_are_places() -> None:
    def arguments(app: App, path: str) -> set[str]:
        for word in path.split():
            app = app[word]
        collection = app.assemble_argument_collection()
        return {argument.field_info.name for argument in collection}

    for place in OTHERWISE:
        path, _, name = place.rpartition(" ")
        assert name in arguments(build(), path), place
    for path in WORLD:
        app = build()
        for word in path.split():
            app = app[word]


def test_no_shell_hears_of_a_mistake(halfwink: Halfwink) -> None:
    done = halfwink("compare", "nope", "-w", "nowhere", "-t", "", env={"HALFWINK_COMPLETES": "1"})
    assert (done.status, done.out, done.err) == (0, "", "")
    # Nothing is run.
    done = halfwink("compare", "alu", env={"HALFWINK_COMPLETES": "1"})
    assert done.out.splitlines()[-1] == FILES
    assert "always-on" not in done.out


@pytest.fixture
def shell_home(tmp_path: Path) -> Path:
    """A folder with `halfwink`, its scripts, and a recording."""
    command = tmp_path / "halfwink"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m halfwink "$@"\n')
    command.chmod(0o755)
    for shell in ("bash", "zsh", "fish"):
        done = subprocess.run(
            [command, "completion", shell], capture_output=True, text=True, check=True
        )
        (tmp_path / f"script.{shell}").write_text(done.stdout)
    (tmp_path / "mine.hwt").write_bytes(b"")
    return tmp_path


def at_terminal(shell: list[str], set_up: str, home: Path, typed: str, until: str) -> str:
    """What a shell shows of a line as somebody types it, up to what is waited for."""
    primary, secondary = pty.openpty()
    environment = os.environ | {"HOME": str(home), "PATH": f"{home}:{os.environ['PATH']}"}
    environment |= {"TERM": "dumb", "PS1": "ready> ", "ZDOTDIR": str(home)}
    running = subprocess.Popen(
        shell,
        cwd=home,
        env=environment,
        stdin=secondary,
        stdout=secondary,
        stderr=secondary,
        start_new_session=True,
    )
    os.close(secondary)
    shown = ""

    def read(text: str) -> None:
        nonlocal shown
        end = time.monotonic() + 120
        while text not in shown:
            there, _, _ = select.select([primary], [], [], max(0.0, end - time.monotonic()))
            assert there, shown
            shown += os.read(primary, 4096).decode(errors="replace")

    try:
        os.write(primary, f"{set_up}; echo is''up\n".encode())
        read("isup")
        shown = ""
        os.write(primary, typed.encode())
        read(until)
    finally:
        running.kill()
        running.wait()
        os.close(primary)
    return shown


@pytest.mark.parametrize(
    ("typed", "until"),
    [
        ("halfwink compare nginx-5\t", "nginx-50pct "),
        ("halfwink compare nginx-50pct -t idle-menu,orac\t", "idle-menu,oracle "),
        # Bash splits words at `=` and `:`.
        ("halfwink compare nginx-50pct --technique=orac\t", "--technique=oracle "),
        ("halfwink run x --executor dask:\t", "dask://"),
        ("halfwink compare nginx -t tap\t\t", "tap-or-mapg"),
        ("halfwink trace info mine.h\t", "mine.hwt "),
    ],
)
def test_bash_completes_at_a_tab(shell_home: Path, typed: str, until: str) -> None:
    bash = ["bash", "--norc", "--noprofile", "-i"]
    at_terminal(bash, "source ./script.bash", shell_home, typed, until)


def test_zsh_completes_at_a_tab(shell_home: Path) -> None:
    zsh = [need("zsh"), "-f", "-i"]
    ready = "bindkey -e; autoload -Uz compinit; compinit -u -D; source ./script.zsh"
    for line, until in (
        ("halfwink compare nginx-5", "\nhalfwink compare nginx-50pct"),
        (
            "halfwink compare nginx -t idle-menu,orac",
            "\nhalfwink compare nginx -t idle-menu,oracle",
        ),
    ):
        # It draws a line piece by piece: it shall print the whole one.
        at_terminal(zsh, ready, shell_home, f"{line}\t\x01echo \r", until)


def test_fish_completes(shell_home: Path) -> None:
    lines = ("halfwink compare nginx-5", "halfwink trace info mine.h")
    told = "source script.fish; " + "; ".join(f"complete -C '{line}'" for line in lines)
    done = subprocess.run(
        [need("fish"), "--no-config", "-c", told],
        cwd=shell_home,
        env=os.environ | {"HOME": str(shell_home), "PATH": f"{shell_home}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    found = [line.split("\t")[0] for line in done.stdout.splitlines()]
    assert found == ["nginx-50pct", "mine.hwt"], done
