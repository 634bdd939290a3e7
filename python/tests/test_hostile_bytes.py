"""What others wrote, changed at random by seed: the capture's dialogue, kept results."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from halfwink.capture.errors import CaptureError, GuestError
from halfwink.capture.machine import Dialogue
from halfwink.errors import RunError
from halfwink.results.store import RunStore

SEEDS = 1000

SAID = [
    '@halfwink {"started": true}',
    '@halfwink {"recorded": 12345}',
    '@halfwink {"done": {"instructions": 5}}',
    '@halfwink {"error": "disk full"}',
    "@guest booted",
    "@guest warming up",
    "@guest error: no such program",
    "SeaBIOS (version 1.16)",
]


def changed(line: str, chance: random.Random) -> str:
    """A line with some characters replaced, taken out, put in, or its message replaced."""
    match chance.randrange(4):
        case 0:
            values: list[Any] = [[], 5, None, "x", {"recorded": None}, {"recorded": 1e999}]
            values += [{"recorded": "x"}, {"done": 7}, {"done": [1]}, {"error": {}}, {}]
            return "@halfwink " + json.dumps(chance.choice(values))
        case 1:
            return "@halfwink " + "[" * chance.choice([1, 100_000])
        case 2:
            at = chance.randrange(len(line))
            return line[:at] + chance.choice('"{}[]:,0x\\\x1b\ufffd') + line[at + 1 :]
        case _:
            return line[: chance.randrange(len(line))]


def test_a_dialogue_ends_with_a_report_or_an_error_of_one_line() -> None:
    ends = {"report": 0, "error": 0}
    for seed in range(SEEDS):
        chance = random.Random(seed)
        reports: list[object] = []
        dialogue = Dialogue(reports.append, chance.choice([None, 1000]))
        for _ in range(chance.randrange(12)):
            line = chance.choice(SAID)
            line = changed(line, chance) if chance.random() < 0.3 else line
            chance.choice([dialogue.plugin, dialogue.console])(line)
        try:
            outcome = dialogue.outcome(0)
            assert "said" in outcome, f"seed {seed}"
        except (CaptureError, GuestError) as error:
            told = str(error)
        else:
            told = ""
        assert "\n" not in told, f"seed {seed}: {told}"
        ends["error" if told else "report"] += 1
    assert min(ends.values()) > SEEDS // 20, ends


TABLES = {"run": [("power_w", "real", [1.5, 2.25]), ("name", "text", ["a", "b"])]}


def test_every_changed_byte_of_a_kept_result_is_seen(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    store.save("key", TABLES)
    path = tmp_path / "key.json"
    whole = path.read_bytes()
    assert store.has("key")
    for seed in range(SEEDS):
        chance = random.Random(seed)
        content = bytearray(whole)
        at = chance.randrange(len(content))
        match chance.randrange(4):
            case 0:
                content[at] ^= 1 << chance.randrange(8)
            case 1:
                del content[at:]
            case 2:
                content[at:at] = chance.randbytes(chance.randrange(1, 9))
            case _:
                content += chance.randbytes(1)
        path.write_bytes(content)
        assert not store.has("key"), f"seed {seed}: {bytes(content)!r}"
        with pytest.raises(RunError) as caught:
            store.load("key")
        assert "\n" not in str(caught.value), f"seed {seed}"
    path.write_bytes(whole)
    assert store.load("key")["run"][0][2] == [1.5, 2.25]
