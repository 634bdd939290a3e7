"""What a comparison says in sentences, of numbers that were chosen for it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import halfwink as hw
from halfwink.relate import relate, with_beyond_idle
from halfwink.results import Results
from halfwink.verdict import verdict

#: technique -> energy in J, mean latency in us
CHIP = {
    "always-on": (100.0, 50.0),
    "idle-menu": (80.0, 50.0),
    "tap": (76.0, 51.0),
    "fupg": (60.0, 75.0),
    "oracle": (70.0, 50.0),
}


def results(world: str = "chip", runs: dict[str, tuple[float, float]] | None = None, **more: Any):
    rows = [
        {
            "workload": "web",
            "machine": "m",
            "set": "",
            "technique": name,
            "unit_of_work": "request",
            "units": 1000,
            "duration_s": 10.0,
            "energy_j": energy,
            "energy_j_per_unit": energy / 1000,
            "latency_mean_us": latency,
            "latency_p99_us": 4 * latency,
            "load": "open",
        }
        | more
        for name, (energy, latency) in (runs or CHIP).items()
    ]
    baseline = rows[0]["technique"]
    table = with_beyond_idle(relate(pl.DataFrame(rows), baseline), world)
    return Results(world, {"run": table}, baseline)


def test_the_winner_its_cost_and_what_idle_states_do_anyway():
    found = verdict(results())
    first, idle, power, greedy, oracle, rests = found.sentences
    assert first == (
        "tap takes least: 24.00 % less energy than always-on (76 mJ instead of 100 mJ per"
        " request), 2.00 % slower, p99 200 us -> 204 us."
    )
    # 76 of 80.
    assert idle == "Idle states alone (idle-menu) save 20.00 %: beyond them tap saves 5.00 %."
    # 24 J in 10 s; 8766 hours.
    assert power == (
        "For the same work that is 2.4 W of the 10 W of a chip: 21 kWh a year of one that always"
        " runs so, 21 038 kWh of 1000."
    )
    assert greedy == "fupg would save 40.0 %, at a price: 50.00 % slower, p99 200 us -> 300 us."
    assert oracle == "oracle, which knows the future, saves 30.0 %."
    assert "modelled, from 1 000 requests a run on m; one run each" in rests
    row = found.winners.row(0, named=True)
    assert (row["technique"], row["workload"]) == ("tap", "web")
    assert row["beyond_idle_pct"] == pytest.approx(5)
    assert row["saved_kwh_a_year"] == pytest.approx(2.4 * 8.766)


def test_idle_states_that_cost_energy_are_said_to_and_kilowatts_are_written_out():
    runs = {"always-on": (1e5, 50.0), "idle-menu": (1.1e5, 50.0), "tap": (0.9e5, 50.0)}
    _, idle, power, *_ = verdict(results(runs=runs)).sentences
    assert idle.startswith("Idle states alone (idle-menu) take 10.00 % more: beyond them tap saves")
    assert power.startswith("For the same work that is 1 kW of the 10 kW of a chip: ")


def test_where_idle_states_are_as_good_they_are_the_answer():
    found = verdict(results(runs=CHIP | {"tap": (80.0, 50.0)}))
    assert found.sentences[0].startswith("idle-menu takes least: 20.00 %")
    assert found.sentences[1].endswith("no technique that was run adds to that.")


def test_without_idle_states_the_question_stays_open():
    found = verdict(results(runs={name: CHIP[name] for name in ("always-on", "tap")}))
    assert "not known: add idle-menu" in found.sentences[1]
    assert found.winners["beyond_idle_pct"].to_list() == [None]


def test_as_slow_as_linux_is_no_fault():
    runs = {
        "polling": (100.0, 10.0),
        "napi-menu": (70.0, 20.0),
        "metronome": (68.0, 20.1),
        "power-save": (60.0, 40.0),
    }
    first, idle, *_ = (found := verdict(results("router", runs))).sentences
    assert first.startswith("metronome takes least: 32.00 %")
    assert "2.0 times as slow" in first
    assert idle.endswith("beyond them metronome saves 2.86 %.")
    assert "power-save would save 40.0 %, at a price: 4.0 times as slow" in str(found)


def test_who_loses_work_does_not_win():
    table = results("router", {"polling": (100.0, 10.0), "napi-menu": (70.0, 10.0)}).runs
    lost = table.with_columns(pl.Series("lost_pct", [0.0, 3.0]))
    found = verdict(Results("router", {"run": lost}, "polling"))
    assert (
        found.sentences[0] == "Nothing saves energy against polling here at less than 5 % slowdown."
    )
    assert (
        found.sentences[1]
        == "napi-menu would save 30.0 %, at a price: as fast, p99 40 us, 3.000 % lost."
    )
    assert found.winners["technique"].to_list() == ["polling"]


def test_nothing_saved_is_said_and_nothing_beside_the_baseline_too():
    found = verdict(results("storage", {"one": (10.0, 5.0), "two": (12.0, 5.0)}))
    assert found.sentences[0] == (
        "Nothing saves energy against one here: two, the nearest, takes 20.0 % more."
    )
    assert found.winners.select("technique", "saved_w").rows() == [("one", 0.0)]
    found = verdict(results("storage", {"one": (10.0, 5.0)}))
    assert "name a technique beside it" in found.sentences[0]
    assert found.winners.is_empty()


def test_a_bound_that_saves_nothing_is_not_named():
    runs = {"always-on": (100.0, 50.0), "idle-menu": (100.001, 50.0), "dvfs-oracle": (100.0, 50.0)}
    found = verdict(results(runs=runs))
    assert found.sentences[0] == (
        "Nothing saves energy against always-on here: idle-menu, the nearest, takes as much."
    )
    assert "dvfs-oracle" not in str(found)


def test_next_to_nothing_is_said_to_be_that():
    runs = {"always-on": (100.0, 50.0), "idle-menu": (80.0, 50.0), "tap": (79.96, 50.0)}
    _, idle, *_ = verdict(results(runs=runs)).sentences
    assert idle.endswith(": beyond them tap saves 0.05 %, next to nothing.")


def test_what_seeds_do_not_agree_on_may_be_chance():
    tables: list[pl.DataFrame] = []
    for seed, tap in ((1, 70.0), (2, 82.0), (3, 86.0)):
        runs = {"always-on": (100.0, 50.0), "idle-menu": (80.0, 50.0), "tap": (tap, 50.0)}
        tables.append(results(runs=runs, set=f"seed={seed}").runs)
    found = verdict(Results("chip", {"run": pl.concat(tables)}, "always-on"))
    # 30, 18 and 14 %, 8.33 apart from their mean as usual; Student's t of two is 4.30.
    assert found.sentences[0].startswith("tap takes least: 20.67 ±20.69 % less energy")
    assert found.sentences[0].endswith("; it may be chance.")
    assert "beyond them tap saves 0.83 ±25.86 %, which may be chance." in found.sentences[1]


def test_what_saves_less_and_is_faster_is_named():
    runs = {"one": (100.0, 10.0), "lean": (50.0, 9.0), "quick": (70.0, 2.0)}
    found = verdict(results("storage", runs))
    assert found.sentences[0].startswith("lean takes least")
    assert "quick is fastest: 30.0 % less energy, 80.00 % faster" in str(found)


def test_many_workloads_get_a_sentence_over_all_and_one_for_each_winner():
    tables: list[pl.DataFrame] = []
    for name, tap in (("a", 76.0), ("b", 70.0), ("c", 80.0)):
        runs = {"always-on": (100.0, 50.0), "idle-menu": (80.0, 50.0), "tap": (tap, 50.0)}
        tables.append(results(runs=runs, workload=name).runs)
    found = verdict(Results("chip", {"run": pl.concat(tables)}, "always-on"))
    assert found.sentences[0] == (
        "Over all 3, tap saves most: 24.7 % in the mean, 5.83 % beyond idle states; at most 0.00 %"
        " slower."
    )
    assert found.sentences[1] == (
        "tap takes least on a, b: 24.0 % to 30.0 % less than always-on; beyond idle states 5.00 %"
        " to 12.5 %."
    )
    assert found.sentences[2] == "idle-menu takes least on c: 20.0 % less than always-on."


def test_names_are_not_trusted_in_html():
    runs = {"<b>one</b>": (10.0, 5.0), "two": (5.0, 5.0)}
    assert "<b>one" not in verdict(results("storage", runs)).as_html()


def test_the_command_the_report_and_python_say_the_same(halfwink: Any, tmp_path: Path):
    words = ("compare", "nginx", "-n", "300000", "-t", "tap,idle-menu", "-o", "out")
    done = halfwink(*words)
    said = hw.open(tmp_path / "out").verdict()
    assert done.out.startswith(said.sentences[0])
    page = (tmp_path / "out/report.html").read_text()
    shown = re.search(r'<section class="verdict".*?</section>', page, re.DOTALL)
    assert shown is not None
    assert "Idle states alone" in shown[0]
    (tap,) = (t for t in hw.techniques() if t["name"] == "tap")
    assert tap["title"] in page
    document = json.loads(halfwink(*words, "--json").out)
    assert document["verdict"] == list(said.sentences)
    # In the table the baseline leads, then who takes least.
    rows = [line.split() for line in done.out.splitlines() if line.startswith("nginx ")]
    assert rows[0][2] == "always-on"
    energies = [r["energy_j_per_unit"] for r in document["results"]]
    order = sorted(zip(energies[1:], ("tap", "idle-menu"), strict=True))
    assert [row[2] for row in rows[1:]] == [name for _, name in order]


def test_a_notebook_shows_the_verdict_above_the_table():
    shown = results()._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert shown.index("tap takes least") < shown.index("<table>")
    assert shown.index("<td>tap</td>") < shown.index("<td>idle-menu</td>")
