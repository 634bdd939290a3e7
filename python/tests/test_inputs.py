"""Files as strangers have them: what a reader cannot take is refused in one line, advice leads on,
and nothing that was kept of runs ends in a traceback. All commands: test_hostile_matrix."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import altair as alt
import polars as pl
import pytest
from conftest import Halfwink, need_recorder
from test_block_loads import machine

import halfwink as hw
from halfwink import inputs
from halfwink.cli.console import draw_chart, formula_safe
from halfwink.cli.results import draw
from halfwink.errors import HalfwinkError
from halfwink.live import block_loads
from halfwink.results.results import open_results, study_of
from halfwink.runs import studies

CORPUS = Path(__file__).parents[2] / "tests/corpus"
SERVER = ("hybrid", "readfile", "-t", "always-on")


def made(kind: str, folder: Path) -> Path:
    """A file of a kind that no reader expects."""
    path = folder / "a file.flows"
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "zero":
            return Path("/dev/zero")
        case "empty":
            path.touch()
        case "folder":
            path.mkdir()
        case "sparse":
            with path.open("wb") as file:
                file.truncate(1 << 40)
        case "utf-16":
            path.write_bytes("time,bytes\r\n0.5,1\r\n1.0,2\r\n".encode("utf-16"))
        case "bom":
            path.write_bytes(b"\xef\xbb\xbftime,bytes\n0.5,1\n1.0,2\n")
        case "crlf":
            path.write_bytes(b"time,bytes\r\n0.5,1\r\n1.0,2\r\n")
        case "zeros":
            path.write_bytes(bytes(1 << 16))
        case _:
            path = folder / "none"
    return path


KINDS = ("fifo", "zero", "empty", "folder", "sparse", "utf-16", "bom", "crlf", "zeros", "none")


def test_a_load_of_blocks_is_read_from_any_file_or_refused(tmp_path: Path):
    for kind in KINDS:
        (folder := tmp_path / kind).mkdir()
        with pytest.raises(HalfwinkError) as caught:
            block_loads.load_runs(machine([0, 1]), made(kind, folder), io_us=5)
        assert "\n" not in str(caught.value), kind


def test_python_reads_through_the_same_way(tmp_path: Path):
    for kind in ("fifo", "zero", "folder", "sparse", "none"):
        (folder := tmp_path / kind).mkdir()
        with pytest.raises(HalfwinkError):
            inputs.read_text(made(kind, folder))
    assert inputs.read_text(made("utf-16", tmp_path)).startswith("time,bytes")
    with pytest.raises(HalfwinkError, match="more than 5 bytes"):
        inputs.read_bytes(str(tmp_path / "a file.flows"), most=5)


def test_home_and_names_with_blanks_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, halfwink: Halfwink
):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "my log.csv").write_text("time,bytes\n0.5,1000\n1.0,2000\n")
    assert inputs.read_text("~/my log.csv").startswith("time")
    assert halfwink(*SERVER, "--load", "log:~/my log.csv").status == 0


#: File, what its error says, and what stands before its name then.
ADVICE = {
    "a unit": ("relative-ms.csv", "log:time-unit=ms:FILE", "time-unit=ms:"),
    "a column": ("no-time.csv", "log:time-column=NAME:FILE", "time-column=moment:"),
    "bad lines": ("mostly-bad.log", "`ignore=bad-lines:FILE`", "ignore=bad-lines:"),
}


@pytest.mark.parametrize("what", ADVICE)
def test_advice_about_a_log_leads_on(what: str, halfwink: Halfwink):
    name, said, reading = ADVICE[what]
    refused = halfwink(*SERVER, "--load", f"log:{CORPUS / name}")
    assert refused.status == 2
    assert said in refused.complaint
    assert halfwink(*SERVER, "--load", f"log:{reading}{CORPUS / name}").status == 0


def test_advice_about_a_job_leads_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def play(path: Path | str, ignore: tuple[str, ...] = ()) -> str:
        found = block_loads.load_runs(
            machine([0, 1]), path, io_us=5, policies=["single-thread"], ignore=ignore
        )
        return str(found.load["read_as"])

    with pytest.raises(HalfwinkError) as caught:
        play(CORPUS / "cpuio.fio")
    words = re.search(r"`--ignore ([^`]*)`", str(caught.value))
    assert words is not None
    assert "left out: cpuio" in play(CORPUS / "cpuio.fio", tuple(words[1].split(",")))
    with pytest.raises(HalfwinkError) as caught:
        play(CORPUS / "replays-iolog.fio")
    assert play(str(caught.value).partition("name that file: ")[2]).startswith("read as I/O log")
    with pytest.raises(HalfwinkError, match="BLOCK=VALUE halfwink"):
        play(CORPUS / "ncpus.fio")
    monkeypatch.setenv("BLOCK", "8k")
    assert play(CORPUS / "ncpus.fio").startswith("read as jobs of fio")
    with pytest.raises(HalfwinkError) as caught:
        play(CORPUS / "unknown-option.fio")
    nearest = re.search("did you mean `([^`]*)`", str(caught.value))
    assert nearest is not None
    text = (CORPUS / "unknown-option.fio").read_text().replace("iodept=", f"{nearest[1]}=")
    (tmp_path / "mended.fio").write_text(text)
    assert play(tmp_path / "mended.fio").startswith("read as jobs of fio")


def test_advice_about_a_trace_leads_on(tmp_path: Path, halfwink: Halfwink):
    path = str(CORPUS / "cloudsuite-as-own.xz")
    refused = halfwink("trace", "import", path, "-o", "a.hwt")
    assert refused.status == 2
    option, form = refused.err.split()[-2:]
    taken = halfwink("trace", "import", path, "-o", "a.hwt", option, form)
    assert taken.status == 0
    assert "40,000 instructions" in taken.err + taken.out


def test_advice_about_other_traces_leads_on(tmp_path: Path, halfwink: Halfwink):
    entries = tomllib.loads((CORPUS / "corpus.toml").read_text())["file"]
    others = [it["name"] for it in entries if "record -- PROGRAM" in it.get("next", "")]
    assert len(others) >= 8
    steps: set[str] = set()
    for name in others:
        # Numbers alone are of no format that `info` could name.
        commands = ("import",) if name == "dinero.din" else ("import", "info", "check")
        for command in commands:
            refused = halfwink("trace", command, str(CORPUS / name))
            assert refused.status == 2, name
            found = re.search("this is .*: `halfwink (.*)`", refused.err)
            assert found is not None, refused.err
            steps.add(found[1])
    # One step for all: it is taken once.
    assert len(steps) == 1
    (words,) = steps
    need_recorder()
    out = str(tmp_path / "a.hwt")
    command = words.replace("record", f"record -o {out}").replace("PROGRAM", "/bin/true").split()
    done = subprocess.run(
        [sys.executable, "-m", "halfwink", *command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert halfwink("trace", "info", out).status == 0
    records = halfwink("trace", "info", str(CORPUS / "champsim.bin"))
    step = re.search("`halfwink (trace import) FILE`", records.err)
    assert step is not None
    assert halfwink(*step[1].split(), str(CORPUS / "champsim.bin"), "-o", out).status == 0


def test_advice_about_flows_leads_on(tmp_path: Path, halfwink: Halfwink):
    listed = str(CORPUS / "nfdump.csv")
    refused = halfwink("circuits", "advise", listed)
    assert refused.status == 2
    step = refused.err.partition("servers: `")[2].rpartition("`")[0].replace("FILE", listed)
    subprocess.run(step, shell=True, check=True, cwd=tmp_path)
    lines = (tmp_path / "flows.txt").read_text()
    assert lines == "0 1 5000 0\n2 1 6000 1000000000\n"
    words = ("compare", str(CORPUS / "chakra-stg-numops/job.0.et"), "-w", "racks")
    refused = halfwink(*words, "-m", "opera-648", "-t", "packet-switch")
    assert refused.status == 2
    option, name = refused.err.split()[-2:]
    assert halfwink(*words, option, name, "-t", "packet-switch").status == 0


def test_a_dash_is_standard_input_where_a_file_is_taken(tmp_path: Path):
    with_input = [sys.executable, "-m", "halfwink", "idle", "-", "--json"]
    text = (CORPUS / "idle-perf.txt").read_text()
    days = [sys.executable, "-m", "halfwink", "advise", "nginx", "--day", "-", "--servers", "0"]
    for words, said in ((with_input, ""), (days, "servers: 0, expected 1 to")):
        content = text if words is with_input else "00:00,60\n00:01,600\n"
        done = subprocess.run(
            words, input=content, capture_output=True, text=True, check=False, cwd=tmp_path
        )
        assert said in done.stderr, done.stderr
        assert done.returncode == (2 if said else 0)


def test_range_exports_are_rates_through_the_command_line(halfwink: Halfwink):
    for name, told in (
        ("prometheus-range.json", "read as range export of Prometheus, 8 steps of 15 s"),
        ("grafana.csv", "read as rates by time, 8 steps of 60 s"),
        ("azure-functions-2019.csv", "3 functions, 1440 steps of 60 s"),
    ):
        found = hw.compare(
            "readfile", world="server", techniques="always-on", loads=f"counts:{CORPUS / name}"
        )
        assert told in found.runs.row(0, named=True)["read_as"], name
    refused = halfwink(*SERVER, "--load", f"log:{CORPUS / 'prometheus-range.json'}")
    assert "`--load counts:FILE` plays its rates" in refused.complaint


def test_times_of_service_are_played(tmp_path: Path):
    rows = "".join(f"{n * 10},2.0\n" for n in range(50))
    (tmp_path / "slow.csv").write_text(f"time,service_s\n{rows}")
    load = f"log:time-unit=s:{tmp_path / 'slow.csv'}"
    found = hw.compare("readfile", world="server", techniques="always-on", loads=load)
    run = found.runs.row(0, named=True)
    # The big machine takes two seconds, the small one no less.
    assert run["latency_mean_us"] >= 1_999_000
    assert "50 times of service" in run["read_as"]


def test_a_fabric_grows_to_its_file(halfwink: Halfwink):
    words = ("compare", str(CORPUS / "coflows-150.txt"), "-w", "racks", "-m", "opera-648")
    assert halfwink(*words, "-t", "packet-switch", "--json").status == 0
    refused = halfwink(*words, "-t", "packet-switch", "--set", "racks.count=108")
    assert "racks: found `150`, expected 1 to 108" in refused.err


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, small."""
    folder = tmp_path_factory.mktemp("kept") / "run"
    hw.compare("count@30", world="server", techniques=["hybrid"], out=folder, set={"seed": 1})
    return folder


