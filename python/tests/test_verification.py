"""Predictions written before a server is measured, and measurements beside them, on fake meters."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from conftest import Halfwink

import halfwink as hw
from halfwink.advice import Advice, Verification, verification
from halfwink.errors import HalfwinkError, RunError

SERVICE = "exponential"
MICRO = 1_000_000
#: Of the predicted server.
CPUS = 56


@pytest.fixture(scope="module")
def advice() -> Advice:
    return hw.advise(SERVICE, load="30%", today=True, requests=30_000)


@pytest.fixture
def prediction(advice: Advice, tmp_path: Path) -> Path:
    path = tmp_path / "prediction.json"
    advice.commit(path)
    return path


class Host:
    """System files of a machine with meters and one idle state."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.domains = {"intel-rapl:0": "package-0", "intel-rapl:0:0": "dram"}
        self.joules = dict.fromkeys(self.domains, 0.0)
        self.slept_us = 0
        for name, title in self.domains.items():
            folder = root / "class/powercap" / name
            folder.mkdir(parents=True)
            (folder / "name").write_text(f"{title}\n")
            (folder / "max_energy_range_uj").write_text("65532610987\n")
        for cpu in range(CPUS):
            state = root / f"devices/system/cpu/cpu{cpu}/cpuidle/state1"
            state.mkdir(parents=True)
            (state / "name").write_text("C1_ACPI\n")
            (state / "usage").write_text("7\n")
        self.write()

    def write(self) -> None:
        for name, joules in self.joules.items():
            file = self.root / "class/powercap" / name / "energy_uj"
            file.write_text(f"{round(joules * MICRO)}\n")
        for cpu in range(CPUS):
            state = self.root / f"devices/system/cpu/cpu{cpu}/cpuidle/state1"
            (state / "time").write_text(f"{self.slept_us}\n")

    def waits(self, watts: dict[str, float], asleep: float) -> Callable[[float], None]:
        """Returns a wait in which counters advance as with these watts and this share asleep."""

        def wait(seconds: float) -> None:
            os.sched_yield()
            began = datetime.now(UTC)
            while datetime.now(UTC) - began < timedelta(seconds=seconds):
                pass
            for name, value in watts.items():
                self.joules[name] += value * seconds
            self.slept_us += round(asleep * seconds * MICRO)
            self.write()

        return wait


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setenv("HALFWINK_SYSFS", str(tmp_path / "sys"))
    return Host(tmp_path / "sys")


def rows(found: Verification) -> dict[str, dict[str, Any]]:
    return {row["what"]: row for row in found.rows}


def test_predicted_watts_are_the_parts_of_the_runs_ledger(advice: Advice):
    results = advice.results
    (told,) = verification.foretell(results, (advice.today,)).values()
    run = results.runs.filter(technique=advice.today).row(0, named=True)
    assert told["server_w"]["value"] == pytest.approx(run["power_w"])
    rest = 116.0
    parts = sum(told[name]["value"] or 0 for name in ("package_w", "memory_w"))
    assert parts + rest == pytest.approx(run["power_w"])
    for name, fixed_w in (("package_w", 0.0), ("server_w", rest)):
        value, low, high = (told[name][end] for end in ("value", "low", "high"))
        assert value is not None
        assert low == pytest.approx(fixed_w + run["power_low"] * (value - fixed_w))
        assert high == pytest.approx(fixed_w + run["power_high"] * (value - fixed_w))


def test_measured_values_stand_beside_the_prediction(prediction: Path, host: Host):
    told = json.loads(prediction.read_text())
    mine = told["predicted"][told["advised"]]
    package_w = 1.2 * mine["package_w"]["value"]
    watts = {"intel-rapl:0": package_w, "intel-rapl:0:0": 100.0}
    found = hw.verify(prediction, seconds=0.5, rate=told["per_s"], wait=host.waits(watts, 0.4))
    by = rows(found)
    # The wait takes a little longer than it is asked to.
    assert by["package_w"]["verdict"] == "inside"
    ratio = by["package_w"]["measured"] / by["memory_w"]["measured"]
    assert ratio == pytest.approx(package_w / 100, rel=0.1)
    assert by["memory_w"]["verdict"] == "above"
    assert by["server_w"]["verdict"] == "not measured"
    assert 10 < by["c1_pct"]["measured"] <= 40.1
    assert by["c1_pct"]["verdict"] == "no range"
    start = "Of 3 predictions with a range, 2 could be checked for "
    assert found.sentences[0].startswith(start)
    assert ", 1 of them holds: memory_w is " in found.sentences[0]
    assert f"not changed since (sha256 {told['sha256'][:12]})" in str(found)


