"""Advice along a day: steps at steady loads, servers that sleep, and the day played whole."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from statistics import mean

import polars as pl
import pytest
from conftest import Halfwink
from test_figures import marks, overlap

import halfwink as hw
from halfwink.advice import DayAdvice
from halfwink.advice.composition_search import USUAL
from halfwink.advice.day_advice import network_w_per_gbps
from halfwink.advice.fleet_day import Curve, Day, Fleet, on_line
from halfwink.errors import HalfwinkError
from halfwink.models import stated_profile
from halfwink.report.advice_charts import day_figure
from halfwink.report.figures import POINTS, STYLES, WIDTHS, scene, specification

SERVICE = "exponential"
ON = "golden-cove-56"
#: A server that takes 100 W and 1 W for each per cent of load; its p99 rises from 50 % on.
LINEAR = Curve((0.0, 50.0, 80.0), (100.0, 150.0, 180.0), (10.0, 10.0, 40.0), (5.0, 5.0, 20.0))


def day(*per_s: float, step_s: float = 3600.0) -> Day:
    return Day("counts:a.csv", step_s, per_s)


def test_a_value_between_two_places_is_on_their_line():
    places, values = (0.0, 10.0, 30.0), (1.0, 2.0, 6.0)
    found = [on_line(places, values, at) for at in (-5, 0, 5, 10, 20, 30, 99)]
    assert found == pytest.approx([1, 1, 1.5, 2, 4, 6, 6])
    assert LINEAR.at(60.0) == pytest.approx((160.0, 20.0, 10.0))
    assert LINEAR.at(80.1) is None


def test_a_curve_ends_where_the_server_does_not_keep_up():
    rows = [
        {
            "load_pct": load,
            "power_w": 100 + load,
            "keeps_up": "no" if load == 70 else "yes",
            "latency_p99_us": None if load == 1 else load,
            "latency_mean_us": None if load == 1 else load / 2,
        }
        for load in (80, 1, 50, 70)
    ]
    curve = Curve.of(rows)
    assert curve.loads == (1, 50)
    assert curve.p99_us == (50, 50)


def test_all_servers_awake_take_what_the_line_says():
    fleet = Fleet(day(100.0, 500.0), servers=10, capacity=100.0, goal_us=50.0)
    plan = fleet.plan("x", LINEAR, LINEAR)
    assert [step.load_pct for step in plan.steps] == [10, 50]
    assert [step.fleet_w for step in plan.steps] == [1100, 1500]
    assert plan.watts == 1300
    assert plan.over_pct == 0


def test_as_few_servers_stay_awake_as_keep_the_goal():
    fleet = Fleet(day(100.0, 400.0), 10, 100.0, goal_us=10.0, sleep_w=5.0, wake_s=0.0)
    plan = fleet.plan("x", LINEAR, LINEAR, sleeps=True)
    # At 10 us a server carries 50 %: two, then eight; each per cent takes a watt wherever it is.
    assert [step.awake for step in plan.steps] == [2, 8]
    assert [step.fleet_w for step in plan.steps] == pytest.approx([2 * 150 + 8 * 5, 8 * 150 + 10])
    assert plan.awake == (2, 5, 8)
    assert plan.wakes == 6
    # A longer p99 lets a server carry 80 %.
    long = replace(fleet, goal_us=40.0).plan("x", LINEAR, LINEAR, sleeps=True)
    assert [step.awake for step in long.steps] == [2, 5]


def test_servers_wake_before_the_load_comes():
    rates = (100.0, 100.0, 400.0, 100.0)
    fleet = Fleet(day(*rates, step_s=60.0), 10, 100.0, goal_us=10.0, wake_s=90.0)
    awake = [step.awake for step in fleet.plan("x", LINEAR, LINEAR, sleeps=True).steps]
    assert awake == [8, 8, 8, 2]
    soon = replace(fleet, wake_s=60.0).plan("x", LINEAR, LINEAR, sleeps=True)
    assert [step.awake for step in soon.steps] == [2, 8, 8, 2]


def test_the_day_begins_again_where_it_ends():
    rates = (400.0, 100.0, 100.0, 100.0)
    fleet = Fleet(day(*rates, step_s=60.0), 10, 100.0, goal_us=10.0, wake_s=60.0)
    plan = fleet.plan("x", LINEAR, LINEAR, sleeps=True)
    assert [step.awake for step in plan.steps] == [8, 2, 2, 8]
    assert plan.wakes == 6
    whole = replace(fleet, wake_s=1e9).plan("x", LINEAR, LINEAR, sleeps=True)
    assert [step.awake for step in whole.steps] == [8, 8, 8, 8]


def test_a_goal_that_no_number_of_servers_keeps_wakes_all():
    fleet = Fleet(day(100.0, 100.0), 10, 100.0, goal_us=9.0)
    plan = fleet.plan("x", LINEAR, LINEAR, sleeps=True)
    assert plan.over_pct == 100
    assert plan.awake == (10, 10, 10)


def test_limits_without_a_goal_are_relative_to_the_usual_policy():
    slow = replace(LINEAR, p99_us=(10.9, 10.9, 43.0))
    slower = replace(LINEAR, mean_us=(5.3, 5.3, 21.0))
    fleet = Fleet(day(100.0, 100.0), 10, 100.0, goal_us=None)
    assert fleet.plan("slow", slow, LINEAR).over_pct == 0
    assert fleet.plan("slower", slower, LINEAR).over_pct == 100


def test_a_log_is_counted_by_the_minute(tmp_path: Path):
    log = tmp_path / "a.csv"
    rows = [*(0.5 * n for n in range(120)), *(60 + n for n in range(61))]
    log.write_text("at_s\n" + "".join(f"{at}\n" for at in rows))
    found = Day.read(f"log:{log}")
    assert found.step_s == 60
    assert found.per_s == pytest.approx([2.0, 1.0])
    assert "CSV" in found.read_as


def test_lines_and_steps_that_a_file_lacks_are_counted(tmp_path: Path):
    file = tmp_path / "a.csv"
    rows = [f"{n},60" for n in range(40) if n not in (5, 6)]
    file.write_text("\n".join([*rows, "junk,line"]) + "\n")
    found = Day.read(str(file))
    assert (found.missing, found.bad_lines) == (2, 1)
    assert found.per_s[4:8] == (60, 0, 0, 60)


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A service of 200 us, of which 56 cores carry 280,000 requests a second."""
    folder = tmp_path_factory.mktemp("profile")
    file = folder / "slow.profile.toml"
    file.write_text(stated_profile("slow", mean_us=200.0, cv=1.0).toml())
    return str(file)


