"""What makes a machine too busy to measure on."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import conftest
import neighbours
import pytest
from neighbours import Known, Room, Usage, Waiting, look, pressure_s, throttled_s, tree_ticks

NONE = Usage(at=100, busy=50, own=20, stolen=1, waited=3, throttled=0)


def after(**changed: float) -> Usage:
    """Ten seconds later."""
    return replace(NONE, at=110, **changed)


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (after(), None),
        # Its own work is no disturbance, and without sleeping its pressure is its own too.
        (after(busy=70, own=40, waited=13), None),
        (after(busy=50.4), None),
        (after(busy=51), "other processes had 10 % of a CPU"),
        (after(busy=90, own=30), "other processes had 300 % of a CPU"),
        (after(stolen=1.5), "the host gave other guests 5 % of a CPU"),
        (after(throttled=4), "a CPU quota held back 40 % of a CPU"),
    ],
)
def test_what_disturbs_is_named(now: Usage, said: str | None) -> None:
    assert now.since(NONE, asleep=False) == said


def test_pressure_counts_while_the_test_sleeps() -> None:
    assert after(waited=4).since(NONE, asleep=True) == "threads waited for a CPU 10 % of the time"
    assert after(waited=3.1).since(NONE, asleep=True) is None


def test_files_of_the_kernel_are_read() -> None:
    text = "some avg10=87.14 avg60=66.76 avg300=27.52 total=237297010\nfull avg10=0.00 total=0\n"
    assert pressure_s(text) == pytest.approx(237.29701)
    assert throttled_s("nr_periods 3\nthrottled_usec 1500000\n") == 1.5
    assert pressure_s("") == throttled_s("usage_usec 3\n") == 0
    known = {1: Known(0, 100), 2: Known(0, 1), 7: Known(2, 2), 10: Known(1, 4), 11: Known(10, 8)}
    # Of process 10: its own, its child's, and the kernel's threads.
    assert tree_ticks({**known, 12: Known(99, 16)}, 10) == 1 + 2 + 4 + 8


def test_a_process_of_ours_is_our_own() -> None:
    before = look()
    spin = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    subprocess.run([sys.executable, "-c", spin], check=True)
    now = look()
    assert now.own - before.own >= 0.28
    assert now.busy - before.busy >= 0.28


def test_a_wait_ends_and_the_next_is_short() -> None:
    clock = [NONE]

    def sleep(seconds: float) -> None:
        busy = 1.0 if clock[0].at < 300 else 0.0
        now = clock[0]
        clock[0] = replace(now, at=now.at + seconds, busy=now.busy + busy * seconds)

    waiting = Waiting(look=lambda: clock[0], sleep=sleep)
    assert waiting.disturbed() == "other processes had 100 % of a CPU"
    assert clock[0].at == NONE.at + neighbours.PATIENCE_S
    assert waiting.disturbed() is not None
    assert clock[0].at == NONE.at + neighbours.PATIENCE_S + neighbours.IMPATIENCE_S
    clock[0] = replace(clock[0], at=300)
    assert waiting.disturbed() is None
    assert waiting.patience_s == neighbours.PATIENCE_S


def test_what_fails_beside_a_neighbour_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conftest, "REQUIRED", True)
    busy = [0.0]

    def now() -> Usage:
        return replace(NONE, at=NONE.at + 10 * busy[0], busy=NONE.busy + 10 * busy[0])

    monkeypatch.setattr(neighbours, "look", now)
    monkeypatch.setattr(conftest, "_waiting", Waiting(look=now, sleep=lambda _: None))
    with pytest.raises(AssertionError), conftest.quiet():
        raise AssertionError

    def fails_beside_one() -> None:
        with conftest.quiet():
            busy[0] = 1
            pytest.fail("too slow")

    with pytest.raises(pytest.skip.Exception, match="other processes had 100 %"):
        fails_beside_one()


#: Takes its place, says so, and leaves when its input ends.
PERSON = """
import sys
from neighbours import Room
room = Room(sys.argv[1])
room.enter(alone=sys.argv[2] == "alone")
print("in", flush=True)
sys.stdin.read()
room.leave()
"""


def test_one_that_measures_is_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))

    def person(how: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", PERSON, "run", how],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def says(one: subprocess.Popen[str]) -> str:
        assert one.stdout is not None
        return one.stdout.readline()

    def leaves(one: subprocess.Popen[str]) -> None:
        one.communicate()
        assert one.returncode == 0

    first, second = person("beside"), person("beside")
    assert says(first) == says(second) == "in\n"
    alone = person("alone")
    gate = tmp_path / "halfwink-tests-run.gate"
    conftest.wait_until(lambda: _is_locked(gate))
    # It waits, and whoever comes later waits behind it.
    late = person("beside")
    leaves(first)
    assert alone.poll() is None
    leaves(second)
    assert says(alone) == "in\n"
    leaves(alone)
    assert says(late) == "in\n"
    leaves(late)
    # A run without workers has no locks.
    Room("").enter(alone=True)


def _is_locked(path: Path) -> bool:
    if not path.exists():
        return False
    number = path.stat().st_ino
    locks = Path("/proc/locks").read_text().splitlines()
    return any(line.split()[5].endswith(f":{number}") and "->" not in line for line in locks)
