"""list, trace, run, reproduce, report, doctor through the command line."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import pty
import re
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from halfwink.cli import console
from halfwink.runs import batch
from halfwink.targets import targets

ROOT = Path(__file__).parents[2]
VERDICTS = set(targets.VERDICTS)


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("techniques", "tap"),
        ("machines", "ev6"),
        ("workloads", "nginx"),
        ("worlds", "switching"),
        ("studies", "gating-wake-up"),
        ("experiments", "router/westmere"),
        ("targets", "strong/PT-2.13/ev6"),
        ("mutants", "free-switches"),
    ],
)
def test_everything_is_listed_as_table_and_json(halfwink, what: str, expected: str):
    assert expected in halfwink("list", what).out
    entries = halfwink("list", what, "--json").rows(what)
    names = [entry.get("name", entry.get("id")) for entry in entries]
    assert expected in names


def test_every_target_of_the_five_works_is_listed(halfwink):
    targets = halfwink("list", "targets", "--json").rows("targets")
    works = {t["id"].split("/")[0] for t in targets}
    assert works == {"strong", "niccolini", "mogul", "gottschlag", "nellans"}
    assert len(targets) > 2000
    assert len({t["id"] for t in targets}) == len(targets)


def test_a_trace_is_shown_listed_and_checked(halfwink):
    nginx = str(ROOT / "workloads/nginx.hwt")
    done = halfwink("trace", "info", nginx, "--json")
    info = done.json()["facts"]
    assert info["kernel"].startswith("Linux 6.1")
    assert info["code"] == "decoded"
    assert info["bytes"] / info["instructions"] < 0.2
    assert info["requests"] > 50
    assert "nginx" in {package["name"] for package in done.rows("packages")}
    assert done.rows("sections")
    assert info["warm_lines"] > 1000
    head = halfwink("trace", "head", nginx, "-n", "5").out
    assert sum(" k " in line or " u " in line for line in head.splitlines()) == 5
    found = halfwink("trace", "check", nginx, "--json").json()["facts"]
    assert found["unexplained_successions"] == 0
    assert found["direct_map_wrong"] == 0
    assert found["direct_map_accesses"] > 100_000


@pytest.mark.parametrize("ending", ["champsim", "champsim.xz", "champsim.gz", "champsim.bz2"])
def test_champsim_records_go_out_and_come_in(halfwink, tmp_path: Path, ending: str):
    gcc = str(ROOT / "workloads/gcc.hwt")
    assert halfwink("trace", "export", gcc, "-o", f"gcc.{ending}", "--limit", "20000").status == 0
    assert halfwink("trace", "import", f"gcc.{ending}", "-o", "again.hwt").status == 0
    found = halfwink("trace", "check", "again.hwt", "--json").json()["facts"]
    assert found["user_instructions"] == 20_000
    done = halfwink("compare", "again.hwt", "-t", "tap", "--json")
    assert done.rows("runs")[1]["instructions"] == 20_000


def test_user_instructions_alone_can_be_exported(halfwink, tmp_path: Path):
    nginx = str(ROOT / "workloads/nginx.hwt")
    halfwink("trace", "export", nginx, "-o", "u.gz", "--mode", "user", "--limit", "5000")
    records = gzip.decompress((tmp_path / "u.gz").read_bytes())
    assert len(records) == 5000 * 64
    addresses = [int.from_bytes(records[n : n + 8], "little") for n in range(0, len(records), 64)]
    assert all(address < 1 << 47 for address in addresses)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "offset 0: the file is empty; expected a halfwink trace"),
        (b"hello", "offset 0: not a halfwink trace"),
        (b"\x1f\x8b\x08\x00" + b"x" * 60, "it looks like gzip"),
        (
            b"\x89HWT\r\n\x1a\n\x02\x00\x00\x00" + b"x" * 40,
            "format 2.0 is newer than this halfwink",
        ),
    ],
)
def test_a_file_that_is_no_trace_is_one_line(
    halfwink, tmp_path: Path, content: bytes, expected: str
):
    (tmp_path / "x.hwt").write_bytes(content)
    for command in (("trace", "info"), ("trace", "check"), ("compare",)):
        done = halfwink(*command, "x.hwt")
        assert done.status == 2
        assert expected in done.complaint
        assert done.complaint.startswith("x.hwt: offset ")


def test_a_cut_or_damaged_trace_is_one_line_with_the_offset(halfwink, tmp_path: Path):
    whole = (ROOT / "workloads/sqlite.hwt").read_bytes()
    (tmp_path / "cut.hwt").write_bytes(whole[:50_000])
    assert "cut.hwt: offset 50000: the file ends here" in halfwink("compare", "cut.hwt").complaint
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 0xFF
    (tmp_path / "bad.hwt").write_bytes(damaged)
    assert "corrupt" in halfwink("trace", "check", "bad.hwt").complaint
    assert halfwink("trace", "import", "cut.hwt", "-o", "y.hwt").status == 2
    assert not (tmp_path / "y.hwt").exists()


def test_a_recorded_workload_is_a_trace_everywhere_and_files_are_not_replaced_silently(
    halfwink, tmp_path: Path
):
    named, file = (
        halfwink("trace", "head", of, "-n", "3")
        for of in ("gzip", str(ROOT / "workloads/gzip.hwt"))
    )
    assert named.status == 0
    assert named.out == file.out
    wrong = halfwink("trace", "info", "gzp")
    assert wrong.status == 2
    assert "gzp: neither a file nor a recorded workload; did you mean `gzip`?" in wrong.err
    for words in (["check"], ["info"], ["caches"]):
        assert halfwink("trace", *words, "gzip").status == 0
    cut = ("trace", "slice", "gzip", "--keep", "2000", "-o", "cut.hwt")
    assert "replaced" not in halfwink(*cut).err
    assert "cut.hwt: replaced" in halfwink(*cut).err
    own = halfwink("trace", "slice", "cut.hwt", "-o", "cut.hwt")
    assert own.status == 2
    assert (tmp_path / "cut.hwt").stat().st_size > 0
    # A name that nobody chose replaces nothing.
    assert halfwink("trace", "export", "cut.hwt").status == 0
    again = halfwink("trace", "export", "cut.hwt")
    assert again.status == 2
    assert "cut.champsim.xz is there: expected -o FILE; -o cut.champsim.xz replaces it" in again.err
    assert halfwink("trace", "export", "cut.hwt", "-o", "cut.champsim.xz").status == 0


@pytest.mark.parametrize("count", ["-1", "18446744073709551616"])
def test_numbers_that_cannot_be_are_one_line(halfwink, count: str):
    done = halfwink("compare", "alu", f"-n={count}")
    assert done.status == 2
    assert done.err.startswith("halfwink: ")
    assert done.err.count("\n") == 1
    assert count in done.err
    assert "18446744073709551615" in done.err


def test_a_slice_keeps_what_it_should(halfwink):
    nginx = str(ROOT / "workloads/nginx.hwt")
    done = halfwink("trace", "slice", nginx, "-o", "s.hwt", "--skip", "2000000", "--keep", "500000")
    assert done.status == 0
    info = halfwink("trace", "info", "s.hwt", "--json").json()["facts"]
    assert 500_000 <= info["instructions"] < 500_200
    assert info["history"][-1].startswith("slice of 500000 instructions after 2000000")
    beyond = halfwink("trace", "slice", nginx, "-o", "t.hwt", "--skip", "99000000")
    assert beyond.status == 2


def test_a_study_runs_resumes_and_draws(halfwink, tmp_path: Path):
    (tmp_path / "s.toml").write_text(
        """
