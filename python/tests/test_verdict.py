"""What a comparison says in sentences, of numbers that were chosen for it."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import halfwink as hw
from halfwink.results.judgement import judge, needs, usual
from halfwink.results.paired import Pieces, Side, Taken, taken
from halfwink.results.relate import relate
from halfwink.results.results import Results
from halfwink.results.verdict import verdict

#: technique -> energy in J, mean latency in us
CHIP = {
    "always-on": (100.0, 50.0),
    "idle-menu": (80.0, 50.0),
    "tap": (76.0, 51.0),
    "fupg": (60.0, 75.0),
    "oracle": (70.0, 50.0),
}
WHOSE = ("workload", "machine", "set", "technique")


def related(world: str, rows: list[dict[str, Any]], slices: pl.DataFrame | None = None) -> Results:
    """Results of rows, the first of which is the baseline."""
    baseline = rows[0]["technique"]
    runs = judge(relate(pl.DataFrame(rows), baseline), slices, world, baseline)
    tables = {"run": runs} | ({} if slices is None else {"slices": slices})
    return Results(world, tables, baseline)


def row(name: str, energy: float, latency: float, **more: Any) -> dict[str, Any]:
    return {
        "workload": "web",
        "machine": "m",
        "set": "",
        "technique": name,
        "unit_of_work": "request",
        "units": 1000,
        "duration_s": 10.0,
        "energy_j": energy,
        "energy_j_per_unit": energy / more.get("units", 1000),
        "latency_mean_us": latency,
        "latency_p99_us": 4 * latency,
        "load": "open",
        "idle_w": None,
    } | more


def results(
    world: str = "chip", runs: Mapping[str, tuple[float, float]] | None = None, **more: Any
) -> Results:
    given = (runs or CHIP).items()
    return related(world, [row(name, *values, **more) for name, values in given])


def closed(rates: Mapping[str, tuple[float, float]], floor: float = 145.0) -> Results:
    """Of techniques that do 1000 I/Os in so many seconds at so many watts."""
    rows = [
        row(name, seconds * watts, 5.0, duration_s=seconds, load="closed", idle_w=floor)
        | {"latency_mean_us": None, "latency_p99_us": None, "unit_of_work": "I/O"}
        for name, (seconds, watts) in rates.items()
    ]
    return related("storage", rows)


def sliced(joules: Mapping[str, list[float]]) -> Results:
    """Of techniques that take so much energy in each equal piece of ten seconds."""
    rows = [row(name, sum(values), 50.0) for name, values in joules.items()]
    whose = {"workload": "web", "machine": "m", "set": ""}
    slices = pl.DataFrame(
        [
            whose
            | {
                "technique": name,
                "stratum": 0,
                "work": 1,
                "time_s": 10 / len(values),
                "energy_j": value,
            }
            for name, values in joules.items()
            for value in values
        ]
    )
    return related("chip", rows, slices)


def noise(seed: int, count: int = 64) -> list[float]:
    source = random.Random(seed)
    return [source.uniform(0.5, 1.5) for _ in range(count)]


@pytest.mark.parametrize(
    ("latency", "half_us", "doubt"),
    [
        # 200 and 204 us: apart by more than hypot(2, 2), not by more than hypot(3, 3).
        (51.0, 2.0, ""),
        (51.0, 3.0, ", which may be chance"),
        (51.0, None, ""),
        # The limit is 220 us: 216 and 224 are within hypot(3, 3) of it.
        (54.0, 2.0, ""),
        (54.0, 3.0, ", perhaps beyond its limit"),
        (56.0, 3.0, ", perhaps within its limit"),
        (56.0, 2.0, ""),
    ],
)
def test_a_tail_that_its_interval_does_not_tell_apart_is_in_doubt(
    latency: float, half_us: float | None, doubt: str
):
    def tail(mean: float) -> dict[str, float | None]:
        ends = (None, None) if half_us is None else (4 * mean - half_us, 4 * mean + half_us)
        return dict(zip(("latency_p99_low_us", "latency_p99_high_us"), ends, strict=True))

    rows = [row("always-on", 100.0, 50.0), row("tap", 76.0, 50.0)]
    for one, mean in zip(rows, (50.0, latency), strict=True):
        one |= {"latency_p99_us": 4 * mean} | tail(mean)
    said = str(verdict(related("chip", rows)))
    told = re.search(r"p99 200 us -> \d+ us(.*?)[;.]", said)
    assert told is not None, said
    assert told[1] == doubt, said


def test_what_hardware_adds_costs_what_it_takes_beside_the_best_of_today():
    runs = {"always-on": (100.0, 100.0), "idle-menu": (80.0, 50.0), "tap": (76.0, 60.0)}
    said = str(verdict(results(runs=runs)))
    assert "less than always-on (80 mJ instead of 100 mJ per request), 50.00 % faster" in said
    assert "tap uses 5.00 % less than idle-menu (400 mW of 8 W), 20.00 % slower" in said
    assert "p99 200 us -> 240 us" in said


def test_a_baseline_that_cannot_keep_up_is_compared_with_nothing():
    rows = [row("menu", 100.0, 50.0), row("teo", 80.0, 50.0)]
    for one in rows:
        one["keeps_up"] = "no"
    found = verdict(related("node", rows))
    assert found.sentences[0] == "The server cannot keep up with this load: nothing is compared."
    assert found.winners.is_empty()


def test_a_tail_of_too_few_requests_is_told_so():
    ends = {"latency_p99_low_us": None, "latency_p99_high_us": None}
    rows = [row("menu", 100.0, 50.0) | ends, row("teo", 80.0, 40.0) | ends]
    said = str(verdict(related("node", rows)))
    assert "p99 200 us -> 160 us, of which so short a run says little" in said
    assert "of which" not in str(verdict(related("chip", rows)))
    # Of fewer than a hundred it is the longest of all.
    for one in rows:
        one["units"] = 99
    assert "of which so short a run says little" in str(verdict(related("chip", rows)))


def test_an_open_load_that_one_does_not_carry_is_told_with_the_rates_of_both():
    def sentences(duration_s: float) -> tuple[str, ...]:
        rows = [row("menu", 1000.0, 5.0), row("teo", 900.0, 5.0, duration_s=duration_s)]
        return related("node", rows).verdict().sentences

    assert "teo does 103 requests a second at 92.8 W" in sentences(9.7)[1]
    assert "menu does 100 requests a second at 100 W" in sentences(9.7)[1]
    # Runs end with their last request.
    assert not any("does" in sentence for sentence in sentences(9.95))


def test_a_run_without_requests_names_no_energy_of_one():
    rows = [row("always-on", 100.0, 50.0), row("always-small", 80.0, 50.0)]
    for one in rows:
        one |= {"units": 0, "energy_j_per_unit": None, "keeps_up": "yes"}
    idle = verdict(related("server", rows))
    assert "instead of" not in idle.sentences[0]
    assert "of the pair of servers' 10 W" in str(idle)
    for one in rows:
        one["keeps_up"] = "no"
    few = verdict(related("server", rows))
    assert few.sentences[0] == "Only 0 requests were counted: too few to compare anything."


def test_best_of_today_comes_first_then_hardware_then_the_bound():
    found = verdict(results())
    first, power, beyond, greedy, oracle, rests = found.sentences
    assert first == (
        "idle-menu uses the least energy of what runs today: 20.00 % less than always-on (80 mJ"
        " instead of 100 mJ per request), as fast, p99 200 us."
    )
    # 20 J in 10 s; 8766 hours.
    assert power == ("At this load that saves 2 W of the chip's 10 W: 18 kWh per chip and year.")
    # 76 of 80.
    assert beyond.startswith(
        "With hardware that is not sold today, tap uses 5.00 % less than idle-menu (400 mW of 8 W),"
        " 2.00 % slower, p99 200 us -> 204 us; it needs power switches"
    )
    assert greedy == (
        "fupg would save 40.00 % and breaks a limit (slower, longer p99): 50.00 % slower, p99"
        " 200 us -> 300 us; the limits are 5 % slower, 10 % longer p99."
    )
    assert oracle == "oracle, which knows the future, uses 12.50 % less than idle-menu: a bound."
    assert "modelled, from 1 000 requests a run on m; one run each" in rests
    row = found.winners.row(0, named=True)
    assert (row["technique"], row["needs"], row["today"]) == ("tap", "silicon", "idle-menu")
    assert row["beyond_today_pct"] == pytest.approx(5)
    assert row["saved_kwh_a_year"] == pytest.approx(2.4 * 8.766)


def test_a_reference_is_never_worse_than_nothing():
    # Golden Cove: c6 takes more than always-on, and is far slower.
    runs = {"always-on": (100.0, 50.0), "c6": (104.5, 350.0), "pc1a": (49.0, 50.0)}
    found = verdict(results(runs=runs))
    assert found.winners["today"].to_list() == ["always-on"]
    assert found.winners["beyond_today_pct"].to_list() == pytest.approx([51.0])
    assert "pc1a uses 51.00 % less than always-on" in str(found)


def test_without_the_usual_technique_of_today_it_is_asked_for():
    found = verdict(results(runs={name: CHIP[name] for name in ("always-on", "tap")}))
    assert found.sentences[0] == ("Of what runs today only always-on was compared: add idle-menu.")


def test_as_slow_as_the_usual_technique_breaks_no_limit():
    runs = {
        "polling": (100.0, 10.0),
        "napi-menu": (70.0, 20.0),
        "grout": (68.0, 20.1),
        "power-save": (60.0, 40.0),
    }
    found = verdict(results("router", runs))
    assert found.sentences[0].startswith("grout uses the least energy of what runs today: 32.00 %")
    assert "2.0 times as slow" in found.sentences[0]
    assert found.sentences[0].endswith("(as slow as napi-menu, the usual).")
    assert "power-save would save 40.00 % and breaks a limit" in str(found)
    assert "the limits are those of napi-menu: 102 % slower, 102 % longer p99" in str(found)


def test_technique_that_loses_work_does_not_win():
    rows = [row("polling", 100.0, 10.0, lost_pct=0.0), row("napi-menu", 70.0, 10.0, lost_pct=3.0)]
    found = verdict(related("router", rows))
    assert found.sentences[0].startswith(
        "Nothing that runs today uses less energy than polling here within the limits"
    )
    assert found.sentences[1].startswith(
        "napi-menu would save 30.00 % and breaks a limit (loses work): as fast, p99 40 us, 3.000 %"
    )
    assert found.winners["technique"].to_list() == ["polling"]


def test_technique_that_does_not_keep_up_is_not_even_dear():
    rows = [
        row("always-on", 100.0, 10.0, keeps_up="yes"),
        row("always-big", 110.0, 9.8, keeps_up="yes"),
        row("always-small", 30.0, 15.0, keeps_up="no"),
    ]
    assert "always-small" not in str(verdict(related("server", rows)))


def test_faster_work_idles_for_the_time_that_is_left():
    # Westmere-EX, random-read@17: 161 W against 290 W for a fifteenth of the time.
    found = verdict(closed({"single-thread": (15.0, 161.0), "round-robin-socket": (1.0, 290.0)}))
    even_w = (290 + 14 * 145) / 15
    (row,) = found.winners.to_dicts()
    assert row["saved_kwh_a_year"] is None
    saved = 161 - even_w
    assert found.winners["technique"].to_list() == ["round-robin-socket"]
    assert row["saved_w"] == pytest.approx(saved)
    assert "kWh" not in str(found)
    # The floor at 160 W: now the same work at the same rate takes more.
    found = verdict(
        closed({"single-thread": (15.0, 161.0), "round-robin-socket": (1.0, 290.0)}, floor=160.0)
    )
    assert found.winners["technique"].to_list() == ["single-thread"]
    assert "At full speed round-robin-socket uses the least energy per I/O" in str(found)


def test_closed_loop_without_floor_says_no_watts():
    rows = [
        row("one", 100.0, 5.0, load="closed"),
        row("two", 80.0, 5.0, load="closed", duration_s=5.0),
    ]
    found = verdict(related("storage", rows))
    assert found.winners["saved_w"].to_list() == [None]
    assert "kWh" not in str(found)


def test_nothing_saved_is_said_and_nothing_beside_the_baseline_too():
    found = verdict(results("storage", {"single-thread": (10.0, 5.0), "multi-queue": (12.0, 5.0)}))
    assert found.sentences[0] == (
        "Nothing that runs today uses less energy than single-thread here: multi-queue, the"
        " nearest, uses 20.00 % more."
    )
    assert found.winners.select("technique", "saved_w").rows() == [("single-thread", 0.0)]
    found = verdict(results("storage", {"one": (10.0, 5.0)}))
    assert "name a technique beside it" in found.sentences[0]
    assert found.winners.is_empty()


def test_noise_is_not_crowned_and_the_run_that_could_tell_is_named():
    base = noise(1)
    menu = [0.9 * value for value in base]
    chance = [value + 0.05 * (other - 1) for value, other in zip(menu, noise(2), strict=True)]
    found = verdict(sliced({"always-on": base, "idle-menu": menu, "tap": chance}))
    assert found.winners["technique"].to_list() == ["idle-menu"]
    assert "tap, the nearest, " in str(found)
    # A saving that is the same everywhere is known well, though pieces differ by a factor of three.
    steady = [0.985 * value for value in menu]
    found = verdict(sliced({"always-on": base, "idle-menu": menu, "tap": steady}))
    assert found.winners["technique"].to_list() == ["tap"]
    assert "tap uses 1.50 % less than idle-menu" in str(found)


def test_a_saving_below_one_per_cent_wins_nothing_however_well_it_is_known():
    base = noise(1)
    little = [0.9994 * value for value in base]
    less = [0.995 * value for value in little]
    found = verdict(sliced({"always-on": base, "idle-menu": little, "tap": less}))
    assert found.winners["technique"].to_list() == ["always-on"]
    assert found.winners["saved_w"].to_list() == [0.0]
    assert found.sentences[0] == (
        "Nothing that runs today uses 1 % less energy than always-on here: idle-menu, the nearest,"
        " saves 0.06 %."
    )
    assert found.sentences[1] == (
        "With hardware that is not sold today, nothing uses 1 % less than always-on: tap, the"
        " nearest, saves 0.56 %."
    )


def test_a_technique_that_may_save_more_by_chance_hides_none_that_surely_saves():
    base = noise(1)
    sure = [0.95 * value for value in base]
    # Saves some 10 % in the mean, by one piece of the run alone.
    chance = [value if n else value - 0.1 * sum(base) for n, value in enumerate(base)]
    found = verdict(sliced({"always-on": base, "c6": chance, "c1e": sure}))
    assert found.winners["technique"].to_list() == ["c1e"]
    alone = verdict(sliced({"always-on": base, "c6": chance}))
    assert alone.sentences[0].startswith(
        "Nothing that runs today surely uses 1 % less energy than always-on here: c6, the nearest,"
        " saves 10.00 % ("
    )


def test_full_speed_names_no_energy_per_unit_that_is_less_by_next_to_nothing():
    rates = {"single-thread": (15.0, 100.0), "multi-queue": (10.0, 149.5)}
    said = str(verdict(closed(rates, floor=99.0)))
    assert "At full speed" not in said
    said = str(verdict(closed(rates | {"multi-queue": (10.0, 145.0)}, floor=99.0)))
    assert "At full speed multi-queue uses the least energy per I/O" in said


def test_the_interval_of_a_difference_covers_it_as_often_as_it_says():
    inside = 0
    for trial in range(300):
        source = random.Random(trial)
        wholes = tuple(source.uniform(0.5, 1.5) for _ in range(16))
        ours = tuple(0.9 * whole + source.gauss(0, 0.05) for whole in wholes)
        found = Taken(sum(ours) / sum(wholes), ours, wholes).saved_of(Taken(1.0, wholes, wholes))
        inside += found.low is not None and found.low <= 10 <= (found.high or 0)
    assert 0.92 < inside / 300 < 0.995


def test_what_both_runs_have_in_common_leaves_the_interval():
    # Parts differ threefold; under the second technique each takes 2 % less, give or take 0.5 %.
    long_and_short = noise(3)
    less = [
        joules * (0.98 + 0.01 * (n - 1)) for joules, n in zip(long_and_short, noise(4), strict=True)
    ]
    saved = {
        r["technique"]: r
        for r in sliced({"base": long_and_short, "new": less}).runs.rows(named=True)
    }
    low, high = (saved["new"][f"energy_saving_{end}_pct"] for end in ("low", "high"))
    assert 0 < low < 2 < high
    assert high - low < 1, "between unpaired parts it would be some 20 points wide"


def test_joules_and_watts_of_estimated_machines_are_told_as_about_so_much():
    known = {"power_basis": "estimated", "power_low": 0.5, "power_high": 1.3}
    rows = [row(n, e, 50.0) | known for n, e in (("menu", 100.0), ("teo", 80.0))]
    first, power, *_ = verdict(related("node", rows)).sentences
    assert "(about 80 mJ instead of 100 mJ per request)" in first
    assert "saves about 2 W of the server's 10 W" in power
    for one, seconds in zip(rows, (10.0, 5.0), strict=True):
        one |= {"load": "closed", "duration_s": seconds, "idle_w": 9.0}
    said = str(verdict(related("node", rows)))
    assert "At full speed teo uses the least energy per request: about 80 mJ instead of" in said
    assert "200 requests a second at about 16 W, menu does 100 requests a second at about" in said


def test_power_that_nothing_changes_has_no_interval_and_that_is_said():
    rates = {"packet-switch": (10.0, 160.0), "round-robin": (25.0, 20.0)}
    own = {
        name: closed({name: rate}, floor=rate[1]).runs.row(0, named=True)
        for name, rate in rates.items()
    }
    rows = [{n: r[n] for n in row("x", 1.0, 1.0)} | {"unit_of_work": "bit"} for r in own.values()]
    found = verdict(related("fabric", rows))
    # 160 W against 20 W at any rate; round-robin takes 2.5 times as long and breaks the limit.
    assert "round-robin would save 87.50 % and breaks a limit (slower)" in str(found)
    assert found.sentences[-1].endswith(
        "power is the same whatever is carried, so that no difference is by chance."
    )
    # Where one of both draws less without work, how long it works was sampled.
    rows[0]["idle_w"] = 150.0
    assert "no interval of the difference is known" in str(verdict(related("fabric", rows)))


def test_loads_of_a_plan_differ_without_making_the_interval_wide():
    # Eight loads: nothing is saved at the first ones, half at the last ones.
    base = tuple(1.0 for _ in range(64))
    ours = tuple(1 - n // 8 / 14 + 0.01 * (n % 2) for n in range(64))
    strata = tuple(n // 8 for n in range(64))
    widths = [
        saved.high - saved.low
        for numbers in ((), strata)
        if (took := Taken(sum(ours) / 64, ours, base, numbers))
        if (saved := took.saved_of(Taken(1.0, base, base, numbers)))
        if saved.low is not None
        if saved.high is not None
    ]
    assert widths[0] > 10 * widths[1] > 0


def test_seeds_give_the_interval_of_the_difference():
    rows: list[dict[str, Any]] = []
    for seed, tap in ((1, 70.0), (2, 82.0), (3, 86.0)):
        runs = {"always-on": (100.0, 50.0), "idle-menu": (80.0, 50.0), "tap": (tap, 50.0)}
        rows += [row(name, *values, set=f"seed={seed}") for name, values in runs.items()]
    found = verdict(related("chip", rows))
    # 30, 18 and 14 %, 8.33 apart from their mean as usual; Student's t of two is 4.30.
    assert found.winners["technique"].to_list() == ["idle-menu"]
    assert "tap, the nearest, saves 0.83 % (-25.0" in str(found), str(found)
    assert "a run that can tell has at least" in str(found)
    assert "95 % intervals over seeds" in found.sentences[-1]


def test_of_two_that_save_about_as_much_the_sooner_answer_wins():
    def best(menu: tuple[float, float], gate: tuple[float, float]) -> str:
        runs = {"always-on": (100.0, 50.0), "idle-menu": menu, "idle-gate": gate}
        found = verdict(results(runs=runs)).winners
        return found["today"][0]

    assert best((80.0, 40.0), (79.5, 50.0)) == "idle-menu"
    assert best((79.5, 50.0), (80.0, 40.0)) == "idle-gate"
    runs = {"always-on": (100.0, 50.0), "idle-menu": (79.5, 50.0), "idle-gate": (80.0, 40.0)}
    near = verdict(results(runs=runs)).sentences[0]
    assert near.startswith("idle-gate uses within 1 % of the least energy of what runs today: 20")
    # What is usual stays where another one saves less than 1 % of what it takes.
    assert best((80.0, 50.0), (79.5, 50.2)) == "idle-menu"
    # Further apart than 1 % of the reference, or than a tenth of what is saved.
    assert best((80.0, 50.0), (78.5, 50.2)) == "idle-gate"
    assert best((80.0, 40.0), (78.5, 50.0)) == "idle-gate"
    assert best((99.7, 40.0), (99.0, 50.0)) == "idle-gate"


def test_hardware_that_adds_nothing_to_a_changed_kernel_is_told_so():
    runs = {
        "always-on": (100.0, 50.0),
        "idle-menu": (80.0, 50.0),
        "idle-adaptive": (60.0, 50.0),
        "tap": (70.0, 50.0),
    }
    said = str(verdict(results(runs=runs)))
    assert "With a changed kernel or firmware, idle-adaptive uses 25.00 % less than" in said
    assert "nothing uses less than idle-adaptive: tap, the nearest, uses 16.67 % more." in said


def test_faster_technique_that_saves_less_is_named():
    runs = {"single-thread": (100.0, 10.0), "multi-queue": (50.0, 9.0), "polled": (70.0, 2.0)}
    found = verdict(results("storage", runs))
    assert found.sentences[0].startswith("multi-queue uses the least energy")
    assert "polled is fastest: 80.00 % faster, p99 40 us -> 8 us; it saves 30.00 %." in str(found)


def test_many_workloads_get_a_sentence_over_all_and_one_for_each_answer():
    rows: list[dict[str, Any]] = []
    for name, tap in (("a", 76.0), ("b", 70.0), ("c", 80.0)):
        runs = {"always-on": (100.0, 50.0), "idle-menu": (80.0, 50.0), "tap": (tap, 50.0)}
        rows += [row(technique, *v, workload=name) for technique, v in runs.items()]
    over, more, today, beyond, _ = verdict(related("chip", rows)).sentences
    assert over == (
        "Over all 3, idle-menu saves most of what runs today: 20.0 % in the mean; at most 0.00 %"
        " slower."
    )
    assert more == (
        "Over all 3, with hardware that is not sold today, tap saves most: 24.7 % in the mean; at"
        " most 0.00 % slower."
    )
    assert today == (
        "idle-menu uses the least energy of what runs today on a, b, c: 20.0 % less than always-on."
    )
    assert beyond == (
        "With hardware that is not sold today, tap uses 5.00 % to 12.5 % less than the best of"
        " today on a, b."
    )


@pytest.mark.parametrize(
    ("takes", "amount"),
    [
        ((95.0, 97.0), "3.00 % to 5.00 % less"),
        ((105.0, 111.0), "5.00 % to 11.0 % more"),
        ((105.0, 97.0), "5.00 % more to 3.00 % less"),
    ],
)
def test_many_workloads_say_less_or_more_than_hardware_that_is_compared_with(
    takes: tuple[float, float], amount: str
):
    rows: list[dict[str, Any]] = []
    for name, energy in zip("ab", takes, strict=True):
        runs = {"tap": 100.0, "always-on": energy, "idle-menu": energy + 5}
        rows += [row(technique, one, 50.0, workload=name) for technique, one in runs.items()]
    said = f"always-on uses the least energy of what runs today on a, b: {amount} than tap."
    assert said in verdict(related("chip", rows)).sentences


def test_many_workloads_name_the_limit_that_decides():
    rows: list[dict[str, Any]] = []
    for requests in (1000, 2000):
        for name, energy, latency in (("always-on", 100.0, 10.0), ("idle-gate", 59.0, 13.3)):
            rows.append(row(name, energy, latency, set=f"requests={requests}"))
    found = verdict(related("toy", rows))
    assert found.sentences[0] == (
        "Nothing that runs today uses less energy than always-on on requests=1000, requests=2000"
        " within the limits (5 % slower, 10 % longer p99)."
    )
    assert found.sentences[1].startswith(
        "idle-gate would save 41.0 % on requests=1000, requests=2000 and breaks a limit (slower,"
        " longer p99): 33.0 % slower"
    )
    # And at each load of a service.
    loads = [one | {"set": "", "load_pct": 10, "workload": one["set"]} for one in rows]
    said = verdict(related("toy", loads)).sentences[0]
    assert "idle-gate would save 41.00 % and breaks a limit (slower, longer p99): 33.00 %" in said


def test_names_are_not_trusted_in_html():
    runs = {"<b>one</b>": (10.0, 5.0), "two": (5.0, 5.0)}
    assert "<b>one" not in verdict(results("storage", runs)).as_html()


def test_every_technique_says_what_it_needs_and_every_world_what_is_usual():
    for technique in hw.techniques():
        assert technique["available"] in ("today", "kernel", "silicon", "bound")
        assert technique["how"], technique["name"]
    assert needs("idle-menu", "chip") == "today"
    assert needs("idle-menu+package-sleep", "chip") == "silicon"
    assert needs("tap:wake=last", "chip") == "silicon"
    assert needs("oracle", "chip") == "bound"
    assert needs("./mine.wasm", "chip") == "kernel"
    assert needs("./mine.wasm", "server") == "silicon"
    assert usual("router") == "napi-menu"


def test_pieces_that_are_the_same_leave_no_interval():
    pieces = Pieces((1.0,) * 64, (1.0,) * 64, tuple(noise(3)))
    side = Side(64, 64.0, sum(pieces.energy_j), False, None, pieces)
    took = taken(side, side)
    assert took is not None
    found = took.saved_of(took)
    assert (found.value, found.low, found.high) == (0, 0, 0)
    assert not found.beats(0.0)


def test_the_command_the_report_and_python_say_the_same(halfwink: Any, tmp_path: Path):
    words = ("compare", "nginx", "-n", "300000", "-t", "tap,idle-menu", "-o", "out")
    done = halfwink(*words)
    said = hw.open(tmp_path / "out").verdict()
    assert done.out.startswith(said.sentences[0])
    page = (tmp_path / "out/report.html").read_text()
    shown = re.search(r'<section class="verdict".*?</section>', page, re.DOTALL)
    assert shown is not None
    assert said.sentences[0].split(":")[0] in shown[0]
    (tap,) = (t for t in hw.techniques() if t["name"] == "tap")
    assert tap["title"] in page
    document = json.loads(halfwink(*words, "--json").out)
    assert document["verdict"] == list(said.sentences)
    # In the table the baseline leads, then the techniques that save most.
    rows = [line.split() for line in done.out.splitlines() if line.startswith("nginx ")]
    assert rows[0][2] == "always-on"
    saved = [-r["equal_rate_saving_pct"] for r in document["tables"]["runs"]["rows"]]
    order = sorted(zip(saved[1:], ("tap", "idle-menu"), strict=True))
    assert [row[2] for row in rows[1:]] == [name for _, name in order]


def test_a_notebook_shows_the_verdict_above_the_table():
    shown = results()._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert shown.index("uses the least energy") < shown.index("<table>")
    assert shown.index("<td>tap</td>") < shown.index("<td>idle-menu</td>")
    # What breaks a limit stands below what keeps them, though it saves more.
    assert shown.index("<td>idle-menu</td>") < shown.index("<td>fupg</td>")
