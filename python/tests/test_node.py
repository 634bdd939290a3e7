"""The node from Python and the command line: loads, profiles, verdicts, charts."""

from __future__ import annotations

import itertools
import json
import re
import tomllib
from pathlib import Path

import polars as pl
import pytest

import halfwink as hw
from halfwink.errors import HalfwinkError
from halfwink.library import root
from halfwink.models import stated_profile
from halfwink.models.request_profile import WITHIN, core_of
from halfwink.models.response_times import read_times, time_us
from halfwink.report.load_chart import alike, along_load, front, is_along_load
from halfwink.results.published_watts import published_watts
from halfwink.results.summary import summarize
from halfwink.runs.comparison import at_loads, default_world, split_loads

FEW = {"requests": 40_000}
SOME = ["menu", "c1", "c6a", "c6a+package-sleep"]


@pytest.fixture(scope="module")
def found() -> hw.Results:
    return hw.compare("exponential", world="node", techniques=SOME, set=FEW, loads=["10%", "50%"])


def test_profile_in_a_file_is_played_on_a_server_of_today(tmp_path: Path):
    mine, study = tmp_path / "mine.toml", tmp_path / "study.toml"
    mine.write_text((root() / "profiles/golden-cove/nginx.toml").read_text())
    study.write_text('schema = 1\ntechniques = ["tap"]\n')
    for techniques in (None, "menu", ["menu", "./my_gate.py"]):
        assert default_world([str(mine)], techniques, None, None) == "node"
        assert default_world([str(mine)], techniques, "ev6-1", None) == "chip"
    for other in (study, tmp_path / "gone.toml"):
        assert default_world([str(other)], None, None, None) == "chip"
    assert default_world(["own.hwt"], ["./my_gate.py"], None, None) == "chip"


def test_loads_are_read():
    assert split_loads("10,30,50%") == ["10%", "30%", "50%"]
    assert split_loads("100/s") == ["100/s"]
    assert split_loads("100,200/s") == ["100/s", "200/s"]
    assert split_loads("mmpp:10,90,5,1") == ["mmpp:10,90,5,1"]
    assert split_loads("clients:8,64:think=1ms:law=constant") == [
        "clients:8:think=1ms:law=constant",
        "clients:64:think=1ms:law=constant",
    ]
    assert split_loads("clients:1..3:think=1ms")[1:] == [
        "clients:2:think=1ms",
        "clients:3:think=1ms",
    ]
    assert at_loads(["nginx"], ["10%", "200/s"], "node") == ["nginx@10", "nginx@200/s"]
    with pytest.raises(HalfwinkError, match="has a load already"):
        at_loads(["nginx@3"], ["10%"], "node")
    with pytest.raises(HalfwinkError, match="have no load"):
        at_loads(["nginx"], ["10%"], "chip")


def test_one_sentence_for_each_load_and_menu_is_the_baseline(found: hw.Results):
    assert found.baseline == "menu"
    ten, fifty, rest = found.verdict().sentences
    assert ten.startswith("At 10 % load nothing that runs today uses less energy than menu. ")
    assert "With hardware that is not sold today, c6a+package-sleep uses " in ten
    assert fifty.startswith("At 50 % load ")
    assert "modelled" in rest


def test_slices_sum_to_runs_and_share_their_requests(found: hw.Results):
    sums = (
        found.tables["slices"]
        .group_by("workload", "technique")
        .agg(pl.col("energy_j").sum(), pl.col("work").sum(), pl.len())
    )
    joined = sums.join(found.runs, on=["workload", "technique"], suffix="_run")
    assert joined["len"].unique().to_list() == [128]
    for ours, run in joined.select("energy_j", "energy_j_run").iter_rows():
        assert ours == pytest.approx(run)
    # Every composition is offered the same.
    arrivals = found.runs.group_by("workload").agg(pl.col("offered_per_s").n_unique())
    assert arrivals["offered_per_s"].to_list() == [1, 1]


def test_ledgers_have_the_whole_server(found: hw.Results):
    rows = found.ledger.filter(technique="c6a+package-sleep", workload="exponential@10")
    parts = set(rows["component"].to_list())
    assert {"core0", "core55", "uncore0", "memory0", "rest"} <= parts
    run = found.runs.filter(technique="c6a+package-sleep", workload="exponential@10")
    assert rows["energy_j"].sum() == pytest.approx(run["energy_j"][0])


