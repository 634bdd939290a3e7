"""Advice: the composition to set for a service, its goal, and the assumptions that it hangs on."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from conftest import Halfwink
from test_figures import faults, marks

import halfwink as hw
from halfwink.advice import Advice
from halfwink.advice.advice import Value, provenance
from halfwink.advice.composition_search import (
    FAMILIES,
    USUAL,
    Question,
    Search,
    holds,
    name_of,
)
from halfwink.advice.linux_lines import linux_lines
from halfwink.errors import HalfwinkError
from halfwink.jobs import Job
from halfwink.models import stated_profile
from halfwink.report.advice_charts import compositions_figure
from halfwink.report.figures import POINTS, STYLES, WIDTHS, scene, specification
from halfwink.results.store import temporary_store
from halfwink.runs.comparison import NODE

SERVICE = "exponential"
FEW = 60_000
ON = "golden-cove-56"


@pytest.fixture(scope="module")
def free() -> Advice:
    """What can be had today, without a goal."""
    return hw.advise(SERVICE, load="30%", today=True, requests=FEW)


def test_advice_names_the_least_energy_of_today(free: Advice):
    assert free.keeps_goal
    assert free.today != USUAL
    assert free.sentences[0].startswith(f"Set {free.today}: for {SERVICE} at 30 % load (")
    runs = {row["technique"]: row for row in free.results.runs.to_dicts()}
    kept = [row for row in runs.values() if not row["breaks"]]
    least = min(row["energy_j_per_unit"] for row in kept)
    # Of those that take about as much, the one that answers sooner.
    assert runs[free.today]["energy_j_per_unit"] <= 1.01 * least
    assert set(free.tried["needs"]) == {"today"}
    assert free.tried["technique"].n_unique() == free.tried.height
    assert len(free.linux) == free.today.count("+") + 1
    assert "All of it is modelled" in free.sentences[-1]


def test_watts_are_told_of_equal_rates_alone(free: Advice):
    """Runs this short end at times that differ more than their rates should."""
    assert any("kWh a year" in line for line in free.sentences)
    short = hw.advise(SERVICE, load="30%", today=True, set={"requests": 5000})
    told = [line for line in short.sentences if "kWh" in line]
    line = "did not carry the same requests a second in runs of this length: no watts and no kWh"
    assert [line in one for one in told] == [True]


def test_search_finds_what_all_compositions_have():
    job = Job("node", f"{SERVICE}@30", ON, USUAL)
    with temporary_store() as store:
        question = Question(job, None, store)
        search = Search.of(question)
        # Few options, so that all compositions can be played.
        chosen = {
            "idle": ["teo", "c1", "c6"],
            "input": ["coalesce:hold_us=50"],
            "dispatch": ["lifo", "fifo"],
        }
        search.options = {family: chosen.get(family, []) for family in FAMILIES}
        search.run("today")
        every = itertools.product(*(["", *search.options[family]] for family in FAMILIES))
        runs = question.play([name_of(point) for point in every], 50_000).runs.to_dicts()
    assert len(runs) == 4 * 2 * 3
    assert len(search.rows) < len(runs) + 1
    least = min(row["energy_j_per_unit"] for row in runs if question.keeps(row))
    found = search.rows[search.finalists("today")[0]]
    assert found["energy_j_per_unit"] <= 1.001 * least


def test_a_tighter_goal_costs_energy_and_is_kept(free: Advice):
    p99 = free.results.runs.filter(technique=free.today)["latency_p99_us"][0]
    goals = (1.02 * p99, 10 * p99)
    found = [
        hw.advise(SERVICE, load="30%", p99_us=goal, today=True, requests=FEW) for goal in goals
    ]
    rows = [one.results.runs.filter(technique=one.today).row(0, named=True) for one in found]
    for one, row, goal in zip(found, rows, goals, strict=True):
        assert one.keeps_goal
        assert row["latency_p99_us"] <= goal
    tight, loose = (row["energy_j_per_unit"] for row in rows)
    assert tight > 1.01 * loose
    # What would use less, and breaks the goal, is told.
    tried = found[0].tried
    ours = tried.filter(technique=found[0].today)["energy_j_per_unit"][0]
    cheaper = tried.filter(~pl.col("keeps_goal"), pl.col("energy_j_per_unit") < 0.99 * ours)
    is_told = any("The goal costs" in line for line in found[0].sentences)
    assert is_told == (cheaper.height > 0)
    spec = json.dumps(found[0].chart().to_dict(), default=str)
    assert '"rule"' in spec


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("style", ["paper", "dark"])
def test_the_figure_names_what_to_set_and_the_runner_up(free: Advice, style: str, width: str):
    p99 = free.results.runs.filter(technique=free.today)["latency_p99_us"][0]
    for goal in (None, 1.5 * p99):
        found = replace(free, goal_us=goal)
        figure = compositions_figure(found)
        spec = specification(figure, STYLES[style], WIDTHS[width])
        graph = scene(spec)
        assert abs(graph["width"] - WIDTHS[width] * POINTS) <= 1.5
        assert faults(graph) == []
        texts = {text for kind, text, _ in marks(graph) if kind == "text"}
        assert {f"set: {free.today}", f"runner-up: {free.runner_up}", f"now: {USUAL}"} <= texts
        assert any(text.startswith("goal ") for text in texts) == (goal is not None)
        assert ("Dashed: the goal" in figure.caption) == (goal is not None)
        assert figure.caption.startswith(free.sentences[0])
        rows = [row for table in spec["datasets"].values() for row in table if "role" in row]
        (advised,) = (row for row in rows if row["is_advised"])
        assert advised["technique"] == free.today
        run = free.results.runs.filter(technique=free.today).row(0, named=True)
        # The long run's values, not those of the short one that was screened.
        assert advised["power"] == pytest.approx(run["power_w"], rel=1e-3)
        assert advised["latency_p99_us"] == run["latency_p99_us"]
        assert advised["what"] == f"set: {free.today}"


def test_a_figure_of_assumed_watts_is_in_per_cent(free: Advice):
    runs = free.results.runs.with_columns(pl.lit("assumed").alias("power_basis"))
    results = replace(free.results, tables={**free.results.tables, "run": runs})
    found = replace(free, results=results)
    spec = found.chart().to_dict()
    rows = [row for table in spec["datasets"].values() for row in table if "role" in row]
    (now,) = (row for row in rows if row["technique"] == USUAL)
    assert now["power"] == pytest.approx(100.0)
    assert f"(% of {USUAL}'s)" in json.dumps(spec)


def test_a_goal_that_nothing_keeps_names_the_nearest():
    found = hw.advise(SERVICE, load="30%", p99_us=1.0, today=True, requests=FEW)
    assert not found.keeps_goal
    assert found.linux == ()
    assert found.assumptions.is_empty()
    nearest = found.results.runs["latency_p99_us"].min()
    runs = {row["technique"]: row for row in found.results.runs.to_dicts()}
    assert runs[found.today]["latency_p99_us"] == nearest
    assert found.sentences[0].startswith("Nothing of today that was searched serves exponential")
    assert found.sentences[1].endswith("was not searched: -t lifo,fifo searches it, too.")
    assert f"the nearest, {found.today}, has p99 " in found.sentences[0]
    assert found.sentences[0].endswith(" % more.")
    assert found.runner_up == ""
    drawn = json.dumps(found.chart().to_dict())
    assert f'"nearest: {found.today}"' in drawn
    assert f"Ring: {found.today}, the nearest." in compositions_figure(found).caption


def test_assumptions_are_played_at_two_values(free: Advice):
    rows = {row["path"]: row for row in free.assumptions.to_dicts()}
    assert rows
    known = {value.path: value for value in provenance(Job("node", "-", ON, USUAL))}
    for path, row in rows.items():
        assert known[path].source.startswith("assumption")
        assert row["low_pct"] <= row["high_pct"]
    swings = [row["high_pct"] - row["low_pct"] for row in rows.values()]
    assert swings == sorted(swings, reverse=True)
    # By hand: by how much one of the values that were played moves the saving.
    path, row = next(iter(rows.items()))

    def saved(*values: tuple[str, str], requests: int = 50_000) -> float:
        runs = hw.compare(
            f"{SERVICE}@30",
            world="node",
            techniques=[USUAL, free.today],
            set={"requests": requests, **dict(values)},
        ).runs
        return runs.filter(technique=free.today)["energy_saving_pct"][0]

    moved = saved((path, row["played"].split(" and ")[0])) - saved()
    told = saved(requests=FEW) + moved
    assert min(abs(told - row[end]) for end in ("low_pct", "high_pct")) < 1e-9


def test_lines_for_linux_have_the_values_of_the_advice():
    found = hw.advise("nginx", load="10%", p99_us=5000, today=True, requests=FEW)
    # Interrupts may be held back for a good part of so long a goal.
    name, _, hold = found.today.partition("coalesce:hold_us=")
    assert name in ("teo+", "c1e+")
    assert 1000 <= float(hold) < 5000
    off, on = "ethtool -C INTERFACE adaptive-rx off", f"ethtool -C INTERFACE rx-usecs {hold}"
    line = f"coalesce:hold_us={hold}: {off}; {on}"
    assert found.linux[-1] == line


@pytest.mark.parametrize(
    ("values", "c1", "c1e"),
    [
        ({}, "-D 2", "-D 3"),
        # As Skylake and older servers tell Linux.
        (
            {"c1": (2, 2), "c1e": (10, 20), "c6": (133, 600)},
            "-D 3",
            "-D 11",
        ),
        # No latency separates two states of one microsecond.
        (
            {"c1e": (1.5, 4)},
            "-E && cpupower idle-set -d 2 && cpupower idle-set -d 3",
            "-D 2",
        ),
    ],
)
def test_lines_for_idle_states_follow_from_the_latencies_of_the_machine(
    values: dict[str, tuple[float, float]], c1: str, c1e: str
):
    told = [
        (f"idle_states.{name}.{key}", str(value))
        for name, both in values.items()
        for key, value in zip(("exit_us", "residency_us"), both, strict=True)
    ]
    job = Job(NODE, "nginx@30", "golden-cove-56", USUAL, tuple(told))
    assert linux_lines("c1", job) == (f"c1: cpupower idle-set {c1}",)
    assert linux_lines("c1e", job) == (f"c1e: cpupower idle-set {c1e}",)
    assert linux_lines("c6", job) == ("c6: cpupower idle-set -E && cpupower idle-set -d 2",)


def test_machine_with_two_states_enables_both_for_c6():
    job = Job(NODE, "nginx@30", "neoverse-v2-96", USUAL)
    assert linux_lines("c6+c6a", job) == ("c6: cpupower idle-set -E",)


def test_goal_below_forty_microseconds_searches_whole_microseconds():
    assert holds(30.0) == [8, 10, 15, 24, 50]


def test_a_saving_of_less_than_one_per_cent_is_not_advised():
    mine = stated_profile("mine", mean_us=200, cv=1.5)
    with temporary_store() as store:
        file = Path(str(store.folder)) / "mine.toml"
        mine.write(file)
        found = hw.advise(str(file), load="5%", today=True, requests=FEW)
    runs = found.results.runs.filter(pl.col("breaks") == "")
    if max(runs["energy_saving_pct"]) < 1:
        assert found.today == USUAL
        assert found.sentences[0].startswith(f"Keep {USUAL}, Linux' default: for ")
        assert found.linux == ()


def test_numbers_of_a_server_file_have_their_sources(tmp_path: Path):
    text = """