def test_a_day_of_steady_steps_is_the_day_played_whole(profile: str, tmp_path: Path):
    # Ten steps of a second: long beside all that a server remembers, but for menu's first ones.
    shares = (0.05, 0.1, 0.2, 0.3, 0.5, 0.6, 0.4, 0.3, 0.15, 0.08)
    counts = tmp_path / "day.csv"
    counts.write_text("".join(f"{n},{280_000 * share:.0f}\n" for n, share in enumerate(shares)))
    found = hw.advise_day(profile, day=str(counts), servers=1, today=True, p99_us=5000)
    names = ["menu", found.today]
    whole = hw.compare(f"{profile}@counts:{counts}", techniques=names, machine=ON, world="node")
    for name, one in zip(names, ("menu", "today"), strict=True):
        row = whole.runs.filter(technique=name).row(0, named=True)
        # What comes in the first tenth of a run is not counted.
        left_s = 10 - row["duration_s"]
        kept = [min(max(n + 1 - left_s, 0), 1) for n in range(10)]
        steps = found.steps[f"{one}_fleet_kw"].to_list()
        watts = 1000 * sum(a * b for a, b in zip(kept, steps, strict=True)) / sum(kept)
        assert watts == pytest.approx(row["power_w"], rel=0.01)


@pytest.fixture(scope="module")
def fleet(profile: str, tmp_path_factory: pytest.TempPathFactory) -> DayAdvice:
    counts = tmp_path_factory.mktemp("day") / "day.csv"
    rates = (5.0, 5.0, 60.0, 20.0)
    counts.write_text("".join(f"{3600 * n},{3600 * rate}\n" for n, rate in enumerate(rates)))
    return hw.advise_day(
        profile,
        day=f"counts:{counts}",
        servers=20,
        load=60.0,
        p99_us=5000,
        requests=60_000,
        reply_kb=16,
    )