schema = 1
title = "wake-up latency"
workloads = ["chase"]
machines = ["in-order-1"]
techniques = ["always-on", "tap"]
instructions = 50000
[sweep]
"gating.wake_up_ns" = [2.0, 16.0]
[[plot]]
title = "saving"
mark = "line"
x = "gating.wake_up_ns"
y = "core_energy_saving_pct"
color = "technique"
"""
    )
    rows = halfwink("run", "s.toml", "-o", "out", "--json").rows("runs")
    saving = {(r["technique"], r["set"]): r["core_energy_saving_pct"] for r in rows}
    assert len(saving) == 4
    fast, slow = (saving["tap", f"gating.wake_up_ns={ns}"] for ns in ("2.0", "16.0"))
    assert fast > slow > 0
    assert "saving" in (tmp_path / "out/report.html").read_text()
    assert halfwink("report", "out").status == 0
    bad = halfwink("run", "s.toml", "--executor", "cloud://x")
    assert "unknown executor" in bad.complaint


def test_reproduce_tells_published_beside_ours(halfwink):
    done = halfwink("reproduce", "strong/PT-2.13", "strong/PT-2.15", "--json")
    entries = done.rows("targets")
    by_id = {e["id"]: e for e in entries}
    assert by_id["strong/PT-2.13/ev6"]["verdict"] == "input"
    assert by_id["strong/PT-2.13/ev6"]["published"] == 17.17
    keys = {"id", "area", "source", "quantity", "unit", "published", "ours", "class"}
    keys |= {"verdict", "held_out", "null", "killed_by", "how", "note"}
    assert all(set(e) == keys for e in entries)
    assert {e["verdict"] for e in entries} <= VERDICTS


#: What nothing of ours has the unit of.
WITHOUT_OURS = ("nellans/T6.27/nic-cpu", "nellans/T6.29/fewer-io", "nellans/T6.32")


def test_a_number_that_nothing_of_ours_has_the_unit_of_is_undetermined(halfwink):
    entries = halfwink("reproduce", *WITHOUT_OURS, "--json").rows("targets")
    found = {e["id"]: (e["ours"], e["verdict"]) for e in entries}
    assert found == dict.fromkeys(WITHOUT_OURS, (None, "undetermined"))


@pytest.mark.full("block")
def test_every_number_of_a_work_has_a_verdict(halfwink):
    entries = halfwink("reproduce", "storage", "--json").rows("targets")
    assert len(entries) == 98
    assert not [e["id"] for e in entries if e["verdict"] == "not-yet"]
    without = {e["id"]: e["verdict"] for e in entries if e["ours"] is None}
    assert without == dict.fromkeys(WITHOUT_OURS, "undetermined")


def test_doctor_names_what_is_missing_and_how_to_add_it(halfwink):
    findings = halfwink("doctor", "--json").rows("findings")
    names = {f["what"] for f in findings}
    assert {"halfwink", "python", "recorded workloads", "energy meter"} <= names
    assert all(f["fix"] for f in findings if not f["present"])


def test_help_and_version(halfwink):
    assert "compare" in halfwink("--help").out
    assert halfwink("--version").out.strip() == "0.1.0"
    assert json.dumps(halfwink("compare", "--help").status) == "0"


def on_a_terminal(folder: Path, columns: int, *words: str) -> list[str]:
    """What the command line shows on a terminal of so many columns, without colours."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (50, columns))
    command = [sys.executable, "-m", "halfwink", *words]
    env = {key: value for key, value in os.environ.items() if key != "COLUMNS"} | {"TERM": "xterm"}
    with subprocess.Popen(
        command, cwd=folder, env=env, stdout=theirs, stderr=subprocess.DEVNULL
    ) as shown:
        os.close(theirs)
        text = b""
        # A terminal whose last program has ended is read with an error.
        with contextlib.suppress(OSError):
            while more := os.read(ours, 1 << 16):
                text += more
    os.close(ours)
    assert shown.returncode == 0
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text.decode()).splitlines()