def test_the_chart_has_a_line_for_each_composition(found: hw.Results):
    assert is_along_load(found)
    spec = along_load(found).to_dict()
    trade, power = spec["hconcat"]
    assert "energy against p99" in trade["title"]["text"]
    assert trade["title"]["subtitle"] == ["c6a stands for c6a+package-sleep too"]
    assert power["title"] == "watts against load"
    alone = hw.compare("exponential@30", world="node", techniques=["menu", "c1"], set=FEW)
    assert not is_along_load(alone)


def test_published_watts_stand_beside_ours_as_inputs_or_as_targets():
    """SPECpower 20240716-01419: one Xeon of 32 cores. Its idle watts made the machine file."""
    values = FEW | {"server.cores": 8}
    loads = ["10%", "20%", "30%", "35%", "90%"]
    played = hw.compare("nginx", techniques=["menu", "c1e"], set=values, loads=loads)
    c1e = played.published_watts.filter(technique="c1e")
    assert c1e["published_w"].to_list() == [244, 260, 273, 416]
    assert set(c1e["published_use"]) == {"target"}
    low, high = c1e["above_published_pct"].to_list()[:3], c1e["above_published_pct"][3]
    assert all(abs(off) < 5 for off in low), low
    # A miss: the part raises its clock with load, and ours has one clock (docs/node.md).
    assert -25 < high < -20
    inputs = published_watts().filter(published_use="input")
    assert inputs["load_pct"].to_list() == [0]
    # The sum of what the file has: without requests, all cores in C1E.
    spec = tomllib.loads((root() / "machines/node/golden-cove-56.toml").read_text())
    watts = {one["name"]: one["core_w"] for one in spec["idle_states"]}
    shared = {one["name"]: one["awake_w"] for one in spec["shared"]}
    idle = 32 * watts["c1e"] + sum(shared.values()) + spec["rest_w"]
    assert idle == pytest.approx(inputs["published_w"][0], abs=1)
    chart = json.dumps(along_load(played).to_dict(), default=str)
    assert "crosses: SPECpower 20240716-01419" in chart
    # Another server is not that one.
    other = hw.compare("nginx", techniques=["c1e"], set=FEW, loads=loads[:2])
    assert "published_watts" not in other.tables
    assert "SPECpower" not in json.dumps(along_load(other).to_dict(), default=str)


def test_irq_suspension_crosses_interrupts_as_published(tmp_path: Path):
    """Karsten and Damato, Linux 6.13: CPU in per cent of memcached; the most that interrupts serve,
    1,037,654 a second, is an input."""
    published = {200: (26, 30), 400: (41, 49), 600: (61, 65), 800: (87, 78), 1000: (98, 89)}
    file = tmp_path / "memcached.toml"
    stated_profile("memcached", mean_us=4 / 1.037654, cv=1).write(file)
    values = FEW | {"server.dies": 1, "server.cores": 4}
    techniques = ["menu", "menu+irq-suspend", "poll-mode"]
    loads = [f"{thousands}000/s" for thousands in published]
    runs = hw.compare(str(file), world="node", techniques=techniques, loads=loads, set=values).runs
    works = pl.col("busy_pct") + pl.col("kernel_pct")
    menu, suspended, polling = (
        runs.filter(technique=name).select(works).to_series().to_list() for name in techniques
    )
    for ours, theirs in zip(zip(menu, suspended, strict=True), published.values(), strict=True):
        assert ours == pytest.approx(theirs, abs=11)
    # Timers cost more than the interrupts that they replace at a low load, and less at a high one.
    assert suspended[0] > menu[0] + 3
    assert suspended[-1] < menu[-1] - 5
    # The last is the null: without timers, less is worked at every load.
    assert all(a < b for a, b in zip(polling, suspended, strict=True))


def test_two_ways_from_the_network_card_are_refused():
    for both in ("coalesce+busy-poll", "teo+poll-mode", "irq-suspend+coalesce-adaptive"):
        with pytest.raises(HalfwinkError, match="both decide"):
            hw.compare("nginx@10", techniques=[both], set=FEW)


