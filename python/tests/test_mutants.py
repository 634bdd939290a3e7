"""Models broken on purpose, and what verdicts make of it."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Halfwink
from rich.console import Console

import halfwink as hw
from halfwink import _core
from halfwink.cli import console as console_module
from halfwink.cli import reproduce as reproduce
from halfwink.library import library, root
from halfwink.targets import mutants, mutation, score


@pytest.mark.parametrize(
    "area",
    [
        "strong/PT-2.7",
        *(
            pytest.param(a, marks=pytest.mark.full("mutants"))
            for a in ("switching", "router", "hybrid")
        ),
    ],
)
def test_quick_mutants_kill_what_they_are_known_to_kill(area: str) -> None:
    found = mutants(area, quick=True)
    assert found.mutants
    targets = [target for target in library().targets() if target["id"] in found.met]
    for name, killed in found.killed.items():
        rows: dict[str, int] = {}
        for target in targets:
            more = int(target["id"] in killed) - int(name in target["killed_by"])
            row = score.row_of(target)
            rows[row] = rows.get(row, 0) + more
        fallen = [row for row, more in rows.items() if more < 0]
        assert not fallen, f"{name} kills fewer than are recorded; look why, then --record"


@pytest.mark.full("mutants")
def test_a_mutant_of_the_chip_kills() -> None:
    """Without its mechanism a technique saves nothing."""
    found = mutants("strong/PT-2.23", only=["nothing-gates"])
    assert found.killed["nothing-gates"], "targets are met although nothing is gated"


def test_what_a_mutant_breaks_can_still_be_asked() -> None:
    """A machine that is refused would end a run of all mutants, and kill nothing."""
    readers: dict[str, Callable[[_core.Library, str], object]] = {
        "": lambda found, name: found.machine(name, []),
        "pdn": lambda found, name: found.network(name, []),
        "router": lambda found, name: found.router(name, []),
        "server": lambda found, name: found.server(name, []),
        "switching": lambda found, name: found.switching(name, []),
    }
    for mutant in library().mutants():
        broken = library().mutated(mutant["name"])
        for folder, read in readers.items():
            for path in sorted((root() / "machines" / folder).glob("*.toml")):
                read(broken, path.stem)


def test_mutant_that_changes_nothing_is_an_error_by_name() -> None:
    named = [{"name": "dead-key", "what": "nothing", "breaks": "input"}]
    found = mutation.Mutants(named, ["a"], ["a"], {"dead-key": []}, ["dead-key"])
    with pytest.raises(hw.RunError, match="change no target's value: dead-key"):
        mutation.record(found)


def test_mutant_with_a_dead_key_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that nothing reads moves no value; one that something reads moves some."""
    known = {m["name"]: m for m in library().mutants()}
    played = {m: {"a": 1.0, "b": float(m == "free-switches")} for m in [None, *known]}
    targets = [
        {"id": id, "area": "switching", "compute": {"from": ["experiment x"]}} for id in "ab"
    ]
    monkeypatch.setattr(mutation, "select", lambda *_: targets)
    monkeypatch.setattr(mutation, "_met", lambda values: dict.fromkeys(["a"]))
    monkeypatch.setattr(mutation, "_played", lambda _: targets)
    monkeypatch.setattr(
        mutation,
        "compute",
        lambda some, *, mutant, **_: {t["id"]: played[mutant][t["id"]] for t in some},
    )
    only = ["free-switches", "switches-times-three"]
    assert mutants("switching", only=only).idle == ["switches-times-three"]


def test_what_a_mutant_moves_is_added_to_the_whole_study() -> None:
    moved = mutation.moved_value
    assert moved(10.0, 8.0, 9.0) == 11.0
    assert moved(1.0, 1.0, 0.0) == 0.0
    assert moved(10.0, 8.0, None) is None
    # A short study that says nothing charges nobody.
    assert moved(10.0, None, None) == 10.0