def broken(run: Path, folder: Path) -> list[Path]:
    """Copies of a run, each with another damage."""
    copies: list[Path] = []

    def copy(name: str) -> Path:
        (own := folder / name).mkdir(parents=True)
        for path in run.iterdir():
            if path.is_file():
                (own / path.name).write_bytes(path.read_bytes())
        copies.append(own)
        return own

    table = "results.parquet"
    whole = (run / table).read_bytes()
    for at in (4, len(whole) // 2, len(whole) - 6):
        flipped = bytearray(whole)
        flipped[at] ^= 0x10
        (copy(f"flipped-{at}") / table).write_bytes(flipped)
    (copy("cut") / table).write_bytes(whole[: len(whole) // 2])
    (copy("empty") / table).write_bytes(b"")
    frame = pl.read_parquet(run / table)
    frame.drop("energy_j").write_parquet(copy("column") / table)
    frame.with_columns(pl.col("energy_j").cast(pl.String)).write_parquet(copy("kind") / table)
    frame.clear().write_parquet(copy("rows") / table)
    frame.rename({"technique": "other"}).write_parquet(copy("renamed") / table)
    (copy("study") / "study.toml").write_text("schema = 1\n")
    swapped = copy("swapped")
    (swapped / table).write_bytes((run / "ledger.parquet").read_bytes())
    return copies


def test_no_damage_of_a_run_ends_in_a_traceback(run: Path, tmp_path: Path, halfwink: Halfwink):
    for folder in broken(run, tmp_path / "runs"):
        for words in (
            ("report", str(folder), "-q"),
            ("query", str(folder)),
            ("query", str(folder), "select technique, energy_j from runs"),
        ):
            done = halfwink(*words)
            told = f"{folder.name} {words[0]}: {done.err}"
            assert not re.search("Traceback|unexpected", done.err), told
            assert done.status == 0 or len(done.err.strip().splitlines()) == 1, told


def test_an_index_lists_broken_runs_and_goes_on(run: Path, tmp_path: Path, halfwink: Halfwink):
    count = len(broken(run, tmp_path / "runs"))
    assert halfwink("report", str(tmp_path / "runs"), "--index").status == 0
    page = (tmp_path / "runs/index.html").read_text()
    assert page.count("cannot be read: ") >= count - 3


def test_what_nothing_tells_of_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    code = (
        "import halfwink.cli.commands as c\n"
        "from halfwink.cli.main import main\n"
        "def broken(*_a, **_k): raise KeyError('a\\nb')\n"
        "c.open_results = broken\n"
        f"main(['report', {str(tmp_path)!r}])"
    )
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("halfwink: unexpected KeyError (")
    assert done.stderr.count("\n") == 1
    shown = subprocess.run(
        words,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"HALFWINK_TRACEBACK": "1"},
    )
    assert "Traceback" in shown.stderr


HOSTILE = "<!--<script>"


def test_no_name_takes_charts_out_of_a_page(run: Path, tmp_path: Path):
    results = open_results(run)
    tables = {
        name: frame.with_columns(workload=pl.lit(HOSTILE))
        for name, frame in results.tables.items()
        if "workload" in frame.columns
    }
    hostile = hw.Results("server", tables, results.baseline, results.baseline_machine)
    draw(tmp_path, HOSTILE, hostile)
    page = (tmp_path / "report.html").read_text()
    scripts = re.findall(r"<script[^>]*>(.*?)</script>", page, re.DOTALL)
    assert all("<!--" not in script for script in scripts[1:])
    assert any("\\u003c!--" in script for script in scripts[1:])
    frame = pl.DataFrame({"a": [HOSTILE], "b": [1]})
    chart = alt.Chart(frame, title=HOSTILE).mark_bar().encode(x="a", y="b")
    draw_chart(chart, tmp_path / "chart.html")
    assert HOSTILE not in (tmp_path / "chart.html").read_text()


def test_cells_that_begin_a_formula_are_quoted(run: Path, tmp_path: Path, halfwink: Halfwink):
    texts = ["=1+1", "@x", "+a", "-b", "-1.5", "+2", "plain", None]
    quoted = formula_safe(pl.DataFrame({"a": texts, "n": range(8)}))
    assert quoted["a"].to_list() == ["'=1+1", "'@x", "'+a", "'-b", "-1.5", "+2", "plain", None]
    out = tmp_path / "a.csv"
    sql = "select '=1+1' as a from runs"
    assert halfwink("query", str(run), sql, "-o", str(out)).status == 0
    with out.open() as file:
        assert {row["a"] for row in csv.DictReader(file)} == {"'=1+1"}


def test_a_study_of_a_million_equal_names_is_refused_before_it_grows(tmp_path: Path):
    path = tmp_path / "many.toml"
    names = json.dumps(["count@30"] * 1_000_000)
    text = f'schema = 1\ntitle = "t"\nworld = "server"\nworkloads = {names}\n'
    path.write_text(f'{text}machines = ["niccolini"]\ntechniques = ["hybrid"]\n')
    with pytest.raises(HalfwinkError, match="stands there twice"):
        studies.run(str(path), out=tmp_path / "out")
    many = json.dumps([f"count@{n}" for n in range(1_000_001)])
    path.write_text(path.read_text().replace(names, many))
    with pytest.raises(HalfwinkError, match="1000001 runs; expected at most 1000000"):
        studies.run(str(path), out=tmp_path / "out")


def test_a_kept_study_is_read(run: Path):
    assert study_of(run)["world"] == "server"