def test_a_server_whose_watts_are_assumed_shows_no_joules():
    few = ["menu", "c6a"]
    found = hw.compare(
        "exponential", world="node", machine="zen4-96", techniques=few, loads=["10", "50"], set=FEW
    )
    assert not re.search(r"kWh|\d [mu]?[WJ]\b", str(found.verdict())), found.verdict()
    assert "over the watts assumed) less than" in str(found.verdict())
    headings = summarize(found).headings
    assert "energy, % of baseline" in headings
    assert not {"energy/unit", "power W"} & set(headings)
    chart = json.dumps(along_load(found).to_dict(), default=str)
    assert "of menu's at its greatest load), modelled" in chart
    assert "mJ per request" not in chart
    assert "power_w" not in chart
    # The baseline at its greatest load is 100 % of both.
    rows = [row for rows in json.loads(chart)["datasets"].values() for row in rows]
    base = [r for r in rows if r["technique"] == "menu" and r["workload"] == "exponential@50"]
    assert {(r["energy_pct"], r["power_pct"]) for r in base} == {(100.0, 100.0)}


def test_a_short_run_at_a_low_load_keeps_up():
    found = hw.compare(
        "exponential@10", world="node", techniques=["menu", "c1"], set={"requests": 1000}
    )
    assert set(found.runs["keeps_up"]) == {"yes"}
    assert not any("keep up" in breaks for breaks in found.runs["breaks"])


def test_gaps_of_a_file_are_scaled_to_a_load():
    gaps = root() / "workloads/server/csedns.arrival.cdf"
    found = hw.compare(
        f"exponential@gaps:{gaps}@20", world="node", techniques=["menu", "c1"], set=FEW
    )
    assert found.runs["load_pct"].to_list() == pytest.approx([20, 20])


def test_clients_that_wait_are_compared_at_one_rate():
    """N = X (R + Z); who answers later is asked less, and what it saves by that is no saving."""
    loads = [f"clients:{count}:think=200us" for count in (28, 200)]
    played = hw.compare("nginx", world="node", techniques=["menu", "c1"], set=FEW, loads=loads)
    for one in played.runs.iter_rows(named=True):
        clients = int(one["workload"].split(":")[1])
        assert one["load"] == "closed"
        assert one["keeps_up"] == "yes"
        answer_s = one["latency_mean_us"] * 1e-6
        assert one["per_s"] * (answer_s + 200e-6) == pytest.approx(clients, rel=0.02)
        assert 200 < one["idle_w"] < one["power_w"]
    menu, c1 = (played.runs.filter(technique=name) for name in ("menu", "c1"))
    assert c1["per_s"][0] > 1.5 * menu["per_s"][0]
    # For each request C1 takes less, since it does more of them; at one rate it takes more.
    assert c1["energy_saving_pct"][0] > 5
    assert c1["equal_rate_saving_pct"][0] < -5
    few, many, _ = played.verdict().sentences
    assert few.startswith("With 28 clients (think=200us) nothing that runs today uses less")
    assert many.startswith("With 200 clients (think=200us) ")
    assert "kWh" not in str(played.verdict())


def test_a_single_loop_of_clients_has_a_verdict_at_the_rate_of_its_baseline():
    load = ["clients:500:think=300us"]
    found = hw.compare("nginx", techniques=["menu", "teo"], set=FEW, loads=load)
    first = found.verdict().sentences[0]
    assert re.match(r"At menu's rate, .* requests a second, teo uses the least energy", first)


@pytest.mark.parametrize(
    ("load", "said"),
    [
        ("clients:0:think=1ms", "0 clients, expected 1 to"),
        ("clients:8", "no think time; expected clients:64:think=1ms"),
        ("clients:8:think=1h", "a think time of `1h`"),
    ],
)
def test_clients_that_cannot_be_are_one_line(load: str, said: str):
    with pytest.raises(HalfwinkError, match=said):
        hw.compare("nginx", techniques=["menu"], set=FEW, loads=[load])


def test_clients_are_of_a_server_of_today_alone():
    with pytest.raises(HalfwinkError, match=r"a load of a server of today \(-w node\)"):
        hw.compare("count@clients:8:think=1ms", world="server", techniques=["always-big"])
    with pytest.raises(HalfwinkError, match="play an open load"):
        hw.compare("nginx@clients:8:think=1ms", techniques=["c6+wake-only"], set=FEW)


def test_the_front_is_what_nothing_beats():
    runs = pl.DataFrame(
        {
            "workload": ["a"] * 4 + ["b"],
            "machine": ["m"] * 5,
            "set": [""] * 5,
            "energy_j_per_unit": [1.0, 2.0, 2.0, 3.0, 9.0],
            "latency_p99_us": [5.0, 3.0, 4.0, 3.0, 9.0],
        }
    )
    assert front(runs).to_list() == [True, True, False, False, True]