def test_packages_are_added_up_and_their_parts_are_not(prediction: Path, host: Host):
    for name, title in (("intel-rapl:1", "package-1"), ("intel-rapl:0:1", "core")):
        folder = host.root / "class/powercap" / name
        folder.mkdir()
        (folder / "name").write_text(title)
        (folder / "max_energy_range_uj").write_text("65532610987\n")
        host.joules[name] = 0.0
    host.write()
    watts = {"intel-rapl:0": 100.0, "intel-rapl:1": 50.0, "intel-rapl:0:1": 60.0}
    watts["intel-rapl:0:0"] = 10.0
    found = hw.verify(prediction, seconds=0.5, wait=host.waits(watts, 0.0))
    by = rows(found)
    # On a busy machine the wait takes longer than it was asked to, for all counters alike.
    assert by["package_w"]["measured"] / by["memory_w"]["measured"] == pytest.approx(15, rel=0.1)


def test_another_load_gives_no_verdict(prediction: Path, host: Host):
    told = json.loads(prediction.read_text())
    found = hw.verify(prediction, seconds=0.1, rate=0.8 * told["per_s"], server_w=1.0)
    assert rows(found)["server_w"]["verdict"] == "other load"
    assert "say nothing about the prediction" in str(found)
    near = hw.verify(prediction, seconds=0.1, rate=0.95 * told["per_s"], server_w=1.0)
    assert rows(near)["server_w"]["verdict"] == "below"


def test_another_machine_gives_no_verdict(prediction: Path, host: Host):
    for cpu in range(2, CPUS):
        shutil.rmtree(host.root / f"devices/system/cpu/cpu{cpu}")
    found = hw.verify(prediction, seconds=0.1, server_w=300)
    assert rows(found)["server_w"]["verdict"] == "other machine"
    assert "This machine has 2 CPUs, and 56 cores were predicted" in str(found)
    assert [verification.is_other_machine(n, 56) for n in (0, 56, 112, 55, 168)] == [
        False,
        False,
        False,
        True,
        True,
    ]


@pytest.mark.parametrize("watts", [0.0, 1e5])
def test_a_counter_that_stands_still_or_leaps_is_not_measured(
    prediction: Path, host: Host, watts: float
):
    changed = {"intel-rapl:0": watts, "intel-rapl:0:0": 5.0}
    found = hw.verify(prediction, seconds=0.2, wait=host.waits(changed, 0.5))
    assert rows(found)["package_w"]["verdict"] == "not measured"
    assert any("package-0: its counter tells" in line for line in found.missing)


def test_a_rate_that_the_log_contradicts_is_told(prediction: Path, host: Host, tmp_path: Path):
    log = tmp_path / "log.csv"
    log.write_text("at_s,latency_s\n0,0.001\n1,0.001\n2,0.001\n")
    found = hw.verify(prediction, seconds=0.1, latencies=log, rate=1.5e6)
    assert "The log has 1 requests a second, not --rate." in found.sentences


def test_cores_are_those_of_the_file_with_what_was_changed(tmp_path: Path):
    changed = hw.advise(
        SERVICE, load="20%", today=True, requests=20_000, set={"server.cores": "10"}
    )
    changed.commit(tmp_path / "p.json")
    assert json.loads((tmp_path / "p.json").read_text())["cores"] == 4 * 10