def test_the_answer_says_what_its_tables_say(fleet: DayAdvice):
    assert fleet.keeps_goal
    plans = {(row["technique"], row["asleep"]): row for row in fleet.plans.to_dicts()}
    mine = plans[fleet.today, "none"]
    assert fleet.sentences[0].startswith(f"Set {fleet.today} for slow along day.csv (4 h; 20 ")
    assert f"saves {mine['saving_pct']:.2f} %" in fleet.sentences[0]
    assert mine["energy_kwh"] == pytest.approx(4 * mine["fleet_kw"])
    assert not any("year" in line for line in fleet.sentences)
    assert any(
        line.startswith("The file has 4 steps of 60 min, 4 h in all") for line in fleet.sentences
    )
    assert any(line.startswith("The counts are multiplied by ") for line in fleet.sentences)
    kept = [row for (_, asleep), row in plans.items() if asleep == "none"]
    kept = [row for row in kept if row["needs"] == "today" and not row["over_goal_pct"]]
    least = min(row["fleet_kw"] for row in kept)
    assert mine["fleet_kw"] <= 1.01 * least
    assert mine["fleet_kw"] == pytest.approx(mean(fleet.steps["today_fleet_kw"].to_list()))
    # 60 % of what twenty servers carry, in the fullest step.
    assert max(fleet.steps["menu_load_pct"].to_list()) == pytest.approx(60.0, rel=1e-6)
    some = plans[fleet.today, "some"]
    assert some["fleet_kw"] < mine["fleet_kw"]
    assert any("asleep" in line and "assumptions" in line for line in fleet.sentences)
    assert any("All of it is modelled" in line for line in fleet.sentences)
    assert fleet.asleep
    assert fleet.linux_asleep
    asleep = mean(fleet.steps["asleep_fleet_kw"].to_list())
    assert plans[fleet.asleep, "some"]["fleet_kw"] == pytest.approx(asleep)
    assert f"{fleet.asleep}, some servers asleep" in str(fleet.chart().to_dict())
    assert fleet.linux


@pytest.mark.parametrize("width", WIDTHS)
def test_the_figure_of_a_day_has_no_text_over_another(fleet: DayAdvice, width: str):
    for goal in (None, 100.0):
        figure = day_figure(replace(fleet, goal_us=goal))
        assert figure.caption.startswith(fleet.sentences[0])
        graph = scene(specification(figure, STYLES["paper"], WIDTHS[width]))
        assert abs(graph["width"] - WIDTHS[width] * POINTS) <= 1.5
        texts = [(text, box) for kind, text, box in marks(graph) if kind == "text"]
        assert not [
            (one, other) for (one, a), (other, b) in combinations(texts, 2) if overlap(a, b)
        ]
        told = {text for text, _ in texts}
        assert {USUAL, fleet.today, f"{fleet.asleep}, some servers asleep"} <= told
        assert ("goal" in told) == (goal is not None)