@pytest.mark.parametrize("workloads", [["nginx"], ["nginx", "chase:mb=64"]])
def test_a_table_fits_eighty_columns(tmp_path: Path, workloads: list[str]):
    words = ["compare", *workloads, "-t", "mapg-counter", "--instructions", "300000"]
    lines = on_a_terminal(tmp_path, 80, *words)
    assert not any("…" in line for line in lines), lines
    # The last line names the report's folder, however long that is.
    assert max(map(len, lines[:-1])) <= 80
    assert any(line.startswith(("mapg-counter", "nginx ")) for line in lines), lines
    # With room nothing is left out, nor where that was asked for.
    assert not any("work/s" in line for line in lines)
    assert any("work/s" in line for line in on_a_terminal(tmp_path, 200, *words))
    assert any("work/s" in line for line in on_a_terminal(tmp_path, 80, *words, "--wide"))


@pytest.mark.parametrize(
    "words",
    [
        ["hybrid", "-t", "always-on,progressive-backup", "--load", "10,30", "-q"],
        ["hybrid", "--load", "30", "--set", "faults.crash_every_s=30", "-q"],
        ["router", "ipv4@5,20", "-q"],
        ["router", "ipv4@5,20", "-t", "polling,napi", "--points", "-q"],
        ["circuits", "model", "--savings"],
        ["circuits", "simulate", "-m", "mordia"],
        ["compare", "nginx", "-n", "300000", "-t", "os-offload,ship", "-q"],
        ["trace", "info", "nginx"],
        ["trace", "kernel", "nginx"],
        ["doctor"],
    ],
    ids=" ".join,
)
def test_other_tables_fit_eighty_columns_too(tmp_path: Path, words: list[str]):
    lines = on_a_terminal(tmp_path, 80, *words)
    assert not any("…" in line for line in lines), lines
    # But for what has no space to break it at.
    assert max(len(line) for line in lines if " " in line.strip()) <= 80, lines


def test_a_chart_is_never_replaced_silently_nor_of_an_unknown_kind(halfwink, tmp_path: Path):
    words = ("circuits", "model", "--plot")
    assert halfwink(*words, "p.svg").err.startswith("figure: p.svg; caption: A core of circuits ")
    assert halfwink(*words, "p.svg").err.startswith("p.svg: replaced\nfigure: p.svg; caption: ")
    done = halfwink(*words, "p.xyz")
    assert done.status == 2
    assert done.complaint.startswith("p.xyz: expected a name that ends in .pdf, .svg")
    done = halfwink(*words, "nowhere/p.svg")
    assert done.complaint == "nowhere/p.svg: there is no folder nowhere"


def test_a_long_run_says_in_a_log_how_far_it_is(capsys, monkeypatch):
    now = 100.0
    monkeypatch.setattr(console.time, "monotonic", lambda: now)
    with console.progress_bar("claims") as report:
        for now in (100.0, 129.0, 131.0, 150.0, 162.0):
            report(batch.Progress(int(now), 500, 1, 2, "ps"))
    assert capsys.readouterr().err.splitlines() == [
        "claims: 131 of 500 runs, 31 s",
        "claims: 162 of 500 runs, 62 s",
    ]
    with console.progress_bar("claims", quiet=True) as report:
        now = 1000.0
        report(batch.Progress(1, 500, 1, 2, "ps"))
    assert capsys.readouterr().err == ""
