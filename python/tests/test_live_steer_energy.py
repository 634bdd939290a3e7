"""Energy of the steering proxy: modelled, measured, or not reported at all."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest
from conftest import Halfwink, wait_until
from steer_bed import Recorder, balanced, describe, get, settled, status
from test_daemons import binary

from halfwink import replay
from halfwink.cli.serving import measured_lines
from halfwink.errors import HalfwinkError
from halfwink.live.steer import LiveSteer

#: Parts of names under which joules and watts stand.
ENERGY = ("energy", "joule", "watt", "_j", "_w")


@pytest.fixture
def pair() -> Generator[tuple[Recorder, Recorder]]:
    both = Recorder(), Recorder()
    yield both
    for one in both:
        one.close()


def described(folder: Path, pair: tuple[Recorder, Recorder], **more: str) -> Path:
    return describe(folder, *(r.address for r in pair), **{"machine": ""} | more)


def steer_binary(*words: str) -> subprocess.CompletedProcess[str]:
    program = binary("halfwink-steer")
    return subprocess.run([program, *words], capture_output=True, text=True, check=False)


def test_without_a_machine_no_energy_is_reported(
    tmp_path: Path, pair: tuple[Recorder, Recorder], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HALFWINK_SYSFS", str(tmp_path))
    log = tmp_path / "log.jsonl"
    with LiveSteer(described(tmp_path, pair), log=log) as steer:
        assert [status(get(steer.address)) for _ in range(3)] == [200] * 3
        report, text = settled(steer, 3), steer.metrics()
    assert report["modelled"] is None
    assert report["ledger"]["energy_j"] is None
    assert report["ledger"]["imbalance"] is None
    assert {row["energy_j"] for row in report["ledger"]["rows"]} == {None}
    assert sum(row["time_s"] for row in report["ledger"]["rows"]) > 0
    columns = [column[0] for table in report["tables"].values() for column in table]
    assert "time_s" in columns
    assert not [name for name in columns if name.endswith(("_j", "_w")) or "energy" in name]
    series = [line for line in text.splitlines() if any(word in line for word in ENERGY[:3])]
    assert not series
    assert "halfwink_machine_state_seconds_total" in text
    assert replay(log).first_difference is None


def test_a_proxy_without_a_machine_says_how_to_add_one(
    tmp_path: Path, pair: tuple[Recorder, Recorder], halfwink: Halfwink
):
    path = described(tmp_path, pair)
    done = halfwink("live", "steer", str(path), "--seconds", "0.1")
    assert done.status == 0
    assert done.err.count("energy is not reported: machine = ") == 1
    assert "W in the mean" not in done.out + done.err
    assert "energy_j" not in done.out
    path = described(tmp_path, pair, machine='machine = "niccolini"')
    done = halfwink("live", "steer", str(path), "--seconds", "0.1")
    assert "energy is not reported" not in done.err
    lines = [line for line in (done.out + done.err).splitlines() if " W" in line]
    assert len(lines) == 1
    assert lines[0].count(" W") == lines[0].count("modelled") == 3


def test_a_program_without_a_library_starts_without_a_machine(
    tmp_path: Path, pair: tuple[Recorder, Recorder]
):
    nowhere = ["--library", str(tmp_path / "none")]
    report = tmp_path / "report.json"
    words = ["--config", str(described(tmp_path, pair)), *nowhere]
    check = steer_binary(*words, "--check")
    assert check.returncode == 0, check.stderr
    done = steer_binary(*words, "--seconds", "0.1", "--report", str(report))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("energy is not reported: machine = ") == 1
    assert json.loads(report.read_text())["modelled"] is None
    described(tmp_path, pair, machine='machine = "niccolini"')
    done = steer_binary(*words, "--check")
    assert done.returncode == 2
    assert "expected a folder that holds `machines`" in done.stderr


def test_policies_that_take_values_of_machines_ask_for_one(
    tmp_path: Path, pair: tuple[Recorder, Recorder]
):
    for policy in ("break-even", "progressive-backup", "knight-shift"):
        path = described(tmp_path, pair, top=f"policy = '{policy}'")
        with pytest.raises(HalfwinkError, match=f"{policy}: takes values of machines, expected"):
            LiveSteer(path)
    with pytest.raises(HalfwinkError, match="set: found without `machine`"):
        LiveSteer(described(tmp_path, pair, top="set = { 'big.idle_w' = 1.0 }"))
    with LiveSteer(described(tmp_path, pair, top="policy = 'octopus-man'")) as steer:
        assert status(get(steer.address)) == 200


def test_levels_of_sleep_that_are_not_there_are_refused(
    tmp_path: Path, pair: tuple[Recorder, Recorder]
):
    level = 'levels = [{ kind = "command", sleep = ["true"], wake = ["true"] }]'
    for expected, description in (
        (
            "found models, where the big machine has 2 levels of sleep; expected 1, as is here",
            {"machine": 'machine = "models"'},
        ),
        (
            "found niccolini, where the big machine has 1 levels of sleep; expected 2",
            {"machine": 'machine = "niccolini"', "big_more": level},
        ),
        (
            "policy: found sleep-timer:level=2, expected level 1 to 1, as is here",
            {"top": "policy = 'sleep-timer:level=2'"},
        ),
        ("big.levels.0: found kind none", {"big_more": "levels = [{ kind = 'none' }]"}),
        ("found /no, expected a program that", {"big_more": level.replace('["true"]', '["/no"]')}),
    ):
        with pytest.raises(HalfwinkError, match=expected):
            LiveSteer(described(tmp_path, pair, **description))


@pytest.mark.parametrize("technique", ["sleep-timer:timer_ms=50,level=2", "ladder"])
def test_a_machine_sleeps_at_two_levels(
    tmp_path: Path, pair: tuple[Recorder, Recorder], technique: str
):
    def command(name: str) -> str:
        file = tmp_path / name
        return f'kind = "command", sleep = ["touch", "{file}"], wake = ["rm", "{file}"]'

    path = described(
        tmp_path,
        pair,
        # Times at which the ladder goes down within a test.
        machine="machine = 'models'\nset = { 'big.wake_ms' = 20.0, 'big.down_ms' = 1.0 }",
        top=f"policy = '{technique}'",
        big_more=f"power = {{ {command('unloaded')} }}\nlevels = [{{ {command('off')} }}]",
    )
    log = tmp_path / "log.jsonl"

    def level() -> int:
        return steer.report()["machines"]["big"]["level"]

    wanted = 2 if technique.startswith("sleep-timer") else 1
    with LiveSteer(path, log=log) as steer:
        assert wait_until(lambda: level() == wanted)
        assert (tmp_path / "unloaded").exists()
        assert (tmp_path / "off").exists() == (wanted == 2)
        assert status(get(steer.address)) == 200
        # It has woken by the command of the level at which it was.
        assert (tmp_path / "unloaded").exists() == (wanted == 2)
        assert not (tmp_path / "off").exists()
        assert wait_until(lambda: level() == wanted)
        report, text = settled(steer, 1), steer.metrics()
    balanced(report)
    slept = report["machines"]["big"]["residency"]["asleep_by_level_s"]
    assert len(slept) == 2
    assert slept[wanted - 1] > 0
    rows = {row["state"]: row for row in report["ledger"]["rows"] if row["component"] == "big"}
    # models.toml: 76.5 % of 170 W, then 3 % of them.
    for place, (state, watts) in enumerate((("asleep", 130.05), ("asleep-2", 5.1))):
        if slept[place]:
            assert rows[state]["energy_j"] / rows[state]["time_s"] == pytest.approx(watts, rel=1e-3)
        sample = f'halfwink_machine_state_seconds_total{{machine="big",state="{state}"}}'
        assert sample in text
    assert replay(log).first_difference is None


def test_watts_come_and_go_only_by_a_restart(tmp_path: Path, pair: tuple[Recorder, Recorder]):
    with LiveSteer(described(tmp_path, pair)) as steer:
        described(tmp_path, pair, machine='machine = "niccolini"')
        with pytest.raises(HalfwinkError, match="machine: watts can only come or go by a restart"):
            steer.reload()
        assert status(get(steer.address)) == 200
        assert settled(steer, 1)["modelled"] is None
    with LiveSteer(described(tmp_path, pair, machine='machine = "niccolini"')) as steer:
        balanced(steer.report())
        described(tmp_path, pair)
        with pytest.raises(HalfwinkError, match="machine: watts can only come or go by a restart"):
            steer.reload()


def powercap(sysfs: Path, energy_uj: int) -> Path:
    """A package and its cores as Linux shows them; the package's counter."""
    for name, title in (("intel-rapl:0", "package-0"), ("intel-rapl:0:0", "core")):
        domain = sysfs / "class/powercap" / name
        domain.mkdir(parents=True)
        (domain / "name").write_text(f"{title}\n")
        (domain / "max_energy_range_uj").write_text("65532610987\n")
        (domain / "energy_uj").write_text(f"{energy_uj}\n")
    return sysfs / "class/powercap/intel-rapl:0/energy_uj"