rest_w = 60.0  # assumption: as others
schema = 1
[power]
active_w = 2.4  # [X] read
factor = [0.5, 1.3]  # assumption
[[idle_states]]
name = "c1"
wake_us = [0.5, 1.0]  # assumption: worst case
[kernel]
tick_us = 4000.0
"""
    (tmp_path / "mine.toml").write_text(text)
    found = provenance(Job("node", "-", str(tmp_path / "mine.toml"), USUAL))
    assert [(v.path, v.text, v.is_assumed) for v in found] == [
        ("rest_w", "60.0", True),
        ("power.active_w", "2.4", False),
        ("idle_states.c1.wake_us", "[0.5, 1.0]", True),
        ("kernel.tick_us", "4000.0", False),
    ]
    assert found[0].changes() == [("rest_w", "30"), ("rest_w", "78")]
    assert found[2].changes() == [
        ("idle_states.c1.wake_us", "[0.25, 0.5]"),
        ("idle_states.c1.wake_us", "[1, 2]"),
    ]
    assert Value("rest_w", "60.0", "assumption", (1.0, 1.0)).changes() == []


@pytest.mark.parametrize("name", ["golden-cove-56", "zen4-96", "neoverse-v2-96"])
def test_each_number_of_a_shipped_server_can_be_set(name: str):
    job = Job("node", f"{SERVICE}@30", name, USUAL)
    for value in provenance(job):
        Job("node", job.workload, name, USUAL, ((value.path, value.text),)).prepare()


def test_advise_prints_settings_and_savings(halfwink: Halfwink, tmp_path: Path):
    words = ("advise", SERVICE, "--load", "20%", "--p99", "2ms", "--today", "--requests", "20000")
    told = halfwink(*words, "--servers", "100", "-o", "out", "--plot", "a.svg")
    assert told.status == 0
    assert told.out.startswith("Set ")
    assert "On Linux:" in told.out
    assert "kWh for 100 servers" in told.out.replace("\n", " ")
    assert all(len(line) <= 100 for line in told.out.split("On Linux:")[0].splitlines())
    assert (tmp_path / "a.svg").read_text().startswith("<svg")
    assert "figure: a.svg; caption: Set " in told.err
    assert (tmp_path / "out/results.parquet").exists()
    # The runs are there.
    done = halfwink(*words, "-o", "out", "--json")
    facts = done.json()["facts"]
    assert facts["keeps_goal"]
    assert facts["goal_p99_us"] == 2000
    assert facts["runner_up"] in told.out
    assert facts["today"] in {row["technique"] for row in done.rows("runs")}
    assert done.json()["verdict"][0].startswith("Set ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nginx", "--p99", "2"), "`2`: expected a time above 0 with its unit"),
        (("nginx", "--servers", "0"), "servers: 0, expected 1 to 10000000"),
        (("nginx", "--servers", "1000000000"), "expected 1 to 10000000"),
        (("nginx", "--plot", "a.gif"), "a.gif: expected a name that ends in .pdf, .svg, .png"),
        (("nginx", "--plot", "a.svg", "--width", "2"), "expected one of column, page"),
        (("nginx", "--load", "10,30%"), "load: `10,30%`, expected one rate: 30%, 20000/s"),
        (("nginx", "--load", "counts:a.csv"), "files of arrivals are played whole"),
        (("nginx@30",), "`nginx@30` has a load already"),
        (("ngnix",), "did you mean `nginx`?"),
        (("nginx", "--load", "120%"), "requests a second, and golden-cove-56 carries"),
        (("nginx", "-m", "golden-cov-56"), "unknown server `golden-cov-56`"),
        (("nginx", "-m", "modls"), "`halfwink list machines -w node` shows what there is"),
        (("chat",), "`halfwink compare chat -w server` plays it"),
        (("chat", "-m", "models", "--p99", "2s"), "`halfwink compare chat -w server` plays it"),
        (("nginx", "--set", "rest=3"), "did you mean `rest_w`?"),
        (("nginx", "--requests", "10"), "requests: `10`, expected a whole number, 1000 to"),
    ],
)
def test_mistakes_are_one_line(halfwink: Halfwink, words: tuple[str, ...], said: str):
    wrong = halfwink("advise", *words)
    assert wrong.status == 2
    assert said in wrong.complaint


def test_numbers_that_cannot_be_are_refused():
    with pytest.raises(HalfwinkError, match="p99: -1 us, expected a number above 0"):
        hw.advise(SERVICE, p99_us=-1)
    with pytest.raises(HalfwinkError, match="p99_us: found '2ms', expected a number"):
        hw.advise(SERVICE, p99_us="2ms")  # type: ignore[arg-type]


GOVERNOR = """
from halfwink.policies import Gating
from halfwink.policies.gating import Gate, IdleBegin, IdleEnd, IdleState, Rest, Wake

