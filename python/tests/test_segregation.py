"""Ways to keep kernel and user apart in the second level: the command line, and as frames."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl
import pytest
from conftest import Halfwink
from warm import Commands

import halfwink as hw
from halfwink.models import SegregationSweep, segregation_sweep
from halfwink.models.profiles import os_profile


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory, commands: Commands) -> str:
    """A quarter of the recording of Apache: the 256 pairs of ranks are played one by one."""
    folder = tmp_path_factory.mktemp("short")
    words = ["trace", "slice", "apache", "--skip", "2000000", "--keep", "2500000", "-o", "a.hwt"]
    done = commands.run(words, cwd=folder, env=dict(os.environ), timeout=600)
    assert done.status == 0, done.err
    return str(folder / "a.hwt")


@pytest.fixture(scope="module")
def apache(short: str) -> SegregationSweep:
    return segregation_sweep(short, l2="256KB")


def test_one_stack_misses_what_the_profile_counts(apache: SegregationSweep, short: str) -> None:
    levels = os_profile(short, caches="16KB:2 16KB:2 256KB:16").levels
    second = levels.filter(level="L2").sort("mode")
    lru = apache.schemes.row(0, named=True)
    assert lru["scheme"] == "lru"
    assert second["misses"].to_list() == [lru["kernel_misses"], lru["user_misses"]]
    assert second["accesses"].to_list() == [lru["kernel_accesses"], lru["user_accesses"]]


def test_all_published_points_are_there(apache: SegregationSweep) -> None:
    counts = dict(apache.schemes.group_by("scheme").len().iter_rows())
    # 45 splits, 256 pairs of ranks, 3 routes by 2 ways to look up.
    assert (counts["way-partition"], counts["insertion"], counts["bank-partition"]) == (45, 256, 6)
    assert apache.fact("configurations") == len(apache.schemes)
    both = apache.schemes.select(pl.col("user_accesses") + pl.col("kernel_accesses"))
    assert both.to_series().n_unique() == 1, "no rule changes what is asked"
    # Ranks 0 and 0 are the one stack.
    first = apache.schemes.filter(user_rank=0, kernel_rank=0).row(0, named=True)
    assert first["gain_pct"] == 0
    assert first["mpki"] == apache.schemes["mpki"][0]


def test_curves_are_close_to_every_split(apache: SegregationSweep) -> None:
    """Lines that both sides use are all that tells them from the splits played one by one."""
    accesses = apache.schemes.select("user_accesses", "kernel_accesses").row(0)
    splits = apache.schemes.filter(scheme="way-partition")
    for row in splits.to_dicts():
        ways = {"kernel": row["kernel_ways"], "user": 16 - row["kernel_ways"]}
        hits = 0
        for side, n in ways.items():
            curve = apache.curves.filter(route=row["route"], side=side)
            hits += sum(curve.filter(pl.col("recency") < n)["hits"].to_list())
        misses = row["user_misses"] + row["kernel_misses"]
        assert sum(accesses) - hits == pytest.approx(misses, rel=0.02)


def test_banks_gain_nothing_but_their_latency_where_nothing_misses() -> None:
    found = segregation_sweep("nginx", l2="1MB", only="bank-partition")
    lru = found.schemes.row(0, named=True)
    banks = found.schemes.filter(scheme="bank-partition", look_up="parallel")
    assert lru["mpki"] < 0.2
    assert min(banks["gain_pct"].to_list()) > 5
    assert max(banks["equal_gain_pct"].to_list()) < 0.1
    same = segregation_sweep("nginx", l2="1MB", only="bank-partition", set={"bank_cycles": 12})
    banks = same.schemes.filter(scheme="bank-partition", look_up="parallel")
    assert banks["gain_pct"].to_list() == banks["equal_gain_pct"].to_list()


def test_sweep_on_the_command_line(halfwink: Halfwink, tmp_path: Path, short: str) -> None:
    plot = tmp_path / "split.svg"
    done = halfwink("segregation", "sweep", short, "--l2", "128KB", "--json", "--plot", str(plot))
    assert len(done.rows("schemes")) > 307
    assert done.rows("best")[0]["scheme"] == "lru"
    assert done.json()["facts"]["references"] > 0
    assert "ways for the kernel" in plot.read_text()
    shown = halfwink("segregation", "sweep", "nginx", "--l2", "1MB", "--only", "bank-partition").out
    assert "leave it" in shown
    assert "insertion" not in shown
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--l2", "1MB:1"], "expected 2 to 32 ways"),
        (["--l2", "3MB"], "expected a power of two"),
        (["--l1", "16"], "expected SIZE:WAYS"),
        (["--set", "epochs_shortened_by=0"], "an epoch has a length"),
        (["--set", "bank_cycles=fast"], "expected a whole number"),
        (["--set", "banks=2"], "no setting `banks`"),
        (["--only", "lottery"], "expected lru, bank-partition"),
        (["--set", "l1_split=yes"], "expected none, data, instructions or both"),
        (["--plot", "x.html"], "expected a name that ends in"),
    ],
)
def test_what_cannot_be_is_a_line(halfwink: Halfwink, words: list[str], message: str) -> None:
    done = halfwink("segregation", "sweep", "nginx", *words)
    assert done.status == 2
    assert message in done.complaint


def test_the_simulated_chip_misses_as_the_sweep_does(short: str) -> None:
    """A pipeline with a store queue, beside references that are played one after the other."""
    rules = {
        "lru": {},
        "way-partition:ways=4": {"route": "both", "kernel_ways": 4},
        "way-partition:ways=11": {"route": "both", "kernel_ways": 11},
        "insertion:user=12,kernel=8": {"user_rank": 12, "kernel_rank": 8},
        "bank-partition:route=both,fallback=0": {"route": "both", "look_up": "parallel"},
        "drrip": {},
        "ship": {},
    }
    run = hw.compare(
        short, machine="ultrasparc-ch5", set={"l2.size": "256KB"}, techniques=list(rules)
    )
    swept = segregation_sweep(short, l2="256KB", set={"write_backs": "true"}).schemes
    took = dict(run.runs.select("technique", "run_s").iter_rows())
    counted = {row["technique"]: row for row in run.tables["segregation"].to_dicts()}
    assert len(counted) == len(rules)
    for technique, row in counted.items():
        name = next(n for n in rules if technique.startswith(n))
        kind = swept.filter(scheme=name.partition(":")[0], **rules[name]).row(0, named=True)
        misses = kind["user_misses"] + kind["kernel_misses"]
        assert misses == pytest.approx(row["user_misses"] + row["kernel_misses"], rel=0.01)
        gain = 100 * (took["lru"] / took[technique] - 1)
        assert gain == pytest.approx(kind["gain_pct"], abs=4), technique
