"""A year of a fleet of hybrid servers, and service profiles of chips."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import halfwink as hw
from halfwink.errors import HalfwinkError
from halfwink.models.service import service_profile

WORLD_CUP = "workloads/server/worldcup98-requests-per-minute.csv.xz"
QUICK = {"servers": 1000, "steady_loads": 9, "days": 365, "requests": 20_000}


def year(techniques: list[str]) -> dict[str, dict]:
    """Rows of a year by technique."""
    found = hw.compare(
        f"count@counts:{WORLD_CUP}@4", world="server", techniques=techniques, set=QUICK
    )
    return {row["technique"]: row for row in found.runs.iter_rows(named=True)}


def test_a_year_on_a_thousand_servers():
    found = year(["hybrid", "always-small"])
    on, hybrid, small = (found[name] for name in ("always-on", "hybrid", "always-small"))
    # 365 days of 1000 times a little more than 172.1 W.
    assert 1.721e5 < on["power_w"] < 3.5e5
    assert on["duration_s"] == pytest.approx(365 * 86_400)
    assert on["energy_j"] == pytest.approx(on["power_w"] * 365 * 86_400)
    assert 20 < 100 * (1 - hybrid["energy_j"] / on["energy_j"]) < 90
    assert hybrid["latency_p50_us"] < hybrid["latency_p99_us"] < hybrid["latency_p999_us"]
    assert hybrid["load_pct"] == pytest.approx(4)
    # 229,426 in its fullest minute, 10,796 in the mean.
    assert hybrid["peak_pct"] == pytest.approx(85, rel=1e-3)
    assert (hybrid["above_minutes"], hybrid["keeps_up"]) == (0, "yes")
    # The small machine alone carries a quarter of it, and 365 days have 525,600 minutes.
    assert small["highest_pct"] < 25
    assert 1000 < small["above_minutes"] < 525_600
    assert small["keeps_up"] == "no"
    assert small["offered"] == pytest.approx(hybrid["offered"], rel=1e-9)
    assert small["units"] / small["offered"] == pytest.approx(small["finished_pct"] / 100)


def test_an_hour_of_counts_is_as_event_by_event(tmp_path: Path):
    counts = tmp_path / "hour.csv"
    shares = [0.02, 0.1, 0.3, 0.5, 0.6, 0.5, 0.2, 0.1, 0.05, 0.02]
    # 1067 requests per second in all.
    lines = [f"{60 * n},{round(share * 1067 * 4 * 60)}" for n, share in enumerate(shares)]
    counts.write_text("period,count\n" + "\n".join(lines) + "\n")

    def played(**options: object) -> dict:
        found = hw.compare(
            f"count@counts:{counts}",
            world="server",
            techniques="hybrid",
            set={"servers": 4, **options},
        )
        return found.runs.filter(technique="hybrid").row(0, named=True)

    ours, theirs = played(steady_loads=17, requests=100_000), played()
    for column, tolerance in (
        ("power_w", 0.02),
        ("latency_mean_us", 0.03),
        ("latency_p99_us", 0.05),
        ("units", 0.01),
        ("load_pct", 1e-9),
    ):
        assert ours[column] == pytest.approx(theirs[column], rel=tolerance), column
    assert theirs["peak_pct"] is None


def test_a_year_is_a_view_over_compare(halfwink, tmp_path: Path):
    words = ["hybrid-year", "-t", "hybrid", "--set", "steady_loads=7", "--set", "accuracy=0.3"]
    words += ["--set", "requests=20000"]
    both = halfwink(*words, "--load", "4,30", "--json").rows("runs")
    assert [result["workload"].rpartition("@")[2] for result in both[::2]] == ["4", "30"]
    words += ["--load", "30"]
    table = halfwink(*words, "-o", str(tmp_path / "year"))
    assert "minutes above" in table.out
    assert "modelled" in table.out
    kept = pl.read_parquet(tmp_path / "year" / "results.parquet").filter(technique="hybrid")
    assert kept["above_minutes"][0] > 1000
    assert kept["highest_pct"][0] <= 95.001
    again = halfwink(*words, "-o", str(tmp_path / "year"), "--json")
    assert again.json()["command"] == "compare"
    found = {run["technique"]: run for run in again.rows("runs")}
    assert found["hybrid"]["energy_j"] == kept["energy_j"][0]
    assert halfwink(*words, "--log", f"{tmp_path}/logs/").status == 0
    logs = list((tmp_path / "logs").iterdir())
    assert len(logs) == 2
    for log in logs:
        replayed = halfwink("replay", str(log))
        assert replayed.status == 0
        assert "actions equal" in replayed.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--counts", "none.csv"], "none.csv"),
        (["--set", "servers=0"], "servers"),
        (["--set", "days=-1"], "days"),
        (["--load", "x"], "load"),
        (["--set", "dispatch=least:2"], "random or round-robin"),
        (["-t", "hybird"], "hybrid"),
        (["cuont"], "count"),
        (["count@30"], "its load is --counts"),
        (["--set", "accuracy=0"], "accuracy"),
        (["--set", "slot_s=60"], "no steady_loads"),
    ],
)
def test_wrong_use_is_one_line(halfwink, words: list[str], said: str):
    found = halfwink("hybrid-year", *words)
    assert found.status == 2
    assert said in found.complaint


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--set", "days=2"], "expected steady_loads"),
        (["--load", "30", "--set", "steady_loads=9"], "expected a load of counts"),
    ],
)
def test_options_of_a_walk_need_counts(halfwink, words: list[str], said: str):
    found = halfwink("hybrid", "-t", "hybrid", *words)
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
    found = halfwink("hybrid", *words, "--set", "requests=20000", "--json").rows("runs")
    runs = {run["technique"]: run for run in found}
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
