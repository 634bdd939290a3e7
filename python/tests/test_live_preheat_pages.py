"""Pages of real servers that stood still: what putting them back is worth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import Halfwink, lacking, need, undisturbed

from halfwink.errors import HalfwinkError
from halfwink.live import native
from halfwink.live import preheat as live_preheat

CLASSES = ["warm", "stopped", "dropped", "replayed", "ahead", "sham"]
NEEDED = ("preheat: pages of servers", "preheat: stopped servers")


@pytest.fixture(autouse=True)
def _can_drop_pages() -> None:
    try:
        live_preheat.preload_library()
        live_preheat.cpus()
    except HalfwinkError as error:
        lacking(str(error))
    for what, why in native.live_features():
        if what in NEEDED and why:
            lacking(f"{what}: {why}", kernel=True)


def disorder(found: dict[str, Any]) -> str | None:
    """What is not as it should be about the measured classes, if anything."""
    for table in found["tables"]:
        rows = {row["class"]: row for row in table["classes"]}
        assert list(rows) == CLASSES
        p50 = {name: row["p50"]["value"] for name, row in rows.items()}
        if not p50["warm"] < p50["ahead"] < p50["dropped"]:
            return f"not warm < ahead < dropped: {table}"
        p = [table["p_stopped_dropped"], table["p_ahead_dropped"]]
        if table["kind"] == "own memory on disk":
            # Of several places on the disk it is worth reading at once even as the request waits;
            # what nginx needs comes with its first fault.
            if found["server"] == "postgres":
                p.append(table["p_replayed_dropped"])
            if rows["dropped"]["major_faults"] < 0.5:
                return f"nothing came from the disk: {table}"
        if max(p) >= 0.01:
            return f"p of 0.01 or more: {table}"
        missed = {name: row["minor_faults"] + row["major_faults"] for name, row in rows.items()}
        if not 2 * missed["ahead"] < missed["dropped"]:
            return f"what was put back is missed again: {table}"
    return None


@pytest.mark.full("preheat")
@pytest.mark.parametrize("server", list(live_preheat.SERVERS))
def test_what_it_is_worth(server: str) -> None:
    need(live_preheat.SERVERS[server].program, *(["initdb"] if server == "postgres" else []))

    def trial() -> dict[str, Any]:
        found = live_preheat.pages_self_test(server, rounds=40)
        assert [table["kind"] for table in found["tables"]] == native.PREHEAT_DROPS
        recorded = found["recorded"]
        assert min(recorded["dropped"]["memory"], recorded["dropped"]["files"]) > 20, recorded
        assert recorded["written"] > 0
        # One at each request of two classes, in two tables.
        assert found["loads"] == 2 * 2 * 40
        return found

    undisturbed(trial, disorder, alone=True)


def test_a_set_of_pages_is_no_set_for_another_start(tmp_path: Path, halfwink: Halfwink) -> None:
    need("memcached")
    lines, key = tmp_path / "pages.hws", tmp_path / "key"
    key.write_bytes(b"of a test, alone")
    live_preheat.pages_self_test("memcached", rounds=20, drops=["unmapped"], set_out=lines)
    words = ["--port", "80", "--shared", str(tmp_path / "shared"), "--key", str(key)]
    done = halfwink("live", "preheat", "run", "--set", str(lines), *words, "--seconds", "0.1")
    assert done.status == 2
    assert "memory of a program" in done.complaint
    assert done.complaint.count("\n") == 0


def test_wrong_words_are_refused_with_the_allowed(halfwink: Halfwink) -> None:
    for words, expected in (
        ([], "expected --self-test"),
        (["--self-test", "--server", "apache"], "expected one of nginx"),
        (["--self-test", "-n", "3"], "expected 20 to"),
        (["--self-test", "--drop", "ice"], "expected one of unmapped"),
    ):
        done = halfwink("live", "preheat", "pages", *words)
        assert done.status == 2
        assert expected in done.complaint