def test_measured_joules_stand_beside_modelled_ones(
    tmp_path: Path, pair: tuple[Recorder, Recorder], monkeypatch: pytest.MonkeyPatch
):
    # Two joules before the counter comes round, and one behind it.
    counter = powercap(tmp_path / "sys", 65532610987 - 2_000_000)
    monkeypatch.setenv("HALFWINK_SYSFS", str(tmp_path / "sys"))
    with LiveSteer(describe(tmp_path, *(r.address for r in pair))) as steer:
        counter.write_text("1000000\n")
        report = steer.report()
        text = steer.metrics()
        lines = measured_lines(report)
        shutil.rmtree(counter.parent)
        gone = measured_lines(steer.report())
    package, cores = report["measured"]["meters"]
    assert (package["meter"], package["energy_j"]) == ("RAPL package-0", 3.0)
    assert (cores["meter"], cores["energy_j"]) == ("RAPL package-0 core", 0.0)
    assert report["measured"]["missing"] is None
    assert "energy_j" in report["modelled"]
    assert lines[0].startswith("measured (RAPL package-0): ")
    assert lines[0].endswith("3.0 J, all programs")
    assert ["not to the end: " in line for line in gone] == [True, False]
    assert 'halfwink_measured_energy_joules_total{meter="RAPL package-0"} 3\n' in text
    assert "halfwink_modelled_energy_joules_total" in text


def test_without_a_meter_nothing_is_measured(
    tmp_path: Path, pair: tuple[Recorder, Recorder], halfwink: Halfwink
):
    path = describe(tmp_path, *(r.address for r in pair))
    empty = {"HALFWINK_SYSFS": str(tmp_path)}
    done = halfwink("live", "steer", str(path), "--seconds", "0.1", env=empty)
    assert done.status == 0
    assert done.err.count("not measured: ") == 1
    assert "measured (RAPL" not in done.err + done.out
    done = halfwink("live", "steer", str(path), "--seconds", "0.1", "--json", env=empty)
    assert done.json()["measured"]["meters"] == []
    found = {f["what"]: f for f in halfwink("doctor", "--json", env=empty).rows("findings")}
    assert not found["energy meter"]["present"]
    assert found["energy meter"]["fix"]
    powercap(tmp_path, 5)
    found = {f["what"]: f for f in halfwink("doctor", "--json", env=empty).rows("findings")}
    assert found["energy meter"]["present"]
    assert found["energy meter"]["detail"] == "RAPL package-0, RAPL package-0 core"