def test_lines_that_agree_at_all_loads_are_drawn_as_one():
    rows = [
        (technique, f"s@{load}", "", energy * factor, wait)
        for technique, factor, wait in [("a", 1.0, 5.0), ("b", 1.005, 5.0), ("c", 1.05, 5.0)]
        for load, energy in [(10, 3.0), (50, 1.0)]
    ]
    names = ["technique", "workload", "set", "energy_j_per_unit", "latency_p99_us"]
    runs = pl.DataFrame(rows, schema=names, orient="row")
    assert alike(runs) == {"a": ["a", "b"], "c": ["c"]}
    # Nowhere further apart: not at one load alone.
    other = runs.with_columns(
        pl.when(pl.col("technique") == "b", pl.col("workload") == "s@50")
        .then(2.0)
        .otherwise(pl.col("latency_p99_us"))
        .alias("latency_p99_us")
    )
    assert alike(other) == {"a": ["a"], "b": ["b"], "c": ["c"]}
    swept = pl.concat([other.with_columns(set=pl.lit("x=1")), runs])
    assert alike(swept) == {"a": ["a"], "b": ["b"], "c": ["c"]}


def test_a_stated_profile_plays(tmp_path: Path):
    profile = stated_profile("mine", mean_us=50, cv=1.5, busy_w=3.0)
    file = tmp_path / "mine.toml"
    profile.write(file)
    told = tomllib.loads(file.read_text())
    assert told["core"] == "any"
    assert told["service_us"]["cv"] == 1.5
    runs = hw.compare(f"{file}@20", world="node", techniques=["menu"], set=FEW).runs
    assert runs["busy_pct"][0] == pytest.approx(20, rel=0.05)
    assert runs["knows_cold"][0] == "no"
    # What it does not know is left out where nobody asked for it, and refused where somebody did.
    usual = hw.compare(f"{file}@20", world="node", set=FEW).runs["technique"].to_list()
    assert "c6a" in usual
    assert not any("tap" in name or "preheat" in name for name in usual)
    with pytest.raises(HalfwinkError, match="only a profile that comes from a recording does"):
        hw.compare(f"{file}@20", world="node", techniques=["tap"], set=FEW)


def test_kernel_code_visits_cores_of_its_own():
    techniques = ["always-on", "always-on+os-static", "always-on+os-offload"]
    played = hw.compare("nginx@10", techniques=techniques, set={**FEW, "os_cores": 20})
    _, plain, static, offload = played.runs.to_dicts()
    assert played.world == "node"
    assert [row["os_cores"] for row in (plain, static, offload)] == [0, 20, 20]
    assert plain["os_busy_pct"] == 0 < static["os_busy_pct"] < offload["os_busy_pct"]
    assert plain["latency_mean_us"] < static["latency_mean_us"] < offload["latency_mean_us"]
    moved = played.ledger.filter(cause="moved", technique=techniques[2])
    cores = set(moved.filter(pl.col("time_s") > 0)["component"])
    assert cores == {f"core{n}" for n in range(36, 56)}


def test_kernel_cores_are_half_busy_unless_their_number_is_set():
    found = hw.compare("nginx@10", techniques=["always-on", "always-on+os-static"], set=FEW)
    row = found.runs.filter(technique="always-on+os-static").row(0, named=True)
    assert row["os_cores"] == 6
    assert row["os_busy_pct"] == pytest.approx(49, abs=2)
    with pytest.raises(HalfwinkError, match="56 cores for kernel code that moves, expected 1"):
        hw.compare("nginx@10", techniques="always-on+os-static", set={**FEW, "os_cores": 56})


def test_a_service_at_a_load_is_played_on_a_server():
    with pytest.raises(HalfwinkError, match="both decide where kernel code runs"):
        hw.compare("nginx@10", techniques="os-static+os-offload", set=FEW)
    with pytest.raises(HalfwinkError, match="is of the world `chip`, not `node`"):
        hw.compare("nginx@10", techniques="os-like", set=FEW)