def test_advise_prints_a_day_of_a_fleet(halfwink: Halfwink, profile: str, tmp_path: Path):
    (tmp_path / "day.csv").write_text("00:00,60\n00:01,6000\n00:02,600\n")
    words = ("advise", profile, "--day", "day.csv", "--servers", "3", "--load", "40%", "--today")
    words = (*words, "--p99", "5ms", "--requests", "20000", "-o", "out")
    told = halfwink(*words, "--plot", "day.svg")
    assert told.status == 0
    assert "along day.csv (3 min; 3 servers at 0.4 to 40 % load" in told.out.replace("\n", " ")
    assert (tmp_path / "day.svg").read_text().startswith("<svg")
    assert "figure: day.svg; caption: Set " in told.err
    found = halfwink(*words, "--json")
    assert len(found.rows("day")) == 3
    assert {row["asleep"] for row in found.rows("plans")} == {"none", "some"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--day", "none.csv"), "none.csv"),
        (("--day", "one.csv"), "expected two rows or more"),
        (("--day", "day.csv", "--load", "30/s"), "--load 30/s: expected per cent with --day"),
        (("--day", "day.csv", "--load", "100%"), "load: 100.0 %, expected above 0, below 100"),
        (("--day", "day.csv", "--servers", "0"), "servers: 0, expected 1 to"),
        (("--day", "day.csv", "--sleep-w", "-1"), "sleep_w: -1.0, expected 0 to 10000"),
        (
            ("--day", "big.csv"),
            "of what 1 server can carry; expected 21 servers or more, or --load",
        ),
        (("--sleep-w", "5"), "--sleep-w, --wake-s, --reply-kb: expected --day with them"),
        (("--day", "day.csv", "--reply-kb", "0"), "reply_kb: 0.0, expected above 0"),
        (("--day", "day.csv", "--plot", "none/a.svg"), "none/a.svg: there is no folder none"),
        (("--day", "gaps:day.csv@30"), "gaps:day.csv@30"),
        (("--day", "none-at-all.csv"), "expected two or more, with requests in them"),
    ],
)
def test_mistakes_are_one_line(
    halfwink: Halfwink, tmp_path: Path, words: tuple[str, ...], said: str
):
    (tmp_path / "one.csv").write_text("00:00,60\n")
    (tmp_path / "day.csv").write_text("00:00,60\n00:01,60\n")
    (tmp_path / "big.csv").write_text("00:00,5000000000\n00:01,60\n")
    (tmp_path / "none-at-all.csv").write_text("00:00,0\n00:01,0\n")
    wrong = halfwink("advise", "nginx", *words)
    assert wrong.status == 2
    assert said in wrong.complaint


def test_loads_that_cannot_be_are_refused(tmp_path: Path):
    with pytest.raises(HalfwinkError, match="has a load"):
        hw.advise_day("nginx@30", day="a.csv", servers=1)
    with pytest.raises(HalfwinkError, match="wake_s: -1, expected 0 to 86400"):
        hw.advise_day("nginx", day="a.csv", servers=1, wake_s=-1)


def test_the_network_takes_what_its_closed_form_says(fleet: DayAdvice):
    # Strong's model at no utilisation: 524 and 382 W at 100 Gb/s, 143.3 and 128.2 at 10.
    packets, circuits = network_w_per_gbps()
    assert packets == pytest.approx((524 - 143.3) / 90, rel=1e-3)
    assert circuits == pytest.approx((382 - 128.2) / 90, rel=1e-3)
    (line,) = (line for line in fleet.sentences if line.startswith("The network beside it"))
    # 168,000 requests a second of 16 kB in the fullest step, and 22.5 / 60 of that in the mean.
    assert "at 16 kB a request a server moves 8.06 Gb/s in the mean and 21.5 at most" in line
    kwh = packets * 8.064 * 20 / 1000 * 4
    assert f"({kwh:.3g} kWh in 4 h)" in line


def test_frames_have_a_row_for_each_step_and_plan(fleet: DayAdvice):
    assert fleet.steps.height == 4
    assert isinstance(fleet.plans, pl.DataFrame)
    assert fleet.chart().to_dict()["vconcat"][2]["layer"]
