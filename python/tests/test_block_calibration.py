"""A machine of the storage world from recordings: the arithmetic by hand, and the shipped one."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import halfwink as hw
from halfwink.calibrate import block as made
from halfwink.cli.main import _run  # pyright: ignore[reportPrivateUsage]
from halfwink.library import root

SPEC: dict[str, Any] = {
    "chip": {"clock_ghz": 2.0},
    "l2": {"size": "256KB", "latency_ns": 5.0},
    "l3": {"size": "8MB", "latency_ns": 11.0},
    "os": {"transfer_ns": 4.0},
}
#: One queue takes 3 us more for an I/O, of which a microsecond is an interrupt.
ALONE = {"many": made.Alone(5.0, 1.0, 10_000.0), "one": made.Alone(8.0, None, 16_000.0)}
TOGETHER = {
    "many": made.Together(390e3, 2.0, 0.5, 10_000.0, 0.0),
    "one": made.Together(200e3, 8.0, 1.0, 15_000.0, 0.1),
}


def text(
    spec: dict[str, Any] = SPEC,
    alone: dict[str, made.Alone] = ALONE,
    together: dict[str, made.Together] = TOGETHER,
) -> str:
    return made.machine_text("fio", "ev6", spec, alone, together)


def test_a_cpu_alone_has_its_time_by_io() -> None:
    sums = pl.DataFrame(
        {
            "ios": [100],
            "interrupts": [0.5],
            "user_instructions": [7.0],
            "kernel_instructions": [9.0],
        }
    )
    calls = pl.DataFrame(
        {
            "kind": ["system call", "interrupt", "interrupt"],
            "invocations": [100, 10, 10],
            "running_s": [400e-6, 30e-6, 10e-6],
        }
    )
    # An interrupt takes 2 us, and every other I/O has one.
    found = made.alone_of(sums, 500e-6, calls)
    assert (found.us, found.interrupt_us, found.instructions) == pytest.approx((5.0, 1.0, 16.0))
    none = made.alone_of(sums, 500e-6, calls.filter(kind="system call"))
    assert none.interrupt_us is None


def test_two_cpus_have_their_rates_summed_and_their_lines_shared_out() -> None:
    sums = pl.DataFrame(
        {"ios": [100, 300], "user_instructions": [1.0, 2.0], "kernel_instructions": [9.0, 4.0]}
    )
    counters = pl.DataFrame(
        {"counter": ["transfers", "upgrades"], "user": [100, 0], "kernel": [700, 200]}
    )
    found = made.together_of(sums, counters, [1e-3, 1e-3], [0.0, 2e-3])
    assert found.iops == pytest.approx(100e3 + 100e3)
    assert (found.lines, found.upgrades, found.halted) == (2.0, 0.5, 0.5)
    assert found.instructions == (100 * 10.0 + 300 * 6.0) / 400


def test_what_one_queue_takes_more_is_under_its_lock_which_is_taken_thrice() -> None:
    machine = tomllib.loads(text())
    block = machine["block"]
    assert (block["submit_us"], block["complete_us"], block["shared_lines"]) == (4.0, 1.0, 2.0)
    assert (block["queue"]["hold_ns"], block["queue"]["lines"]) == (1000.0, 2.0)
    assert machine["coherence"]["same_socket_ns"] == 20.0
    assert (machine["topology"]["l3_mb"], machine["topology"]["ghz"]) == (8.0, 2.0)
    # What is not recorded is the base's.
    base = tomllib.loads((root() / "machines/storage/westmere-ex.toml").read_text())
    assert machine["driver"]["map"] == base["driver"]["map"]
    # A chip whose last level is the second.
    short = tomllib.loads(text({**SPEC, "l3": {"size": "none"}}))
    assert (short["topology"]["l3_mb"], short["coherence"]["same_socket_ns"]) == (0.25, 9.0)
    silent = {**ALONE, "many": made.Alone(5.0, None, 10_000.0)}
    with pytest.raises(hw.HalfwinkError, match="no interrupt"):
        text(alone=silent)


def test_one_cpu_is_given_back_and_two_are_predicted() -> None:
    rows = made.predictions(text(), ALONE, TOGETHER)
    errors = {(r["queues"], r["cpus"]): r["error_pct"] for r in rows.iter_rows(named=True)}
    assert abs(errors["many", 1]) < 0.5
    assert abs(errors["one", 1]) < 0.5
    # Two with their own queues wait for two lines, 20 ns each: 5.04 us for an I/O.
    predicted = dict(rows.filter(cpus=2).select("queues", "predicted").iter_rows())
    assert predicted["many"] == pytest.approx(2e6 / 5.04, rel=0.01)
    # The lock is held for 3 us, and lines come with it: no two of them do more than this.
    assert predicted["one"] < 1e6 / 3.0
    assert rows["held_out"].to_list() == [False, True, False, True]


def test_what_is_not_there_is_said_with_what_makes_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(["storage", "calibrate", "--from", "fio"]) == 2
    assert "`halfwink capture null-blk-many -o fio-many.hwt`" in capsys.readouterr().err
    assert _run(["storage", "calibrate", "--chip", "ev"]) == 2
    assert "no machine ev" in capsys.readouterr().err


def test_the_shipped_machine_is_made_of_the_shipped_recordings(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "made.toml"
    assert _run(["storage", "calibrate", "-o", str(out)]) == 0
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= 80
    shipped = root() / "machines/storage/linux-6.1.toml"
    assert out.read_text() == shipped.read_text(), "halfwink storage calibrate -o " + str(shipped)
    # As docs/techniques/storage.md has it.
    assert "many queues +1.6 %, one queue -14.7 %" in shipped.read_text()


@pytest.mark.parametrize(
    ("changed", "value", "rate_k"),
    [
        ("block.jitter", 0.2, 278.6),
        ("block.queue.lines", 0, 283.4),
        ("coherence.same_socket_ns", 10.5, 283.0),
        ("block.queue.hold_ns", 198.5, 375.0),
    ],
)
def test_the_shipped_machine_with_one_thing_changed(
    changed: str, value: float, rate_k: float
) -> None:
    """The rows of docs/techniques/storage.md."""
    runs = hw.compare(
        "random-read@2",
        world="storage",
        machine="linux-6.1",
        techniques="msi-x",
        set={changed: value, "through": "queue", "ios": 50_000, "warm_up": 50_000},
    ).runs
    assert runs["iops"][0] / 1e3 == pytest.approx(rate_k, abs=0.1)