def test_package_sleep_saves_what_is_published_when_idle_and_less_with_load_and_cores():
    """AgilePkgC (arXiv 2204.10466): at most 41 %, and less than 0.1 % slower."""
    package: dict[str, float] = {
        "server.dies": 1,
        "server.cores": 10,
        "rest_w": 0,
        "shared.uncore.awake_w": 29.6,
    }

    def saved(load: float, values: dict[str, float]) -> float:
        runs = hw.compare(
            f"memcached@{load}", world="node", techniques=["c1", "pc1a"], set=FEW | values
        ).runs
        c1, pc1a = (runs.filter(technique=name).row(0, named=True) for name in ("c1", "pc1a"))
        assert pc1a["latency_mean_us"] <= 1.001 * c1["latency_mean_us"]
        return 100 * (1 - pc1a["energy_j_per_unit"] / c1["energy_j_per_unit"])

    idle, low, busy = (saved(load, package) for load in (0.1, 5, 20))
    assert 40 < idle <= 41.2
    # All ten are idle at once for 0.95^10 and 0.8^10 of the time, at most.
    assert 0.3 * idle < low < 0.95**10 * idle
    assert 0 < busy < 0.8**10 * idle
    assert saved(5, package | {"server.cores": 56}) < 0.1 * low


def test_a_short_run_begins_after_menu_has_learned():
    """With a tenth of the run left out alone, its p99 was four times teo's."""
    runs = hw.compare("redis@50", world="node", techniques=["menu", "teo"], set=FEW).runs
    menu, teo = (runs.filter(technique=name).row(0, named=True) for name in ("menu", "teo"))
    assert menu["latency_p99_us"] == pytest.approx(teo["latency_p99_us"], rel=0.2)


def test_a_99th_percentile_lies_in_its_interval():
    known = {"requests": 300_000}
    runs = hw.compare(["nginx@5", "nginx@10"], techniques=["menu", "c1"], set=known).runs
    for one in runs.iter_rows(named=True):
        ends = one["latency_p99_low_us"], one["latency_p99_high_us"]
        assert ends[0] <= one["latency_p99_us"] <= ends[1], one["technique"]


def test_a_run_that_is_shorter_than_its_load_says_how_long_it_must_be():
    load = ["mmpp:10,90,0.05,0.05"]
    with pytest.raises(HalfwinkError, match=r"both loads come: --set requests=(\d+)") as raised:
        hw.compare("nginx", techniques=["c1"], loads=load, set=FEW)
    least = int(str(raised.value).rpartition("=")[2])
    found = hw.compare("nginx", techniques=["c1"], loads=load, set={"requests": least}).runs
    assert found["keeps_up"][0] == "yes"


def test_a_load_named_twice_is_one():
    runs = hw.compare("nginx", techniques=["menu"], loads=["10%", "10%"], set=FEW).runs
    assert runs["workload"].to_list() == ["nginx@10"]


def test_techniques_left_out_for_one_reason_are_one_line(caplog: pytest.LogCaptureFixture):
    hw.compare("nginx@10", world="node", techniques=["all"], set=FEW)
    left = [text for record in caplog.records if "left out" in (text := record.getMessage())]
    assert len(left) == 1
    names = re.match(r"left out: ([^:]+): .* under them ", left[0])
    assert names is not None, left
    assert f" -t {names[1].replace(', ', ',')}` measures" in left[0]


def test_times_of_a_log_become_a_law(tmp_path: Path):
    file = tmp_path / "times.csv"
    file.write_text("client,duration_ms\na,1\nb,2\nc,3\n")
    assert read_times(file) == [1000.0, 2000.0, 3000.0]
    profile = stated_profile("log", times_us=read_times(file))
    assert profile.mean_us == pytest.approx(2000)
    points = tomllib.loads(profile.toml())["service_us"]["points"]
    mean = sum((b[1] - a[1]) * (a[0] + b[0]) / 2 for a, b in itertools.pairwise(points))
    assert mean == pytest.approx(2000, rel=1e-3)
    file.write_text("1\nx\n")
    with pytest.raises(HalfwinkError, match=r"times\.csv:2: `x`"):
        read_times(file, "ms")
    with pytest.raises(HalfwinkError, match="or --unit us, ms or s"):
        read_times(file)


@pytest.mark.parametrize("text", ["200", "0us", "-1ms", "1 hour", "us"])
def test_a_time_without_a_meaning_is_one_line(text: str):
    with pytest.raises(HalfwinkError, match="expected a time above 0 with its unit"):
        time_us(text)