class {name}(Gating):
    \"\"\"Has one state.\"\"\"

    events = (IdleState, IdleBegin, IdleEnd)

    def on_event(self, now, event):
        if isinstance(event, IdleBegin):
            return {action}
        if isinstance(event, IdleEnd):
            return Wake()
"""


def test_policy_of_ones_own_competes_in_its_slot(halfwink: Halfwink, tmp_path: Path):
    # The first state on sale, which the search names c1; and the deepest one at once.
    for name, action in (("First", "Rest(1)"), ("Deepest", "Gate()")):
        (tmp_path / f"{name.lower()}.py").write_text(GOVERNOR.format(name=name, action=action))
    words = ("advise", SERVICE, "--load", "10%", "--requests", str(FEW))
    done = halfwink(*words, "-t", "./first.py,./deepest.py,packing:limit=3", "-o", "out", "--json")
    assert done.status == 0, done.err
    runs = {row["technique"]: row for row in done.rows("runs")}
    tried = {row["technique"]: row for row in done.rows("tried")}
    assert tried["./first.py"]["energy_j_per_unit"] == tried["c1"]["energy_j_per_unit"]
    assert tried["./first.py"]["needs"] == "kernel"
    said = [line for line in done.json()["verdict"] if line.startswith("With ./")]
    for line, option in zip(said, ("./first.py", "./deepest.py"), strict=True):
        best = line.removeprefix(f"With {option}, ").partition(" ")[0]
        assert option in best.split("+")
        assert best in runs
    for more, complaint in (
        ("./first.py", "`./first.py` cannot be had today"),
        ("tap+teo", "`tap+teo`: expected one technique of a server"),
        ("ladder", "`ladder`: expected one technique of a server"),
        ("./none.py", "./none.py: No such file"),
        ("oracle", "`oracle` knows what is to come"),
        ("os-always", "the profile of exponential does not say"),
    ):
        today = ["--today"] if more == "./first.py" else []
        done = halfwink(*words, "-t", more, *today)
        assert (done.status, done.err.count("\n")) == (2, 1), done.err
        assert complaint in done.complaint
