"""What the kernel does in a trace: by hand on the Rust side; here that everything adds up."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import Halfwink

import halfwink as hw
from halfwink import _core
from halfwink.library import root
from halfwink.models import OsProfile, os_profile, os_profiles

RUNS = ["totals", "entries", "lengths", "thresholds"]
TABLES = [*RUNS, "levels", "evictions", "footprint", *(f"privileged_{name}" for name in RUNS)]


def trace(name: str) -> str:
    return str(root() / "workloads" / f"{name}.hwt")


@pytest.fixture(scope="module")
def nginx() -> OsProfile:
    return os_profile("nginx")


def test_sums_are_the_totals_of_the_trace(nginx: OsProfile) -> None:
    checked = _core.trace_check(trace("nginx"))
    facts = dict(nginx.totals.iter_rows())
    assert facts["user_instructions"] == checked["user_instructions"]
    assert facts["kernel_instructions"] == checked["kernel_instructions"]
    runs = nginx.lengths.group_by("mode").agg(
        (pl.col("instructions") * pl.col("runs")).sum(), pl.col("runs").sum().alias("n")
    )
    sums = {mode: (instructions, n) for mode, instructions, n in runs.iter_rows()}
    assert sums["user"][0] == checked["user_instructions"]
    assert sums["kernel"][0] == checked["kernel_instructions"]
    # User and kernel runs strictly alternate.
    assert abs(sums["user"][1] - sums["kernel"][1]) <= 1
    assert nginx.entries["kernel_instructions"].sum() == checked["kernel_instructions"]


def test_thresholds_agree_with_the_lengths(nginx: OsProfile) -> None:
    kernel = nginx.lengths.filter(pl.col("mode") == "kernel")
    rows = nginx.thresholds.to_dicts()
    assert [t["threshold_instructions"] for t in rows] == [50, 100, 250, 500, 1000, 5000, 10000]
    for t in rows:
        longer = kernel.filter(pl.col("instructions") > t["threshold_instructions"])
        assert t["longer_invocations"] == longer["runs"].sum()
        assert t["longer_invocations"] + t["shorter_invocations"] == kernel["runs"].sum()
        total = t["longer_instructions"] + t["shorter_instructions"]
        assert t["longer_instruction_share"] == pytest.approx(t["longer_instructions"] / total)


def test_every_system_call_is_there_by_name(nginx: OsProfile) -> None:
    """Each system call of the trace is one invocation: none is taken inside the kernel."""
    calls = nginx.entries.filter(pl.col("kind") == "syscall")
    names = set(calls["name"])
    assert {"epoll_wait", "writev", "sendfile", "openat"} & names
    assert "" not in names
    facts: dict[str, Any] = next(
        w["totals"] for w in hw.library.library().workloads() if w["name"] == "nginx"
    )
    assert abs(calls["invocations"].sum() - facts["events"]["syscall"]) <= 1


def test_what_misses_in_a_level_asks_the_next(nginx: OsProfile) -> None:
    for mode in ("user", "kernel"):
        of = nginx.levels.filter(pl.col("mode") == mode)
        l1i, l1d, l2, l3 = of.to_dicts()
        assert l1i["misses"] + l1d["misses"] == l2["accesses"]
        assert l2["misses"] == l3["accesses"]
    by_kernel = nginx.levels.filter(pl.col("mode") == "kernel").to_dicts()
    for level in by_kernel:
        classes = nginx.evictions.filter(pl.col("level") == level["level"])
        assert classes["user_lines"].sum() == level["evicted_user_lines"]
        assert classes["kernel_lines"].sum() == level["evicted_kernel_lines"]


def test_misses_are_near_cachegrinds_rules() -> None:
    """The same first-level caches from cold: what `trace caches` counts bounds what is warm."""
    shapes = ["32KB:8", "32KB:8", "8MB:16"]
    cold = {
        (kind, mode): misses
        for kind, mode, _, misses, _ in _core.trace_caches(trace("redis"), shapes, False, False)
    }
    warm = os_profile("redis", caches=" ".join(shapes)).levels
    for level, kinds in (("L1I", ["fetch"]), ("L1D", ["load", "store"])):
        for mode in ("user", "kernel"):
            row = warm.filter((pl.col("level") == level) & (pl.col("mode") == mode)).to_dicts()[0]
            before = sum(cold[kind, mode] for kind in kinds)
            # At most a cache of lines more from cold; an access to two lines can miss twice.
            assert before - 512 <= row["misses"] <= before * 1.02 + 16


def test_misses_are_those_of_the_simulated_chip() -> None:
    """An in-order core accesses data in the order of the program: not one miss of L1D differs.

    Its fetches follow the pipeline, and dirty lines are written to its L2: the other levels come
    near.
    """
    counters = hw.compare("nginx", techniques=["always-on"], machine="in-order-1").counters
    chip = {
        counter: {"user": user, "kernel": kernel}
        for counter, user, kernel in counters.filter(pl.col("component") == "core0")
        .select("counter", "user", "kernel")
        .iter_rows()
    }
    profile = os_profile("nginx", caches="in-order")
    tolerance = {"L1I": 0.005, "L1D": 0.0, "L2": 0.03}
    for row in profile.levels.filter(pl.col("level") != "L3").to_dicts():
        theirs = chip[f"{row['level'].lower()}.misses"][row["mode"]]
        assert row["misses"] == pytest.approx(theirs, rel=tolerance[row["level"]], abs=0), row


def test_a_larger_cache_misses_less_and_the_caches_change_nothing_else() -> None:
    small = os_profile("gzip", caches="16KB:4 16KB:4")
    large = os_profile("gzip", set={"l1d.size": "64KB"})
    assert small.lengths.equals(large.lengths)
    assert small.footprint.equals(large.footprint)
    assert large.levels["level"].unique().sort().to_list() == ["L1D", "L1I", "L2", "L3"]
    data = [p.levels.filter(pl.col("level") == "L1D")["misses"].sum() for p in (small, large)]
    assert data[0] > data[1]


def test_profiles_of_several_workloads_stand_together() -> None:
    both = os_profiles(["gzip", "sqlite"])
    for frame in both.frames().values():
        assert set(frame["workload"]) == {"gzip", "sqlite"}
    one = both.totals.filter(pl.col("workload") == "sqlite").drop("workload")
    assert one.equals(os_profile("sqlite").totals)


def test_the_command_shows_and_tells(halfwink: Halfwink) -> None:
    found = halfwink("trace", "kernel", "sqlite", "--json").json()
    assert list(found["tables"]) == list(TABLES)
    assert list(found["facts"]) == ["workload", "caches"]
    levels = found["tables"]["levels"]["rows"]
    assert [row["level"] for row in levels[::2]] == ["L1I", "L1D", "L2", "L3"]
    by_file = halfwink("trace", "kernel", trace("sqlite"), "--json").json()
    assert by_file["tables"]["entries"] == found["tables"]["entries"]
    text = halfwink("trace", "kernel", "sqlite", "-n", "3", "--caches", "32KB:2 32KB:2 1MB:16")
    assert text.status == 0
    for word in ("kernel instructions", "longer than", "evicted user lines", "over 10,000"):
        assert word in text.out
    assert "L2" in text.out
    assert "L3" not in text.out


def test_a_generated_workload_never_enters_the_kernel(halfwink: Halfwink) -> None:
    done = halfwink("trace", "kernel", "alu:instructions=10000", "--json")
    assert dict(row.values() for row in done.rows("totals"))["kernel_share"] == 0
    assert [t["longer_invocation_share"] for t in done.rows("thresholds")] == [None] * 7
    assert halfwink("trace", "kernel", "alu:instructions=10000").status == 0


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["ngin"], "nginx"),
        (["gzip*2"], "one core"),
        (["gzip", "--caches", "32KB:8"], "L1I and L1D"),
        (["gzip", "--machine", "ev66"], "ev6"),
        (["gzip", "--set", "l2.sizes=1MB"], "sizes"),
        (["gzip", "-n", "-1"], "0 or more"),
    ],
)
def test_what_cannot_be_is_one_line(halfwink: Halfwink, words: list[str], complaint: str) -> None:
    done = halfwink("trace", "kernel", *words)
    assert done.status == 2
    assert complaint in done.complaint


def test_a_damaged_trace_is_one_line(halfwink: Halfwink, tmp_path: Path) -> None:
    whole = Path(trace("sqlite")).read_bytes()
    cut = tmp_path / "cut.hwt"
    cut.write_bytes(whole[: len(whole) // 2])
    done = halfwink("trace", "kernel", str(cut))
    assert done.status in (1, 2)
    assert "cut.hwt" in done.complaint


@pytest.mark.full("reproduce")
def test_targets_are_computed_from_the_profiles() -> None:
    """What the SQL of a target says is what the profile says."""
    found = {t["id"]: t for t in hw.reproduce(["nellans/T4.1/", "nellans/T5.2/apache"])}
    apache = os_profile("apache", caches="16KB:2 16KB:2 1MB:16")
    share = dict(apache.privileged_totals.iter_rows())["kernel_share"]
    assert found["nellans/T4.1/apache"]["ours"] == pytest.approx(100 * share)
    assert "experiment os-profile/32KB:2 32KB:2 1MB:16" in found["nellans/T4.1/apache"]["how"]
    kernel = apache.levels.filter(pl.col("mode") == "kernel")
    for level, misses in zip(kernel["level"], kernel["miss_share"], strict=True):
        ours = found[f"nellans/T5.2/apache/{level.lower()}"]["ours"]
        assert ours == pytest.approx(100 * misses)
    assert found["nellans/T4.1/apache"]["verdict"] == "miss"