def test_mutants_through_the_command_line(halfwink: Halfwink) -> None:
    done = halfwink("reproduce", "mogul/T3.1", "--mutants", "--json")
    table = done.json()["facts"]
    assert {"met", "insensitive", "idle", "score_pct"} == set(table)
    killed = {id for mutant in done.rows("mutants") for id in mutant["killed"]}
    assert killed <= set(table["met"])
    assert set(table["insensitive"]) == set(table["met"]) - killed


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("--mutants", "--mutant", "free-swiches"),
            "unknown mutant `free-swiches`; did you mean `free-switches`?",
        ),
        (("--record",), "--mutant and --record go with --mutants"),
        (("strong/PT-2.13", "--mutants"), "no mutant is listed for these targets"),
    ],
)
def test_wrong_questions_are_one_line(
    halfwink: Halfwink, arguments: tuple[str, ...], said: str
) -> None:
    done = halfwink("reproduce", *arguments)
    assert done.status == 2
    assert said in done.complaint


def _entry(verdict: str, **more: Any) -> dict[str, Any]:
    entry = {"id": "strong/X", "area": "gating", "class": "shape", "held_out": False}
    entry |= {"unit": "%", "killed_by": ["nothing-gates"] if verdict == "holds" else []}
    null = {"text": "nothing", "value": 0.0, "met": False}
    return {**entry, "published": 10.0, "ours": 12.0, "verdict": verdict, "null": null, **more}


@pytest.mark.parametrize("width", [60, 80, 200])
def test_names_and_verdicts_are_whole_at_any_width(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = io.StringIO()
    console = Console(width=width, file=screen, highlight=False)
    monkeypatch.setattr(console_module, "out", console)
    monkeypatch.setattr(reproduce, "stdout", console)
    entries = [
        {
            **_entry("insensitive", held_out=True),
            "id": "strong/PT-3.13/10g/sim-cs-slow-16-kb/unmod",
        },
        _entry("holds"),
    ]
    for entry in entries:
        entry |= {"unit": "points", "quantity": "a quantity that takes many words to say " * 2}
    reproduce._print_entries(entries)  # pyright: ignore[reportPrivateUsage]
    lines = screen.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    text = screen.getvalue()
    assert entries[0]["id"] in text
    assert "insensitive*" in text
    assert "holds" in text


def test_scores_count_predictions_alone() -> None:
    entries = [
        _entry("holds", held_out=True),
        _entry("fails", ours=30.0),
        _entry("insensitive"),
        _entry("arithmetic", null=None),
        _entry("miss", null=None),
        _entry("contradicted", null=None),
        _entry("calibrated", null=None),
    ]
    found = score.score("x", entries)
    assert (found.good, found.judged) == (1, 2)
    assert (found.held_out_good, found.held_out_judged) == (1, 1)
    assert found.mutation_score_pct == 50.0
    # Only techniques count.
    entries[0]["killed_by"] = ["dear-wake-ups"]
    assert score.score("x", entries).mutation_score_pct == 0.0
    assert found.median_error_pct == pytest.approx(20.0)
    assert found.apart["arithmetic"] == found.apart["contradicted"] == 1


def test_tables_are_told_from_what_is_kept() -> None:
    script = [sys.executable, str(root() / "tools/target_tables.py"), "--check"]
    done = subprocess.run(script, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.full("reproduce")
def test_everything_is_reproduced_as_it_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever changes a number of ours changes targets/ours.csv, so that a reviewer sees it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with (root() / "targets/ours.csv").open() as file:
        kept = {
            row["id"]: float(row["ours"]) if row["ours"] else None for row in csv.DictReader(file)
        }
    found = {e["id"]: None if e["ours"] is None else float(e["ours"]) for e in hw.reproduce()}
    assert found.keys() == kept.keys()
    close = {
        id: (ours is None) == (kept[id] is None)
        and (ours is None or ours == pytest.approx(kept[id], rel=1e-6))
        for id, ours in found.items()
    }
    assert all(close.values()), [id for id, same in close.items() if not same][:10]