def test_cores_of_servers_and_of_chips():
    assert core_of("golden-cove-56") == "golden-cove"
    assert core_of("zen4-96") == "zen4"
    assert core_of("golden-cove-8") == "golden-cove"
    assert core_of("neoverse-v2") == "neoverse-v2"


@pytest.mark.parametrize(("requests", "warns"), [(20_000, True), (60_000, False)])
def test_a_verdict_says_when_a_run_is_too_short_for_its_intervals(requests: int, warns: bool):
    four = {"server.dies": 1, "server.cores": 4}
    played = hw.compare("nginx@70", techniques="teo", set={"requests": requests} | four)
    last = played.verdict().sentences[-1]
    assert "95 % intervals of the difference" in last
    assert ("few for a governor that learns; play 9 000 or more" in last) == warns
    told = re.search(r"too narrow: ([\d ]+) requests a core", last)
    # The first tenth is not counted.
    assert told is None or 4_000 < int(told[1].replace(" ", "")) < 5_000


def test_a_technique_that_does_not_keep_up_makes_no_run_too_short():
    four = {"server.dies": 1, "server.cores": 4}
    techniques = ["teo", "teo+os-static"]
    played = hw.compare("nginx@70", techniques=techniques, set={"requests": 45_000} | four)
    units = {row["technique"]: row["units"] / 4 for row in played.runs.to_dicts()}
    assert units["teo+os-static"] < 9_000 < units["teo"]
    assert "few for a governor" not in played.verdict().sentences[-1]


def test_a_run_near_saturation_is_told_to_be_short():
    played = hw.compare("exponential@99", techniques="teo", set={"requests": 600_000})
    near = played.verdict().sentences[-1]
    assert "few for queues near saturation; play 100 000 or more" in near
    played = hw.compare("exponential@90", techniques="teo", set={"requests": 600_000})
    far = played.verdict().sentences[-1]
    assert "too narrow" not in far


def test_profile_and_compare_play_a_file(halfwink, tmp_path: Path):
    file = tmp_path / "mine.toml"
    made = halfwink("profile", "--service-mean", "80us", "--cv", "0", "-o", str(file), "--json")
    assert made.status == 0, made.err
    assert made.json()["facts"]["service_mean_us"] == 80
    done = halfwink(
        "compare", str(file), "--load", "10,40%", "-t", "menu,c1", "--set", "requests=20000",
        "-o", str(tmp_path / "out"), "--json",
    )  # fmt: skip
    assert done.status == 0, done.err
    assert done.json()["facts"]["world"] == "node"
    wrong = halfwink("compare", str(file), "--load", "130%", "-o", str(tmp_path / "out"))
    assert wrong.status == 2
    assert "nothing is saved by not serving them" in wrong.complaint
    none = halfwink("profile")
    assert none.status == 2
    assert "expected one of" in none.complaint


@pytest.mark.full("reproduce")
def test_a_shipped_profile_is_what_its_command_makes(tmp_path: Path):
    shipped = tomllib.loads((root() / "profiles/golden-cove/nginx.toml").read_text())
    assert shipped["made_by"].startswith("halfwink profile nginx-1pct -m golden-cove")
    anew = hw.profile("nginx-1pct", core="golden-cove-56", name="nginx")
    told = tomllib.loads(anew.toml())
    assert told["requests"] == shipped["requests"]
    assert told["watts"]["busy_w"] == pytest.approx(shipped["watts"]["busy_w"], rel=0.01)
    mean, again = (
        sum((b[1] - a[1]) * (a[0] + b[0]) / 2 for a, b in itertools.pairwise(p))
        for p in (shipped["service_us"]["points"], told["service_us"]["points"])
    )
    assert again == pytest.approx(mean, rel=0.01)
    for key in ("extra_us", "preheated_us", "load_us"):
        assert [c[key] for c in told["cold"]] == pytest.approx(
            [c[key] for c in shipped["cold"]], rel=0.05
        )
    assert [v["technique"] for v in told["variants"]] == list(WITHIN)
    moved = {v["technique"]: v["moved"] for v in told["variants"] if "moved" in v}
    assert moved == {v["technique"]: v["moved"] for v in shipped["variants"] if "moved" in v}
    assert 1 < moved["os-enough-work"]["visits"] < moved["os-offload"]["visits"]
    for key in ("time", "power", "shared"):
        assert [v[key] for v in told["variants"]] == pytest.approx(
            [v[key] for v in shipped["variants"]], rel=1e-3
        )
