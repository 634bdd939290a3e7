"""The main job through the command line."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
from conftest import lacking, need

from halfwink.runs.comparison import ONE_OF_EACH

SMALL = ("-n", "300000")
PUBLISHED = ("-t", "idle-gate,mapg-counter,tap,oracle")
STATES = {"active", "stalled", "idle", "gating", "gated", "charging", "restoring"}

LOG = '127.0.0.1 - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 2326\n'
PROFILE = 'schema = 1\nworkload = "a"\ncore = "any"\nservice_us = { law = "fixed", mean = 9 }\n'
STUDY = 'schema = 1\nworkloads = ["nginx"]\ntechniques = ["tap"]\n'


def test_a_comparison_prints_a_table_and_leaves_its_files(halfwink, tmp_path: Path):
    words = ("compare", "nginx", "gcc", *SMALL, *PUBLISHED, "--timeline", "20", "-o", "out")
    done = halfwink(*words)
    assert done.status == 0, done.err
    assert "nginx" in done.out
    assert "mapg-counter" in done.out
    assert "modelled" in done.out
    out = tmp_path / "out"
    runs = pl.read_parquet(out / "results.parquet")
    assert runs.height == 2 * 5
    assert set(runs["technique"]) == {"always-on", "idle-gate", "mapg-counter", "tap", "oracle"}
    ledger = pl.read_parquet(out / "ledger.parquet")
    assert {"component", "state", "mode", "cause", "time_s", "energy_j"} <= set(ledger.columns)
    assert "# commit: " in (out / "study.toml").read_text()
    assert (out / "report.html").stat().st_size > 100_000
    timeline = json.loads((out / "timeline.json").read_text())
    spans = [e for e in timeline["traceEvents"] if e["ph"] == "X"]
    assert {e["name"] for e in spans} <= STATES
    assert all(e["dur"] > 0 and e["ts"] + e["dur"] <= 20.0001 for e in spans)


def test_json_is_one_document_with_the_promised_keys(halfwink):
    done = halfwink(
        "compare", "nginx", "-i", "1500000", "-t", "tap", "--machine", "ev6-16", "--json"
    )
    facts = done.json()["facts"]
    assert facts["baseline"] == "always-on"
    baseline, tap = done.rows("runs")
    assert (tap["workload"], tap["machine"]) == ("nginx", "ev6-16")
    assert tap["unit_of_work"] == "request"
    assert (baseline["technique"], tap["technique"]) == ("always-on", "tap")
    assert tap["energy_j_per_unit"] > 0
    assert tap["slowdown_pct"] == pytest.approx(0, abs=0.05)
    assert tap["latency_p50_us"] <= tap["latency_p99_us"]
    assert tap["instructions"] >= 1_500_000
    assert "energy" in facts["modelled"]
    assert {"component", "state", "mode", "cause", "time_s"} <= set(done.rows("ledger")[0])
    assert all(row["host_s"] > 0 for row in done.rows("host"))


def test_the_ledger_sums_to_the_energy_and_the_time(halfwink, tmp_path: Path):
    halfwink("compare", "memcached+redis", "-t", "all", *SMALL, "-o", "out")
    runs = pl.read_parquet(tmp_path / "out/results.parquet")
    ledger = pl.read_parquet(tmp_path / "out/ledger.parquet")
    for row in runs.iter_rows(named=True):
        own = ledger.filter(technique=row["technique"])
        assert own["energy_j"].sum() == pytest.approx(row["energy_j"], rel=1e-12)
        times = own.group_by("component").agg(pl.col("time_s").sum())
        # Four cores, those for the kernel, the shared cache, memory: each fills the run.
        assert times.height == 6 + row["os_cores"]
        for time_s in times["time_s"]:
            assert time_s == pytest.approx(row["duration_s"], rel=1e-12)


def test_tap_and_oracle_cost_no_time_and_order_holds(halfwink, tmp_path: Path):
    halfwink("compare", "chase", "stream", "mixed", "-i", "400000", *PUBLISHED, "-o", "out")
    runs = pl.read_parquet(tmp_path / "out/results.parquet")
    for workload in ("chase", "stream", "mixed"):
        own = {r["technique"]: r for r in runs.filter(workload=workload).iter_rows(named=True)}
        assert own["tap"]["slowdown_pct"] == pytest.approx(0)
        assert own["oracle"]["slowdown_pct"] == pytest.approx(0)
        assert own["oracle"]["core_energy_saving_pct"] >= own["tap"]["core_energy_saving_pct"]
        # Who is late on every row hit of a stream may save as much, and loses time.
        assert own["tap"]["energy_delay_pct"] < own["mapg-counter"]["energy_delay_pct"]
        assert own["tap"]["late_wakes"] == 0


def test_settings_change_one_value(halfwink):
    def saving(*words: str) -> float:
        done = halfwink("compare", "chase", "-i", "200000", "-t", "tap", "--json", *words)
        return done.rows("runs")[1]["core_energy_saving_pct"]

    slow = saving("--set", "gating.wake_up_ns=16")
    fast = saving("--set", "gating.wake_up_ns=2", "-o", "other")
    assert fast > slow


def test_what_was_found_is_never_replaced_silently(halfwink, tmp_path: Path):
    words = ("compare", "alu", "-t", "tap")
    # All that changes what is found changes where it is kept.
    for more in (["-i", "10000"], ["-i", "10000", "--set", "gating.wake_up_ns=16"]):
        assert halfwink(*words, *more).status == 0
    folders = [path.name for path in (tmp_path / "halfwink-out").iterdir()]
    assert len(folders) == 2
    assert all(re.fullmatch(r"compare-alu-ev6-4-[0-9a-f]{8}", name) for name in folders)
    # A folder that is named is taken, and what it held is told of, unless it is the same.
    here = ("-o", f"halfwink-out/{folders[0]}")
    said = [halfwink(*words, "-i", count, *here).err for count in ("20000", "20000")]
    assert [f"{here[1]}: held another study's tables, which are replaced" in s for s in said] == [
        True,
        False,
    ]


def test_the_same_command_goes_on_after_an_interrupt(tmp_path: Path):
    command = [sys.executable, "-m", "halfwink", "compare", "mixed", "alu", "chase"]
    command += ["-n", "2500000", "-o", "out", *PUBLISHED]

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)

    runs = tmp_path / "out" / "runs"
    process = start()
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline and len(list(runs.glob("*.json"))) < 2:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    kept = {path.name: path.stat().st_mtime_ns for path in runs.glob("*.json")}
    assert len(kept) >= 2
    if process.returncode != 0:
        assert process.returncode == 130
        assert err.strip().splitlines()[-1].endswith("the same command goes on")
    again = start()
    again.communicate(timeout=300)
    assert again.returncode == 0
    assert len(list(runs.glob("*.json"))) == 15
    # What was finished was not run again.
    assert all((runs / name).stat().st_mtime_ns == time for name, time in kept.items())


def test_a_full_disk_is_one_line_and_keeps_what_was_finished(halfwink, tmp_path: Path):
    need("mount")
    mount = tmp_path / "small"
    mount.mkdir()
    mounted = os.geteuid() == 0 and (
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(mount)], check=False
        ).returncode
        == 0
    )
    if not mounted:
        lacking("mounting a small file system needs root", kernel=True)
    try:
        words = ("compare", "nginx", "gcc", "gzip", "-t", "all", "-i", "100000")
        done = halfwink(*words, "-o", str(mount / "out"))
        assert done.status == 1
        assert "No space left on device" in done.complaint
        kept = list((mount / "out" / "runs").glob("*.json"))
        assert all(json.loads(path.read_text())["tables"]["run"] for path in kept)
        assert str(mount / "out" / "runs") in done.complaint
        assert not list((mount / "out" / "runs").glob(".*"))
    finally:
        subprocess.run(["umount", str(mount)], check=True)


@pytest.mark.parametrize(
    ("name", "text", "words", "expected"),
    [
        (
            "a.log",
            LOG,
            ("-m", "golden-cove-56"),
            "a log of requests: `halfwink compare nginx --load",
        ),
        ("a.log", LOG, ("-m", "ev6-1"), "a log of requests"),
        ("my.toml", PROFILE, ("-m", "ev6-1"), "a profile of a service: `halfwink compare FILE -m"),
        ("s.toml", STUDY, ("-m", "ev6-1"), "a study: `halfwink run FILE`"),
        (
            "notes",
            "what I did\n",
            ("-m", "golden-cove-56"),
            "expected a profile of a service, FILE",
        ),
    ],
)
def test_a_file_of_another_kind_is_named_whose_name_has_no_slash(
    halfwink, tmp_path: Path, name: str, text: str, words: tuple[str, ...], expected: str
):
    (tmp_path / name).write_text(text)
    done = halfwink("compare", name, *words)
    assert done.status == 2
    assert done.complaint.startswith(f"{name}: ")
    assert expected in done.complaint


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("compare", "ngnix"), "unknown workload `ngnix`; did you mean `nginx`?"),
        (("compare", "nginx", "-t", "tpa"), "unknown technique `tpa`; did you mean `tap`?"),
        (("compare", "nginx", "-m", "ev66-4"), "unknown machine `ev66-4`; did you mean `ev6-4`?"),
        (("compare", "nginx", "-m", "ev6-65"), "machine `ev6-65`: 65 cores, expected 1 to 64"),
        (("compare", "nginx*5"), "workload `nginx*5` needs 5 cores, machine `ev6-4` has 4"),
        (("compare", "nginx", "--set", "gating.wakeup=3"), "unknown key `wakeup` in gating"),
        (("compare", "nginx", "--set", "gating"), "--set gating: expected PATH=VALUE"),
        (("compare", "nginx", "--set", "workers=16,os_cores=4"), "give --set once for each"),
        (("compare", "nginx", "--timeline", "9:3"), "--timeline 9:3: expected FROM:UNTIL"),
        (("compare", "nginx", "-i", "0"), "instructions: `0`, expected a whole number, 1 to"),
        (("compare", "chase:mbs=3"), "unknown workload setting `mbs`; did you mean `mb`?"),
        (
            ("compare", "nginx", "--load", "10%", "--set", "reqests=10"),
            "unknown value `reqests`; did you mean `requests`?",
        ),
        (
            ("compare", "nginx", "--load", "10%", "-i", "10"),
            "--load is of a server of today, --instructions and --timeline are of a chip",
        ),
        (("compare",), "no workload was named"),
        (("compare", "/no/such.hwt"), "/no/such.hwt: offset 0: No such file or directory"),
        (("compar", "nginx"), "unknown command `compar`; did you mean `compare`?"),
        (
            ("compare", "nginx", "--machin", "x"),
            "unknown option `--machin`; did you mean `--machine`?",
        ),
        (("report", "."), "no results.parquet"),
        (
            ("run", "no-such"),
            "unknown study `no-such`; `halfwink list studies` shows what there is",
        ),
        (
            ("compare", "one", "-w", "router"),
            "unknown application `one`; `halfwink list workloads -w router` shows what there is",
        ),
        (
            ("hybrid", "-t", "nobody"),
            "unknown technique `nobody`; `halfwink list techniques -w server` shows what there is",
        ),
        (
            ("preheat", "simulate", "nope"),
            "unknown workload `nope`; `halfwink list workloads` shows what there is",
        ),
        (
            ("preheat", "deadline", "nope"),
            "unknown machine `nope`; `halfwink list machines -w preheat` shows what there is",
        ),
        (
            ("circuits", "simulate", "-m", "nope"),
            "unknown fabric `nope`; `halfwink list machines -w fabric` shows what there is",
        ),
        (
            ("circuits", "advise", "nope"),
            "unknown workload `nope`; `halfwink list workloads -w racks` shows what there is",
        ),
        (("storage", "nope"), "unknown command `nope`; there are: simulate, calibrate"),
        (("reproduce", "gatin"), "no target, figure, area or work `gatin`; did you mean `gating`?"),
    ],
)
def test_wrong_use_is_one_line_and_status_2(halfwink, words: tuple[str, ...], expected: str):
    done = halfwink(*words)
    assert done.status == 2
    assert expected in done.complaint
    assert done.out == ""


def test_a_wrong_machine_file_is_named_with_its_line(halfwink, tmp_path: Path):
    text = (Path(__file__).parents[2] / "machines/ev6.toml").read_text()
    wrong = tmp_path / "mine.toml"
    wrong.write_text(text.replace('size = "8MB"', 'size = "7MB"'))
    line = 1 + text[: text.index('size = "8MB"')].count("\n")
    done = halfwink("compare", "nginx", "-m", "mine.toml")
    assert done.status == 2
    assert done.complaint.startswith(f"mine.toml:{line}: an impossible cache: 7MB in 16 ways")
    wrong.write_text(text.replace("[memory]", "[memroy]"))
    assert "did you mean `memory`?" in halfwink("compare", "nginx", "-m", "mine.toml").complaint


def test_quiet_says_nothing_but_the_table(halfwink):
    done = halfwink("compare", "alu", "-i", "100000", "-q")
    assert done.err == ""
    assert "alu" in done.out


def test_without_names_what_a_machine_cannot_play_is_left_out_and_said(halfwink):
    done = halfwink("compare", "web@1g", "-w", "switching", "--json")
    assert done.status == 0, done.err
    assert "left out: slow: alpha lacks the kernel `slow`" in done.err
    assert done.json()["facts"]["baseline"] == "unmod"
    techniques = [run["technique"] for run in done.rows("runs")]
    assert techniques == ["unmod", "bound", "v1", "v2", "v3", "v4", "v5"]
    # Named ones are not.
    done = halfwink("compare", "web@1g", "-w", "switching", "-t", "unmod,slow")
    assert done.status == 2
    assert "lacks the kernel `slow`" in done.complaint


def test_all_are_those_that_the_machine_plays(halfwink):
    words = ("compare", "alu", "-n", "20000", "--json")
    done = halfwink(*words, "-t", "all")
    assert done.status == 0, done.err
    all_of_it = {run["technique"] for run in done.rows("runs")}
    assert all_of_it > set(ONE_OF_EACH)
    # A family that somebody named is missed.
    done = halfwink(*words, "-t", "tap,all-c-states")
    assert done.status == 0, done.err
    assert "left out: menu, teo, ladder: " in done.err
    assert "left out: haltpoll, c1e, c6, c6a" in done.err
    done = halfwink(*words, "-t", "all-c-states", "-m", "ev6-4")
    assert done.status == 2
    assert "names no idle states deeper than C1" in done.complaint
    done = halfwink(*words, "-t", "all,c6", "-m", "ev6-4")
    assert done.status == 2
    assert "names no such state" in done.complaint


def test_governors_are_compared_on_a_machine_with_idle_states(halfwink):
    done = halfwink("compare", "alu", "-n", "20000", "-t", "ladder,haltpoll", "--json")
    assert done.status == 0, done.err
    assert {run["machine"] for run in done.rows("runs")} == {"golden-cove-4"}


def test_without_techniques_one_of_each_kind_is_compared(halfwink):
    def played(*words: str) -> set[str]:
        return {row["technique"] for row in halfwink("compare", *words, "--json").rows("runs")}

    assert played("alu", "-i", "100000") == {"always-on", *ONE_OF_EACH}
    assert played("exponential@20", "-w", "toy") > {"always-on"}
    assert "`-t all` compares" in halfwink("compare", "alu", "-i", "100000").err
    assert "-t all" not in halfwink("compare", "alu", "-i", "100000", "-t", "tap").err


def test_a_workload_of_another_world_is_named_with_the_command_that_plays_it(halfwink):
    for words, said in (
        (("www", "--load", "30%"), "`halfwink compare www -w server` plays it"),
        (("ipv4", "--load", "30%"), "`halfwink compare ipv4 -w router` plays it"),
        (("gcc", "--load", "30%"), "`halfwink compare gcc -w chip` plays it"),
        (("netperf@tcp-rr", "-w", "switching"), "`halfwink list machines -w switching` shows"),
        (("-w", "foo"), "no world `foo`; expected one of chip, node"),
    ):
        done = halfwink("compare", *words)
        assert done.status == 2
        assert said in done.complaint, done.err
