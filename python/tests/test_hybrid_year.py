"""A year of a fleet of hybrid servers, and service profiles of chips."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import halfwink as hw
from halfwink.errors import HalfwinkError
from halfwink.hybrid import hybrid_year, service_profile

QUICK = {"points": 9, "requests": 20_000, "accuracy_pct": None}


def row(found: pl.DataFrame, policy: str) -> dict:
    return found.filter(policy=policy).row(0, named=True)


def test_a_year_on_a_thousand_servers():
    found = hybrid_year("niccolini", ["always-on", "hybrid"], load_pct=4, **QUICK)
    on, hybrid = row(found, "always-on"), row(found, "hybrid")
    # 365 days of 1000 times a little more than 172.1 W.
    assert 1.721e5 < on["power_w"] < 3.5e5
    assert on["energy_j"] == pytest.approx(on["power_w"] * 365 * 86_400)
    assert on["energy_j"] == hybrid["always_on_j"]
    assert hybrid["saved_pct"] == pytest.approx(100 * (1 - hybrid["energy_j"] / on["energy_j"]))
    assert 20 < hybrid["saved_pct"] < 90
    assert hybrid["p50_ms"] < hybrid["p99_ms"] < hybrid["p999_ms"]
    assert hybrid["above_minutes"] == 0
    assert hybrid["peak_pct"] == pytest.approx(85, rel=1e-3)


def test_an_hour_of_counts_is_as_event_by_event(tmp_path: Path):
    counts = tmp_path / "hour.csv"
    shares = [0.02, 0.1, 0.3, 0.5, 0.6, 0.5, 0.2, 0.1, 0.05, 0.02]
    # 1067 requests per second in all.
    lines = [f"{60 * n},{round(share * 1067 * 4 * 60)}" for n, share in enumerate(shares)]
    counts.write_text("period,count\n" + "\n".join(lines) + "\n")
    year = hybrid_year(
        "niccolini", ["hybrid"], counts=str(counts), servers=4, days=None, points=17,
        requests=100_000, accuracy_pct=None,
    )  # fmt: skip
    exact = hw.compare(
        f"count@counts:{counts}", world="server", techniques="hybrid", set={"servers": 4}
    )
    ours = year.row(0, named=True)
    theirs = exact.runs.filter(technique="hybrid").row(0, named=True)
    assert ours["power_w"] == pytest.approx(theirs["power_w"], rel=0.02)
    assert ours["mean_ms"] == pytest.approx(1e-3 * theirs["latency_mean_us"], rel=0.03)
    assert ours["p99_ms"] == pytest.approx(1e-3 * theirs["latency_p99_us"], rel=0.05)
    assert ours["requests"] == pytest.approx(theirs["offered"], rel=0.01)


def test_names_are_those_of_the_package():
    # A module of the same name would hide them once it is imported.
    assert hw.hybrid_year is hybrid_year
    assert hw.service_profile is service_profile


def test_the_command(halfwink, tmp_path: Path):
    words = ["hybrid-year", "--policy", "hybrid", "--load", "30", "--requests", "20000"]
    table = halfwink(*words, "--points", "7", "-o", str(tmp_path / "year.csv"))
    assert "minutes above" in table.out
    assert "modelled" in table.out
    kept = pl.read_csv(tmp_path / "year.csv")
    assert kept["above_minutes"][0] > 1000
    found = halfwink(*words, "--points", "7", "--json").json()["year"]
    assert found[0]["energy_j"] == kept["energy_j"][0]
    assert found[0]["highest_pct"] <= 95.001


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--counts", "none.csv"], "none.csv"),
        (["--servers", "0"], "servers 0: expected 1"),
        (["--days", "-1"], "days"),
        (["--load", "x"], "load"),
        (["--dispatch", "least:2"], "random or round-robin"),
        (["--policy", "hybird"], "hybrid"),
        (["-o", "folder"], ".parquet or .csv"),
        (["--accuracy", "0"], "--accuracy 0"),
    ],
)
def test_wrong_use_is_one_line(halfwink, words: list[str], said: str):
    found = halfwink("hybrid-year", *words)
    assert found.status == 2
    assert said in found.complaint


def test_a_service_profile_of_two_chips(halfwink, tmp_path: Path):
    profile = service_profile("nginx-1pct", instructions=1_000_000)
    for side in (profile.small, profile.big):
        assert side.alone
        assert side.requests > 5
        assert side.idle_w is not None
        assert side.idle_w < side.busy_w
        shares = [share for _, share in side.points]
        assert shares == sorted(shares)
        assert (shares[0], shares[-1]) == (0, 1)
    assert profile.small.mean_ms > 1.1 * profile.big.mean_ms
    file = tmp_path / "mine.toml"
    profile.write(file, server="niccolini")
    words = ["nginx-1pct@0.1", "-m", str(file), "-t", "always-big,always-small"]
    found = halfwink("hybrid", *words, "--set", "requests=20000", "--json").json()["results"]
    runs = {result["technique"]: result["run"] for result in found}
    # Nothing waits at a load so low: delays are service times.
    for name, side in (("always-big", profile.big), ("always-small", profile.small)):
        assert 1e-3 * runs[name]["latency_mean_us"] == pytest.approx(side.mean_ms, rel=0.03)
    with pytest.raises(HalfwinkError, match="has a workload"):
        profile.write(tmp_path / "twice.toml", server=str(file))


def test_requests_that_overlap_give_their_mean_alone():
    profile = service_profile("redis", instructions=500_000)
    assert profile.big.in_flight > 1
    assert not profile.big.alone
    assert [share for _, share in profile.big.points] == [0, 1]
    assert profile.big.mean_ms < 0.1
    assert "requests overlap" in profile.toml()
    with pytest.raises(HalfwinkError, match="no whole requests"):
        service_profile("gcc", instructions=200_000)