def test_latencies_and_rate_come_from_a_log(prediction: Path, host: Host, tmp_path: Path):
    log = tmp_path / "log.csv"
    lines = [f"{n / 1000},{2e-5 if n < 985 else 1e-3}" for n in range(1001)]
    log.write_text("at_s,latency_s\n" + "\n".join(lines) + "\n")
    found = hw.verify(prediction, seconds=0.1, latencies=log)
    by = rows(found)
    assert by["latency_p99_us"]["measured"] == pytest.approx(1000)
    assert by["latency_mean_us"]["measured"] == pytest.approx((985 * 20 + 16 * 1000) / 1001)
    assert found.per_s == pytest.approx(1000)


def test_a_log_that_is_wrong_loses_no_watts(prediction: Path):
    found = hw.verify(prediction, seconds=0.1, server_w=300, latencies="none.csv")
    assert rows(found)["server_w"]["measured"] == 300
    assert "Not measured: latencies: none.csv: No such file or directory." in found.sentences


def test_a_prediction_is_written_once_and_not_changed(prediction: Path, advice: Advice):
    with pytest.raises(RunError, match="is there already"):
        advice.commit(prediction)
    document = json.loads(prediction.read_text())
    document["predicted"][document["advised"]]["server_w"]["value"] *= 1.01
    prediction.write_text(json.dumps(document))
    with pytest.raises(HalfwinkError, match="was changed since it was written"):
        hw.verify(prediction, seconds=0.1, server_w=300)


def test_a_clock_that_stepped_back_is_said(prediction: Path, monkeypatch: pytest.MonkeyPatch):
    past = datetime.now(UTC) - timedelta(days=2)
    monkeypatch.setattr(verification, "_now", lambda: past)
    found = hw.verify(prediction, seconds=0.1, server_w=300)
    assert "which is after now: one of two clocks is wrong" in str(found)


def test_a_machine_without_meters_is_told_so(
    prediction: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HALFWINK_SYSFS", str(tmp_path / "nothing"))
    with pytest.raises(RunError, match="nothing that was predicted can be measured here: watts: "):
        hw.verify(prediction, seconds=0.1)


def test_verify_lays_measured_beside_predicted(halfwink: Halfwink, host: Host):
    words = ("advise", SERVICE, "--today", "--requests", "20000", "--commit", "p.json")
    told = halfwink(*words)
    assert told.status == 0
    assert "prediction: p.json, sha256 " in told.err
    again = halfwink(*words)
    assert (again.status, again.complaint) == (
        2,
        "p.json: is there already; a prediction is written once",
    )
    env = {"HALFWINK_SYSFS": str(host.root)}
    words = ("verify", "p.json", "--seconds", "0.2", "--server-w", "300")
    told = halfwink(*words, env=env)
    assert told.status == 0
    assert "measuring for 0.2 s; Ctrl-C ends it" in told.err
    assert "The prediction was written 20" in told.out
    found = halfwink(*words, "-t", "menu", "--json", env=env).json()
    by = {row["what"]: row for row in found["tables"]["quantities"]["rows"]}
    assert by["server_w"]["measured"] == 300
    # Its counter stands still.
    assert by["package_w"]["verdict"] == "not measured"
    assert found["facts"]["technique"] == "menu"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("none.json",), "none.json"),
        (("text.json",), "text.json: expected a prediction of `halfwink advise --commit FILE`"),
        (("list.json",), "list.json: expected a prediction of `halfwink advise --commit FILE`"),
        (("p.json", "-t", "c6"), "`c6` is not predicted: expected menu or "),
        (("p.json", "--seconds", "0"), "seconds: 0.0, expected 0.1 to 86400"),
        (("p.json", "--rate", "-1"), "rate: -1.0, expected a number above 0"),
    ],
)
def test_mistakes_are_one_line(
    halfwink: Halfwink, advice: Advice, tmp_path: Path, words: tuple[str, ...], said: str
):
    advice.commit(tmp_path / "p.json")
    (tmp_path / "text.json").write_text("hello")
    (tmp_path / "list.json").write_text("[1]")
    wrong = halfwink("verify", *words)
    assert wrong.status == 2
    assert said in wrong.complaint
